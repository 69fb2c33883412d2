"""`ostinato source …`: HTTP APIs to fetch into tables."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ostinato.cli.client import path
from ostinato.cli.output import Column, FactsTable, Listing, Sentences, Several, Shown, at_length, show, when
from ostinato.cli.verbs import ApiCalls, files_in, verb
from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.definition import FirstFetch
from ostinato.shapes.documents import listed, read_file

source = typer.Typer(rich_markup_mode=None)
state = typer.Typer(rich_markup_mode=None, help="How far a source has read: get, set, reset.")
source.add_typer(state, name="state")
GROUPS: Final = {"source": source}


SourceArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a source.")]
FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="DIR|FILE...", help="YAML or JSON files, or folders of them.")
]


@source.command("apply")
@verb
def apply(
    api: ApiCalls,
    files: FilesArgument,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete sources that are not in the files; keep their rows.")
    ] = False,
    first_run: Annotated[
        FirstFetch | None,
        typer.Option(
            "--first-run", help="First run of new sources that do not say firstRun: from_rows counts from their rows."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a deletion.")] = False,
) -> None:
    """Make the sources match files. The plan is shown first."""
    body = {"sources": [each for file in files_in(files) for each in _definitions(file)], "prune": prune}
    if first_run is not None:
        body["first_run"] = first_run.value
    plan = api.post("/sources/apply", body | {"dry_run": True})
    if dry_run:
        api.tell(plan, lambda answer: _planned(answer, api))
        return
    if not api.as_json:
        show(_planned(plan, api))
    deleted = [each["name"] for each in plan["plan"] if each["change"] == "deleted"]
    if deleted and not yes:
        _ask(
            f"Delete {', '.join(deleted)}? Their stored rows stay.",
            "--prune would delete sources: confirm with --yes.",
        )
    done = api.post("/sources/apply", body | {"dry_run": False})
    api.tell(done, lambda answer: Sentences([_summary(answer)]))


@source.command("list")
@verb
def list_(api: ApiCalls) -> None:
    """List all sources, with their next run and their retry budget."""
    now = api.now()
    columns = (
        Column("Name", lambda row: row["name"], cut=True),
        Column("Status", lambda row: row["status"]),
        Column("Job", lambda row: row["job_status"]),
        Column("Table", lambda row: row["table"], spare=2, cut=True),
        Column("Schedule", lambda row: row["schedule"], spare=1, cut=True),
        Column("Next run", lambda row: when(row["next_run_at"], now)),
        Column("Last run", lambda row: row["last_run"] and row["last_run"]["outcome"]),
        Column("Records", lambda row: _counted(row["last_run"] or {}), spare=1),
        Column("Failures", lambda row: f"{row['retry_count']}/{row['max_retries']}", right=True),
        Column("Next retry", lambda row: when(row["next_retry_at"], now), spare=3),
    )
    api.tell(api.get("/sources"), lambda answer: Listing(columns, answer["sources"], "There are no sources."))


@source.command("show")
@verb
def show_(
    api: ApiCalls,
    name: SourceArgument,
    records: Annotated[int, typer.Option("--records", metavar="N", help="Also show the N newest rows.")] = 0,
) -> None:
    """Show a source: definition, state of its job, retry budget."""
    answer = api.get(path("sources", name))
    if records:
        answer["records"] = api.get(path("sources", name, "records"), limit=records)["records"]
    api.tell(answer, lambda answer: _whole(answer, api))


@source.command("run")
@verb
def run(
    api: ApiCalls,
    name: SourceArgument,
    allow_deletions: Annotated[
        bool, typer.Option("--allow-deletions", help="Delete rows beyond limits.maxDeleted in this run.")
    ] = False,
) -> None:
    """Run a source now, in addition to its schedule."""
    query = {"allow_deletions": "true"} if allow_deletions else {}
    answer = api.ask("POST", path("sources", name, "run"), query=query)
    api.tell(
        answer,
        lambda answer: Sentences([f"{answer['name']} was asked to run, and is {answer['job_status']} now."]),
    )


@source.command("delete")
@verb
def delete(
    api: ApiCalls,
    name: SourceArgument,
    with_data: Annotated[bool, typer.Option("--with-data", help="Also delete its stored rows.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a source with its history. A run in progress is asked to stop."""
    if not yes:
        rows = "deleted too" if with_data else "kept"
        _ask(
            f"Delete the source {name} with its history? Its stored rows are {rows}.",
            "Deleting a source deletes its history: confirm with --yes.",
        )
    answer = api.ask("DELETE", path("sources", name), query={"with_data": "true"} if with_data else {})
    api.tell(answer, lambda answer: Sentences([answer["message"]]))


@source.command("test")
@verb
def test(
    api: ApiCalls,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML or JSON file with one source.")],
) -> None:
    """Fetch and map one page, and show it as a table. Nothing is stored."""
    definitions = _definitions(file)
    if len(definitions) != 1:
        raise Invalid(f"{file} has {len(definitions)} sources: test one source at a time.")
    api.tell(api.post("/sources/test", definitions[0]), _tried)


