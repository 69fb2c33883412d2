"""The targets, each with its figure from the rows of a run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.catalogue import POSTGRES, REDIS, SQLITE
from benchmarks.measures.rounds import Row, of_rounds, ratios

Measured = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Verdict:
    """One target and its figure."""

    measure: str
    what: str
    wanted: str
    figure: str
    met: bool | None  # None: not measured


def verdicts(measured: Measured) -> list[Verdict]:
    """Return the verdicts of all targets that were measured."""
    return [verdict for letter, judge in JUDGES.items() if letter in measured for verdict in judge(measured[letter])]


def find(rows: Sequence[Row], module: str, store: str, setting: str = "") -> Row | None:
    for row in rows:
        if (row["module"], row["store"], row["setting"]) == (module, store, setting) and row["rounds"]:
            return row
    return None


def _ratio(letter: str, rows: Sequence[Row], store: str, peer: str, wanted: float, name: str = "per_second") -> Verdict:
    ours, theirs = find(rows, "ostinato", store), find(rows, peer, store)
    there = ratios(ours, theirs, name) if ours and theirs else []
    what = f"throughput on {store}, over {peer}"
    if not there:
        return Verdict(letter, what, f"≥ {wanted:g} ×", "not measured", None)
    each = " ".join(f"{ratio:.2f}" for ratio in there)
    return Verdict(letter, what, f"≥ {wanted:g} ×", f"{median(there):.2f} × (rounds {each})", median(there) >= wanted)


def _figure(
    letter: str, row: Row | None, name: str, what: str, limit: float, unit: str, *, most: bool = True,
    pick: Callable[[Sequence[float]], float] = median,
) -> Iterator[Verdict]:  # fmt: skip
    there = of_rounds(row, name) if row else []
    wanted = f"{'≤' if most else '≥'} {limit:,g} {unit}".strip()
    if not there:
        yield Verdict(letter, what, wanted, "not measured", None)
        return
    value = pick(there)
    met = value <= limit if most else value >= limit
    yield Verdict(letter, what, wanted, f"{value:,.{0 if value >= 1000 else 2}f} {unit}".strip(), met)


def _throughput(letter: str) -> Callable[[Sequence[Row]], Iterator[Verdict]]:
    def judge(rows: Sequence[Row]) -> Iterator[Verdict]:
        yield _ratio(letter, rows, POSTGRES, "pgqueuer", 1.2)
        if find(rows, "huey", SQLITE):
            yield _ratio(letter, rows, SQLITE, "huey", 5)
        if find(rows, "apscheduler", SQLITE):
            yield _ratio(letter, rows, SQLITE, "apscheduler", 15)

    return judge


def _enqueue(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store, limit in ((SQLITE, 50_000), (POSTGRES, 40_000)):
        row = find(rows, "ostinato", store)
        yield from _figure("E", row, "bulk", f"bulk enqueue on {store}", limit, "/s", most=False)


def _latency(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store in (SQLITE, POSTGRES):
        row = find(rows, "ostinato", store)
        yield from _figure("L", row, "p50", f"pickup on {store}, p50", 2, "ms")
        yield from _figure("L", row, "p99", f"pickup on {store}, p99", 6, "ms")
        yield from _figure("L", row, "idle_mb", f"idle worker on {store}", 60, "MB")
        yield from _figure("L", row, "idle_cpu", f"idle CPU on {store}", 1, "%")


def _recurring(rows: Sequence[Row]) -> Iterator[Verdict]:
    limits = {(SQLITE, 1000): 50, (POSTGRES, 1000): 80, (SQLITE, 5000): 250, (POSTGRES, 5000): 350}
    for (store, count), limit in limits.items():
        row = next((r for r in rows if r["ours"] and r["store"] == store and r["schedules"] == count), None)
        if row is None:
            continue
        where = f"{count:,} × every 1s on {store}"
        yield from _figure("R", row, "fired", f"{where}: fired", 100, "%", most=False, pick=min)
        yield from _figure("R", row, "skipped", f"{where}: skipped", 0, "", pick=max)
        yield from _figure("R", row, "early", f"{where}: early", 0, "", pick=max)
        yield from _figure("R", row, "p99", f"{where}: late, p99", limit, "ms")
        yield from _figure("R", row, "settle_wait", f"{where}: longest from start to settle", 0.5, "s", pick=max)


def _scale(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store in (SQLITE, POSTGRES):
        row = find(rows, "ostinato", store)
        many = int(of_rounds(row, "many")[0]) if row else 0
        for verb in ("fire", "claim"):
            what = f"{verb} beside {many:,} future jobs on {store}"
            yield _growth_of("S", row, f"{verb}_few", f"{verb}_many", what, 1.5)
        for name, what in (
            ("due", f"{many:,} due in five priorities"),
            ("backoff", f"{many // 10:,} in backoff"),
            ("unknown", f"{many // 10:,} of an unknown task"),
            ("unknown_worst", f"{many // 10:,} of an unknown task, the worst"),
        ):
            yield from _figure("S", row, f"claim_{name}", f"claim of 100, {what}, {store}", 10, "ms")


def _growth(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store in (SQLITE, POSTGRES):
        row = find(rows, "ostinato", store)
        history = int(of_rounds(row, "history")[0]) if row else 0
        for verb in ("fire", "claim", "settle"):
            what = f"{verb} beside {history:,} executions on {store}"
            yield _growth_of("G", row, f"{verb}_empty", f"{verb}_full", what, 1.3)
            yield _growth_of("G", row, f"{verb}_still_empty", f"{verb}_churned", f"{what}, after churn", 1.3)


def _growth_of(letter: str, row: Row | None, before: str, after: str, what: str, limit: float) -> Verdict:
    if row is None:
        return Verdict(letter, what, f"≤ {limit:g} ×", "not measured", None)
    first, second = median(of_rounds(row, before)), median(of_rounds(row, after))
    figure = f"{second / first:.2f} × ({first:.2f} → {second:.2f} ms)"
    return Verdict(letter, what, f"≤ {limit:g} ×", figure, second / first <= limit)


def _processes(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store, limit in ((SQLITE, 1.2), (POSTGRES, 1.5)):
        for setting in ("", "1 ms of work each"):
            row = find(rows, "ostinato", store, setting)
            what = f"two workers over one on {store}" + (f", {setting}" if setting else "")
            yield from _figure("M", row, "ratio", what, limit, "×", most=False)
        row = find(rows, "ostinato", store)
        yield from _figure("M", row, "least_share", f"the smaller share on {store}", 0.4, "", most=False)


def _threads(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store in (SQLITE, POSTGRES):
        there = _pairs(find(rows, "ostinato", store, "def tasks"), find(rows, "ostinato", store))
        figure = f"{median(there):.2f} ×" if there else "not measured"
        yield Verdict("D", f"def over async def on {store}", "≥ 0.7 ×", figure, median(there) >= 0.7 if there else None)


def _isolation(rows: Sequence[Row]) -> Iterator[Verdict]:
    for peer, setting in (("rq", "fork per job"), ("celery", "prefork")):
        for store in (SQLITE, POSTGRES):
            there = _pairs(find(rows, "ostinato", store, "two processes"), find(rows, peer, REDIS, setting))
            figure = f"{median(there):.2f} ×" if there else "not measured"
            what = f"runs in two processes on {store}, over {peer}"
            yield Verdict("P", what, "≥ 1 ×", figure, median(there) >= 1 if there else None)


def _pairs(over: Row | None, under: Row | None) -> list[float]:
    return ratios(over, under, "per_second") if over and under else []


def _sources(rows: Sequence[Row]) -> Iterator[Verdict]:
    for store in (SQLITE, POSTGRES):
        ours, theirs = find(rows, "fetching", store), find(rows, "dlt", store, "merge")
        faster = ratios(ours, theirs, "per_second") if ours and theirs else []
        growth = ratios(ours, theirs, "growth_mb") if ours and theirs else []
        for name, there, wanted, met in (
            ("records a second", faster, "≥ 5 ×", lambda ratio: ratio >= 5),
            ("memory growth", growth, "≤ 0.1 ×", lambda ratio: ratio <= 0.1),
        ):
            figure = f"{median(there):.2f} ×" if there else "not measured"
            yield Verdict("N", f"{name} on {store}, over dlt", wanted, figure, met(median(there)) if there else None)


def _footprint(rows: Sequence[Row]) -> Iterator[Verdict]:
    yield from _figure("F", find(rows, "ostinato", SQLITE), "import_ms", "import ostinato", 150, "ms")


JUDGES: dict[str, Callable[[Sequence[Row]], Iterator[Verdict]]] = {
    "T": _throughput("T"), "H": _throughput("H"), "E": _enqueue, "L": _latency, "F": _footprint, "D": _threads,
    "R": _recurring, "S": _scale, "G": _growth, "M": _processes,
    "P": _isolation, "N": _sources,
}  # fmt: skip


def share_of_limit(rows: Sequence[Row]) -> dict[str, float]:
    """Return Ostinato's throughput divided by the raw prototype's, by store."""
    found: dict[str, float] = {}
    for store in (SQLITE, POSTGRES):
        there = _pairs(find(rows, "ostinato", store), find(rows, "raw", store))
        if there:
            found[store] = median(there)
    return found


def as_json(verdict: Verdict) -> dict[str, Any]:
    return {"measure": verdict.measure, "what": verdict.what, "wanted": verdict.wanted, "figure": verdict.figure,
            "met": verdict.met}  # fmt: skip
