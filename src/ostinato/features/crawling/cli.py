"""`ostinato page …`: crawled pages."""

from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Column, FactsTable, Listing, Sentences, Several, at_length, when
from ostinato.cli.verbs import ApiCalls, verb

page = typer.Typer(rich_markup_mode=None)
GROUPS: Final = {"page": page}

OfJob = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only pages found by this job (id or key).")]
OfHost = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Only pages of this host.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Maximum number of pages.", min=1, max=250)]
Offset = Annotated[int, typer.Option("--offset", metavar="N", help="Skip the first N pages.", min=0)]
NO_PAGE: Final = "No crawl has found a page yet: ostinato job list shows when each job runs."


@page.command("list")
@verb
def list_pages(api: ApiCalls, job: OfJob = None, host: OfHost = None, limit: Limit = 20, offset: Offset = 0) -> None:
    """List the pages that were fetched last."""
    now = api.now()
    columns = (
        Column("Id", lambda row: row["id"], spare=1),
        Column("Status", lambda row: row["status"] or "none", right=True),
        Column("URL", lambda row: row["url"], cut=True),
        Column("Title", lambda row: row["error"] or row["title"], cut=True),
        Column("Fetched", lambda row: when(row["fetched_at"], now)),
        Column("Changed", lambda row: when(row["changed_at"], now), spare=2),
    )
    answer = api.get("/pages", job=job, host=host, limit=limit, offset=offset)
    api.tell(answer, lambda answer: Listing(columns, answer["pages"], NO_PAGE))


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
    """Search the pages for words; the best matches come first."""
    answer = api.get("/pages", q=" ".join(words), job=job, host=host, limit=limit, offset=offset)
    known = bool(answer["total"]) or bool(api.get("/pages", job=job, host=host, limit=1)["total"])
    api.tell(answer, _found if known else lambda _: Sentences([NO_PAGE]))


@page.command("show")
@verb
def show_page(api: ApiCalls, page: Annotated[str, typer.Argument(metavar="PAGE", help="The id of a page.")]) -> None:
    """Show a page and its text."""
    answer = api.get(path("pages", page))
    api.tell(answer, lambda answer: _whole(answer, api.now()))


def _found(answer: Any) -> Any:
    if not answer["pages"]:
        return Sentences(["No pages match these words."])
    lines = [
        f"{each['title'] or '(no title)'}\n  {each['url']}\n  {' '.join(each['snippet'].split())}\n"
        for each in answer["pages"]
    ]
    more = answer["total"] - answer["offset"] - len(answer["pages"])
    return Sentences([*lines, *([f"{more:,} more: --offset {answer['offset'] + answer['limit']}"] if more > 0 else [])])


def _whole(answer: Any, now: datetime) -> Several:
    facts = {
        "URL": answer["url"], "Status": answer["status"] or "none", "Error": answer["error"], "Title": answer["title"],
        "Description": answer["description"], "Language": answer["language"], "Type": answer["content_type"],
        "Job": answer["job_id"], "Depth": answer["depth"], "Bytes": f"{answer['size']:,}",
        "First seen": at_length(answer["first_seen_at"], now), "Fetched": at_length(answer["fetched_at"], now),
        "Changed": at_length(answer["changed_at"], now), "Links": len(answer["links"]),
        **answer["columns"],
    }  # fmt: skip
    return Several([FactsTable(facts), Sentences(["", answer["text"]])])
