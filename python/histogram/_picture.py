"""A histogram as text and as SVG."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ._result import Histogram

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TEXT_COLUMNS, _TEXT_LINES = 64, 4
_SVG_COLUMNS, _SVG_WIDTH, _SVG_HEIGHT = 256, 512, 128


def _summary(h: Histogram) -> str:
    rows = " x ".join(str(size) for size in h.counts().shape[:-1])
    bins = h.counts().shape[-1]
    if h.edges.ndim > 1:
        return f"{rows} rows of {bins:,} bins, each over its own range"
    form = "{}" if h.edges.dtype.kind in "mM" else "{:g}"
    first, last = form.format(h.edges[0]), form.format(h.edges[-1])
    between = f"{bins:,} bins over [{first}, {last}]"
    if rows:
        return f"{rows} rows of {between}"
    outside = ((h.below, "below"), (h.above, "above"), (h.nan, "NaN"))
    return ", ".join(
        [between, f"{h.samples:,} samples", *(f"{n:,} {name}" for n, name in outside if n)]
    )


def _columns(counts: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.float64]:
    """The height of each column, at most 1. A column shows the greatest count of its bins."""
    if len(counts) > limit:
        starts = np.arange(limit) * len(counts) // limit
        counts = np.maximum.reduceat(counts, starts)
    top = counts.max(initial=0)
    return counts / top if top else np.zeros(len(counts))


def _shows_blocks() -> bool:
    """Whether the encoding of the standard output has the blocks."""
    try:
        _BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def text(h: Histogram) -> str:
    summary = f"Histogram({_summary(h)})"
    counts = h.counts()
    if counts.ndim > 1 or not counts.any() or not _shows_blocks():
        return summary
    heights = _columns(counts, _TEXT_COLUMNS)
    repeat = max(1, _TEXT_COLUMNS // 2 // len(heights))
    steps = np.ceil(heights * 8 * _TEXT_LINES).astype(int)  # rounds up: a count above 0 is visible
    lines = []
    for line in reversed(range(_TEXT_LINES)):
        blocks = (_BLOCKS[min(8, max(0, step - 8 * line))] for step in steps)
        lines.append("".join(block * repeat for block in blocks).rstrip())
    return "\n".join([summary, *(line for line in lines if line)])


def html(h: Histogram) -> str:
    counts = h.counts()
    caption = f"<div>{_summary(h)}</div>"
    if counts.ndim > 1:
        return caption
    heights = _columns(counts, _SVG_COLUMNS)
    width = _SVG_WIDTH / len(heights)
    bars = "".join(
        f'<rect x="{i * width:.2f}" y="{_SVG_HEIGHT * (1 - height):.2f}" '
        f'width="{width:.2f}" height="{_SVG_HEIGHT * height:.2f}"/>'
        for i, height in enumerate(heights)
        if height > 0
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SVG_WIDTH}" height="{_SVG_HEIGHT}" '
        f'role="img" fill="#4878a8">{bars}</svg>{caption}'
    )
