"""The tables: one for each measure, on the terminal and in the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.measures.rounds import Row, of_rounds
from benchmarks.measures.running import middle
from benchmarks.targets import Verdict, share_of_limit

Cell = Callable[[Row], str]


@dataclass(frozen=True)
class Shape:
    """How a measure is shown."""

    title: str
    columns: Mapping[str, Cell]
    order: str  # the figure that sorts it
    rising: bool = False  # whether the best is the smallest


def _number(name: str, form: str = ",.0f") -> Cell:
    def cell(row: Row) -> str:
        value = middle(of_rounds(row, name))
        return "–" if value is None else format(value, form)

    return cell


def _span(name: str) -> Cell:
    def cell(row: Row) -> str:
        values = of_rounds(row, name)
        return f"{min(values):,.0f} – {max(values):,.0f}" if values else "–"

    return cell


def _growth(verb: str) -> Cell:
    whens = ("empty", "full", "churned")
    return lambda row: " / ".join(_number(f"{verb}_{when}", ".2f")(row) for when in whens)


SHAPES: dict[str, Shape] = {
    "T": Shape("Throughput: no-op jobs, enqueued beforehand, one worker process", {
        "jobs/s": _number("per_second"), "least – most": _span("per_second"), "CPU µs/job": _number("cpu_us"),
        "jobs": _number("jobs")}, "per_second"),
    "H": Shape("Throughput with 100,000 jobs", {
        "jobs/s": _number("per_second"), "least – most": _span("per_second"), "CPU µs/job": _number("cpu_us"),
        }, "per_second"),
    "E": Shape("Enqueue: jobs a second from one process", {
        "one by one": _number("single"), "in bulk": _number("bulk")}, "single"),
    "L": Shape("Pickup latency: idle worker, another process enqueues", {
        "p50 ms": _number("p50", ",.2f"), "p99 ms": _number("p99", ",.2f"), "idle MB": _number("idle_mb"),
        "idle CPU %": _number("idle_cpu", ".1f")}, "p50", rising=True),
    "F": Shape("Import", {"import ms": _number("import_ms")}, "import_ms", rising=True),
    "D": Shape("`def` and `async def` tasks at the same concurrency", {
        "jobs/s": _number("per_second"), "CPU µs/job": _number("cpu_us")}, "per_second"),
    "P": Shape("Runs in processes of their own, two at once", {
        "jobs/s": _number("per_second"), "CPU µs/job": _number("cpu_us")}, "per_second"),
    "A": Shape("The HTTP API beside 10,000 jobs, 200 readers at once (wrk)", {
        "list, req/s": _number("list_rate"), "p50 ms": _number("list_p50"), "p99 ms": _number("list_p99"),
        "filter, req/s": _number("filter_rate"), "filter p99 ms": _number("filter_p99"),
        "counts, req/s": _number("counts_rate"), "counts p99 ms": _number("counts_p99")}, "list_rate"),
    "R": Shape("Recurring: jobs of `every 1s`, all due at the same instants, one process", {
        "schedules": lambda row: f"{row['schedules']:,}", "fired %": _number("fired", ".1f"),
        "skipped": _number("skipped"), "early": _number("early"), "late p50 ms": _number("p50"),
        "late p99 ms": _number("p99"),
        "start to settle s": _number("settle_wait", ".2f"), "CPU": _number("cpu", ".2f")}, "p99", rising=True),
    "S": Shape("Scale: ms for 100 jobs", {
        "fire, few": _number("fire_few", ".2f"), "fire, many": _number("fire_many", ".2f"),
        "claim, few": _number("claim_few", ".2f"), "claim, many": _number("claim_many", ".2f"),
        "claim, all due": _number("claim_due", ".2f"), "claim, backoff": _number("claim_backoff", ".2f"),
        "claim, unknown": _number("claim_unknown", ".2f"), "worst": _number("claim_unknown_worst", ".2f"),
        }, "fire_few", rising=True),
    "G": Shape("Growth: ms for 100 jobs, on empty tables / beside much history / after churn", {
        verb: _growth(verb) for verb in ("fire", "claim", "settle")}, "fire_empty", rising=True),
    "N": Shape("Records from an API on loopback into a table, 1,000 a page", {
        "records/s": _number("per_second"), "least – most": _span("per_second"),
        "CPU µs/record": _number("cpu_us"), "memory growth MB": _number("growth_mb", ",.1f"),
        "records": _number("records")}, "per_second"),
    "M": Shape("Many processes: one worker, two workers", {
        "one, jobs/s": _number("one"), "two, jobs/s": _number("two"), "two / one": _number("ratio", ".2f"),
        "smaller share": _number("least_share", ".0%"), "wait for write lock s": _number("longest_wait", ".3f"),
        "machine busy with one": _number("busy", ".0%"),
        }, "one"),
}  # fmt: skip


def sorted_rows(letter: str, rows: Sequence[Row]) -> list[Row]:
    shape = SHAPES[letter]

    def place(row: Row) -> tuple[bool, float]:
        value = middle(of_rounds(row, shape.order))
        return (value is None, 0.0 if value is None else value if shape.rising else -value)

    return sorted(rows, key=place)


def cells(letter: str, row: Row) -> list[str]:
    if not row["rounds"]:
        return [row["trouble"] or "not measured", *[""] * (len(SHAPES[letter].columns) - 1)]
    return [cell(row) for cell in SHAPES[letter].columns.values()]


def show(letter: str, rows: Sequence[Row], verdicts: Sequence[Verdict], console: Console) -> None:
    """One measure, with its targets below."""
    shape = SHAPES[letter]
    table = Table("subject", "store", *shape.columns, title=shape.title)
    for row in sorted_rows(letter, rows):
        style = "bold" if row["ours"] else "dim" if row["module"] == "raw" else None
        table.add_row(row["subject"], row["store"], *cells(letter, row), style=style)
    console.print(table)
    if letter in "TH":
        for store, share in share_of_limit(rows).items():
            console.print(f"  {store}: {share:.0%} of the raw prototype (the limit)", highlight=False)
    for verdict in verdicts:
        show_verdict(verdict, console)
    console.print()


def show_verdict(verdict: Verdict, console: Console) -> None:
    word, colour = {True: ("met", "green"), False: ("missed", "red"), None: ("?", "yellow")}[verdict.met]
    console.print(
        f"  [{colour}]{word:<6}[/] {verdict.what}: {verdict.figure}, wanted {verdict.wanted}", highlight=False
    )
