"""`ostinato page …`: what crawls found."""

from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Column, FactsTable, Listing, Sentences, Several
from ostinato.cli.times import at_length, when
from ostinato.cli.verbs import ApiCalls, verb

page = typer.Typer(help="Pages that crawls found: list, search, show.", rich_markup_mode=None)

OfJob = Annotated[
    str | None, typer.Option("--job", metavar="JOB", help="Only what this job found: its id, or its key.")
]
OfHost = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Only pages of this host.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="How many at the most.", min=1, max=250)]
Offset = Annotated[int, typer.Option("--offset", metavar="N", help="Leave out the first so many.", min=0)]
NO_PAGE: Final = "No crawl has found a page yet: ostinato job list shows when each job runs."


@page.command("list")
@verb
def list_pages(
    api: ApiCalls, job: OfJob = None, host: OfHost = None, limit: Limit = 20, offset: Offset = 0
) -> None:
    """The pages that were fetched last."""
    now = api.now()
    columns = (
        Column("Id", lambda row: row["id"], spare=1),
        Column("Status", lambda row: row["status"] or "none", right=True),
        Column("Url", lambda row: row["url"], cut=True),
        Column("Title", lambda row: row["error"] or row["title"], cut=True),
        Column("Fetched", lambda row: when(row["fetched_at"], now)),
        Column("Changed", lambda row: when(row["changed_at"], now), spare=2),
    )
    answer = api.get("/pages", job=job, host=host, limit=limit, offset=offset)
    api.tell(answer, lambda told: Listing(columns, told["pages"], NO_PAGE))


@page.command("search")
@verb
def search_pages(
    api: ApiCalls,
    words: Annotated[list[str], typer.Argument(metavar="WORDS…", help='Words, "phrases", -without.')],
    job: OfJob = None,
    host: OfHost = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> None:
    """Pages with these words, the best first."""
    answer = api.get("/pages", q=" ".join(words), job=job, host=host, limit=limit, offset=offset)
    known = bool(answer["total"]) or bool(api.get("/pages", job=job, host=host, limit=1)["total"])
    api.tell(answer, _found if known else lambda _: Sentences([NO_PAGE]))


@page.command("show")
@verb
def show_page(
    api: ApiCalls, page: Annotated[str, typer.Argument(metavar="PAGE", help="The id of a page.")]
) -> None:
    """One page, with its text."""
    answer = api.get(path("pages", page))
    api.tell(answer, lambda told: _whole(told, api.now()))


def _found(told: Any) -> Any:
    if not told["pages"]:
        return Sentences(["No page has these words."])
    lines = [
        f"{each['title'] or '(no title)'}\n  {each['url']}\n  {' '.join(each['snippet'].split())}\n"
        for each in told["pages"]
    ]
    more = told["total"] - told["offset"] - len(told["pages"])
    return Sentences(
        [*lines, *([f"{more:,} more: --offset {told['offset'] + told['limit']}"] if more > 0 else [])]
    )


def _whole(told: Any, now: datetime) -> Several:
    facts = {
        "Url": told["url"], "Status": told["status"] or "none", "Error": told["error"], "Title": told["title"],
        "Description": told["description"], "Language": told["language"], "Type": told["content_type"],
        "Job": told["job_id"], "Depth": told["depth"], "Bytes": f"{told['size']:,}",
        "First seen": at_length(told["first_seen_at"], now), "Fetched": at_length(told["fetched_at"], now),
        "Changed": at_length(told["changed_at"], now), "Links": len(told["links"]),
        **told["columns"],
    }  # fmt: skip
    return Several([FactsTable(facts), Sentences(["", told["text"]])])