# -- the state

PartOption = Annotated[str, typer.Option("--part", metavar="P", help="A part of the source.")]


@state.command("get")
@verb
def get_state(api: ApiCalls, name: SourceArgument) -> None:
    """Show how far a source has read."""
    now = api.now()
    columns = (
        Column("Part", lambda row: row["part"] or "all"),
        Column("Cursor", lambda row: row["cursor"]),
        Column("Saved", lambda row: when(row["saved_at"], now)),
    )
    api.tell(
        api.get(path("sources", name, "state")),
        lambda answer: Listing(columns, answer["states"], "This source has no state yet."),
    )


@state.command("set")
@verb
def set_state(
    api: ApiCalls,
    name: SourceArgument,
    cursor: Annotated[
        str, typer.Argument(metavar="CURSOR", help="The value from which the next run asks for records.")
    ],
    part: PartOption = "",
) -> None:
    """Set how far a source has read. Refused while it runs."""
    answer = api.ask(
        "PUT", path("sources", name, "state"), body={"cursor": cursor.removeprefix("cursor="), "part": part}
    )
    api.tell(answer, lambda answer: Sentences([f"{name} asks for records from {answer['cursor']} on."]))


@state.command("reset")
@verb
def reset_state(
    api: ApiCalls,
    name: SourceArgument,
    part: PartOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget how far a source has read: the next run begins anew. Refused while it runs."""
    if not yes:
        _ask(f"Let {name} fetch everything again?", "A reset fetches everything again: confirm with --yes.")
    answer = api.ask("DELETE", path("sources", name, "state"), query={"part": part} if part else {})
    api.tell(answer, lambda answer: Sentences([answer["message"]]))


# -- files


def _definitions(file: Path) -> list[Any]:
    found = [each for document in read_file(file) for each in listed(document, "sources")]
    if not found:
        raise Invalid(f"{file} contains no source.")
    return found


def _ask(question: str, otherwise: str) -> None:
    if not sys.stdin.isatty():
        raise Invalid(otherwise)
    typer.confirm(question, abort=True, err=True)


# -- output


def _planned(answer: Any, api: ApiCalls) -> Shown:
    now = api.now()
    columns = (
        Column("Source", lambda row: row["name"], cut=True),
        Column("Plan", lambda row: row["change"]),
        Column("Next run", lambda row: when(row["next_run_at"], now)),
        Column("Fields", lambda row: ", ".join(row["fields"]), spare=1, cut=True),
    )
    return Listing(columns, answer["plan"], "There is nothing to do.")


def _summary(answer: Any) -> str:
    changes = [each["change"] for each in answer["plan"]]
    counted = [(changes.count(word), word) for word in ("created", "changed", "deleted", "unchanged")]
    return "Applied: " + (", ".join(f"{count} {word}" for count, word in counted if count) or "nothing") + "."


def _whole(answer: Any, api: ApiCalls) -> Shown:
    now = api.now()
    last = answer["last_run"] or {}
    facts = FactsTable(
        {
            "Source": answer["name"],
            "Job": answer["id"],
            "Description": answer["description"],
            "Status": answer["status"],
            "Job status": answer["job_status"],
            "URL": answer["url"],
            "Table": answer["table"],
            "Schedule": answer["schedule"],
            "Next run": at_length(answer["next_run_at"], now),
            "Last run": f"{last['outcome']}, {at_length(last['at'], now)}" if last else None,
            "Records": _counted(last),
            "Last error": last.get("error"),
            "Retry count": f"{answer['retry_count']} of {answer['max_retries']}",
            "Period start": at_length(answer["period_start"], now),
            "Next retry": at_length(answer["next_retry_at"], now),
            "Problem": answer["flaw"],
        }
    )
    parts: list[Any] = [facts]
    if "records" in answer:
        parts += [Sentences([""]), _table(answer["records"])]
    return Several(parts)


def _counted(last: dict[str, Any]) -> str | None:
    """Return the number of records of the last run, and what they changed."""
    seen = last.get("items_crawled")
    if seen is None:
        return None
    new = last["items_indexed"] if last.get("inserted") is None else last["inserted"]
    more = [f"{last[name]} {name}" for name in ("updated", "deleted") if last.get(name)]
    return ", ".join([f"{seen}", f"{new} new", *more])


def _tried(answer: Any) -> Shown:
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    counted = f"{answer['records']} records, {answer['distinct']} distinct, {answer['rejected']} rejected"
    more = " There are more pages." if answer["more"] else ""
    sentences = ["", f"{counted}; nothing was stored.{more}"]
    sentences += [
        f"Record {each['record']}, field {each['field']}: {each['reason']}" for each in answer["rejections"][:10]
    ]
    return Several([_table(rows), Sentences(sentences)])


def _table(rows: list[dict[str, Any]]) -> Listing:
    names = list(rows[0]) if rows else []
    columns = [Column(name, lambda row, name=name: row[name], cut=True) for name in names]  # type: ignore[misc]
    return Listing(columns, rows, "There are no rows.")
