"""Update of docs/benchmarks.md: figures go between its marks; the other text stays."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.charts import Bar, write_bars
from benchmarks.environments import ROOT
from benchmarks.measures.rounds import Row, of_rounds
from benchmarks.measures.running import middle
from benchmarks.report import SHAPES, cells, sorted_rows
from benchmarks.targets import Verdict, share_of_limit, verdicts

PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
PLACE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.S)

# letter → the figure in the chart: name, title, unit, form
CHARTS = {
    "T": ("per_second", "No-op jobs a second", "", ",.0f"),
    "H": ("per_second", "100,000 no-op jobs: jobs a second", "", ",.0f"),
    "E": ("single", "Enqueued a second, one by one", "", ",.0f"),
    "L": ("p50", "Pickup latency, p50", "ms", ",.2f"),
    "F": ("import_ms", "Import", "ms", ",.0f"),
    "D": ("per_second", "def and async def: jobs a second", "", ",.0f"),
    "P": ("per_second", "Runs in processes, two at once: jobs a second", "", ",.0f"),
    "A": ("list_rate", "GET /jobs, 200 readers: requests a second", "", ",.0f"),
    "N": ("per_second", "Records from an API into a table, a second", "", ",.0f"),
    "R": ("p99", "Lateness of recurring jobs, p99", "ms", ",.0f"),
    "S": ("claim_many", "A claim of 100 beside 1M future jobs", "ms", ",.2f"),
    "G": ("settle_full", "A settle of 100 beside much history", "ms", ",.2f"),
    "M": ("ratio", "Two workers over one", "×", ",.2f"),
}


def write(files: Sequence[Mapping[str, Any]]) -> None:
    """Replace the sections of all measures in the files; a later file has precedence."""
    measured = {letter: rows for figures in files for letter, rows in figures["measures"].items()}
    parts = {"targets": _targets(verdicts(measured)), "machine": "\n\n".join(map(_machine, files))}
    for letter, rows in measured.items():
        _draw(letter, rows)
        parts[letter] = _section(letter, rows)

    def renewed(found: re.Match[str]) -> str:
        return found[1] + parts[found[2]] + "\n" + found[3] if found[2] in parts else found[0]

    PAGE.write_text(PLACE.sub(renewed, PAGE.read_text()))


def _section(letter: str, rows: Sequence[Row]) -> str:
    shape = SHAPES[letter]
    head = ["subject", "store", *shape.columns]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * 2}{'--:|' * len(shape.columns)}"]
    for row in sorted_rows(letter, rows):
        name = f"**{row['subject']}**" if row["ours"] else row["subject"]
        lines.append(f"| {name} | {row['store']} | {' | '.join(cells(letter, row))} |")
    if letter in "TH":
        shares = [f"{share:.0%} on {store}" for store, share in share_of_limit(rows).items()]
        if shares:
            lines += ["", f"Our share of the raw prototype: {', '.join(shares)}."]
    return "\n".join([f"![{shape.title.replace('`', '')}](images/bench-{letter.lower()}.svg)", "", *lines])


def _draw(letter: str, rows: Sequence[Row]) -> None:
    name, title, unit, form = CHARTS[letter]
    bars: list[Bar] = []
    for row in sorted_rows(letter, rows):
        value = middle(of_rounds(row, name))
        if value is not None:
            kind = "ours" if row["ours"] else "limit" if row["module"] == "raw" else "peer"
            count = f" {row['schedules']:,}" if "schedules" in row else ""
            bars.append((f"{row['subject']}{count}, {row['store']}", value, kind))
    write_bars(IMAGES / f"bench-{letter.lower()}.svg", title, bars, unit, form)


def _targets(targets: Sequence[Verdict]) -> str:
    words = {True: "met", False: "**missed**", None: "not measured"}
    lines = ["| target | wanted | measured | |", "|---|---|---|---|"]
    lines += [f"| {each.what} | {each.wanted} | {each.figure} | {words[each.met]} |" for each in targets]
    return "\n".join(lines)


def _machine(figures: Mapping[str, Any]) -> str:
    machine = figures["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return (
        f"{', '.join(figures['measures'])}: measured at {figures['at']} (load {figures['load']:.1f} at the end; the "
        f"benchmarks alone make up to 2) on {machine['cores']} cores of {machine['processor']}, "
        f"{machine['memory_gb']} GB, "
        f"{machine['system']}; Python {machine['python']}, SQLite {machine['sqlite']}, PostgreSQL and Valkey from "
        f"wheels. {versions}."
    )
