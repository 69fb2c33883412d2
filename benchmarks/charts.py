"""Bar charts as SVG, readable on light and dark pages."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

BAR, GAP, WIDTH, RIGHT = 20, 8, 420, 110
NARROWEST, LETTER = 230, 7.5  # of the labels, in pixels
COLOURS = {"ours": "#2a78b8", "peer": "#9aa5b1", "limit": "#d9b44a"}

Bar = tuple[str, float, str]  # label, value, kind


def write_bars(file: Path, title: str, bars: Sequence[Bar], unit: str, form: str = ",.0f") -> None:
    """Write a chart with a horizontal bar for each subject, on one linear scale."""
    greatest = max((value for _, value, _ in bars), default=1.0) or 1.0
    height = 40 + len(bars) * (BAR + GAP)
    left = max([NARROWEST, *(round(len(label) * LETTER) + 8 for label, _, _ in bars)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + WIDTH + RIGHT}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{escape(title)}">',
        "<style>text { fill: #333 } @media (prefers-color-scheme: dark) { text { fill: #ddd } }</style>",
        f'<text x="0" y="18" font-weight="bold">{escape(title)}</text>',
    ]
    for place, (label, value, kind) in enumerate(bars):
        top, length = 34 + place * (BAR + GAP), max(1.0, value / greatest * WIDTH)
        parts += [
            f'<text x="{left - 8}" y="{top + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2" fill="{COLOURS[kind]}"/>',
            f'<text x="{left + length + 6:.1f}" y="{top + 15}">{format(value, form)} {escape(unit)}</text>',
        ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([*parts, "</svg>"]) + "\n")
