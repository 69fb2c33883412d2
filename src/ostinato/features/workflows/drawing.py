"""Drawings of workflows in SVG without inline styles: each node is in a column right of its predecessors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from ostinato.dashboard.formatting import SHAPES

WIDE, HIGH = 168, 46  # of a node
ACROSS, BETWEEN = 56, 16  # between columns, between nodes of one
EDGE: Final = 8
MOST_LETTERS: Final = 19
KNOWN: Final = {"ready": "queued", "waiting": "pending", "succeeded": "completed"}


@dataclass(frozen=True, slots=True)
class Node:
    """A node to draw: `under` is the second line, `state` one of formatting.SHAPES, `href` its link."""

    id: str
    under: str
    after: Sequence[str] = ()
    is_trigger: bool = False
    state: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and its upper left corner."""

    node: Node
    x: int
    y: int


def nodes_of(written: Sequence[Mapping[str, Any]], states: Mapping[str, str] = {}) -> list[Node]:
    """Read the nodes of a workflow definition, valid or not; `states` are the states of a run, by node id."""
    return [
        Node(
            str(node.get("id", "?")),
            str(node.get("task") or node.get("event") or node.get("type", "?")).removeprefix("trigger_"),
            _after(node.get("after")),
            "task" not in node,
            states.get(str(node.get("id")), ""),
        )
        for node in written
    ]


def _after(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, list) else ()


def drawn(nodes: Sequence[Node], label: str = "The steps of this workflow") -> Markup:
    """Draw the nodes, as wide as necessary."""
    placed = place(nodes)
    if not placed:
        return Markup("")
    wide = max(each.x for each in placed.values()) + WIDE + EDGE
    high = max(each.y for each in placed.values()) + HIGH + EDGE
    head = Markup('<svg class="graph" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="{2}" aria-label="{3}">')
    role = "group" if any(node.href for node in nodes) else "img"  # an element with the role img cannot contain links
    parts = [*_lines(placed), *map(_box, placed.values())]
    return head.format(wide, high, role, label) + Markup("").join(parts) + Markup("</svg>")


def place(nodes: Sequence[Node]) -> dict[str, Placed]:
    """Place the nodes. A node after itself, or after an unknown one, is drawn too."""
    known = {node.id: node for node in nodes}
    columns: dict[int, list[Node]] = {}
    depth = _depths(known)
    for node in known.values():
        columns.setdefault(depth[node.id], []).append(node)
    rows: dict[str, float] = {}
    placed: dict[str, Placed] = {}
    highest = max(map(len, columns.values()), default=0)
    for column in sorted(columns):
        inside = sorted(columns[column], key=lambda node: _middle(node, rows))
        top = (highest - len(inside)) * (HIGH + BETWEEN) // 2
        for row, node in enumerate(inside):
            y = EDGE + top + row * (HIGH + BETWEEN)
            rows[node.id] = y
            placed[node.id] = Placed(node, EDGE + column * (WIDE + ACROSS), y)
    return placed


def _depths(known: Mapping[str, Node]) -> dict[str, int]:
    """Return the longest path to each node; the number of rounds is limited, because of cycles."""
    depth = dict.fromkeys(known, 0)
    for _ in known:
        deeper = {
            name: max((depth[each] + 1 for each in node.after if each in known and each != name), default=0)
            for name, node in known.items()
        }
        if deeper == depth:
            break
        depth = deeper
    return {name: min(each, len(known)) for name, each in depth.items()}


def _middle(node: Node, rows: Mapping[str, float]) -> float:
    """Return the mean height of a node's predecessors, so that few lines cross."""
    found = [rows[each] for each in node.after if each in rows]
    return sum(found) / len(found) if found else 0.0


def _lines(placed: Mapping[str, Placed]) -> Iterator[Markup]:
    for to in placed.values():
        for name in to.node.after:
            if (begin := placed.get(name)) is not None and begin.x < to.x:
                x, y, x2, y2 = begin.x + WIDE, begin.y + HIGH // 2, to.x, to.y + HIGH // 2
                bend = max((x2 - x) // 2, 20)
                path = f"M{x} {y}C{x + bend} {y} {x2 - bend} {y2} {x2 - 6} {y2}"
                kind = to.node.state or "idle"
                yield Markup('<path class="line is-{}" d="{}"/><path class="tip" d="{}"/>').format(
                    KNOWN.get(kind, kind), path, f"M{x2 - 7} {y2 - 4}L{x2} {y2}L{x2 - 7} {y2 + 4}z"
                )


def _box(placed: Placed) -> Markup:
    node, x, y = placed.node, placed.x, placed.y
    state = KNOWN.get(node.state, node.state)
    title = f"{node.id}: {node.under}" + (f" ({node.state.replace('_', ' ')})" if node.state else "")
    inside = Markup(
        '<title>{}</title><rect class="box" x="{}" y="{}" width="{}" height="{}" rx="{}"/>'
        '<text class="id" x="{}" y="{}">{}</text><text class="under" x="{}" y="{}">{}</text>'
    ).format(
        title, x, y, WIDE, HIGH, HIGH // 2 if node.is_trigger else 7,
        x + 14, y + 20, _cut(node.id), x + 14, y + 36, _cut(node.under),
    )  # fmt: skip
    if state in SHAPES:
        inside += Markup(
            '<svg class="mark is-{}" x="{}" y="{}" width="14" height="14" viewBox="0 0 16 16">{}</svg>'
        ).format(state, x + WIDE - 24, y + 9, Markup(SHAPES[state]))
    kind = "node trigger" if node.is_trigger else "node"
    group = Markup('<g class="{} is-{}">{}</g>').format(kind, state or "idle", inside)
    return Markup('<a href="{}">{}</a>').format(node.href, group) if node.href else group


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
