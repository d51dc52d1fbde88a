#!/usr/bin/env python3
"""Draws unary calls over TCP of bench/service/run.py: raw TCP, the touch sinks, ours and the peers, one group a
payload size.

  bench/service/plot.py bench/results/nvidia-h200/service.json docs/images/service-h200.svg

Each payload size is drawn over eight connections; the longest bar of a group sets its scale. A line through a
bar's end goes from the lowest to the highest round. Needs Python 3.9 and nothing else.
"""
import json
import sys
from html import escape

CONNECTIONS = 8
# In the order in which they are drawn: server, backend, colour, height, what it is.
KINDS = [
    ("raw_tcp", "none", "#ffffff", 13, "raw TCP: the ceiling"),
    ("touch_sink_queues", "cpu", "#5f6b7a", 13, "touch sink"),
    ("touch_sink", "cpu", "#9aa0a6", 4, "touch sink, stock gRPC"),
    ("ours", "cpu", "#1a73e8", 13, "histogram-server on the CPU"),
    ("ours", "cuda", "#34a06f", 13, "histogram-server on the GPU"),
    ("ours", "auto", "#7b4fb5", 13, "histogram-server, auto"),
    ("peer_numpy", "python", "#e8a33d", 13, "the same API in Python, numpy"),
    ("peer_torch", "python", "#c5583e", 13, "the same API in Python, torch"),
]
WIDTH, LEFT, LABEL, STEP, GAP, TOP = 780, 80, 300, 17, 18, 92


def human(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def rate(row):
    if row["payload_bytes"] >= 65536:
        return f"{row['gbps']:.2f} GB/s"
    return f"{row['requests_per_second'] / 1e3:.1f} k/s"


def groups(rows):
    """(payload bytes, [(row, kind)]) of each size, for the kinds that were measured."""
    chosen = [r for r in rows if r["api"] == "compute" and r["transport"] == "tcp" and r["connections"] == CONNECTIONS
              and not r.get("float_bins")]
    for payload in sorted({r["payload_bytes"] for r in chosen}):
        of = {(r["server"], r["backend"]): r for r in chosen if r["payload_bytes"] == payload}
        yield payload, [(of[kind[:2]], kind) for kind in KINDS if kind[:2] in of]


def bar(row, kind, y, scale):
    _, _, colour, height, name = kind
    width = max(1.0, scale * row["requests_per_second"])
    outline = ' stroke="#5f6b7a" stroke-dasharray="4 2"' if row["server"] == "raw_tcp" else ""
    middle = y + 6.5
    parts = [f'<rect x="{LEFT}" y="{middle - height / 2}" width="{width:.1f}" height="{height}" fill="{colour}"{outline}/>']
    end = LEFT + width
    if "lowest" in row:
        low, high = LEFT + scale * row["lowest"], LEFT + scale * row["highest"]
        parts.append(f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="#202124"/>')
        end = max(end, high)
    parts.append(f'<text x="{end + 7:.1f}" y="{y + 11}">{rate(row)}  {escape(name)}</text>')
    return parts


def draw(result):
    parts, y = [], TOP
    for payload, rows in groups(result["rows"]):
        most = max(r.get("highest", r["requests_per_second"]) for r, _ in rows)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end" font-weight="bold">{human(payload)}</text>')
        for row, kind in rows:
            parts += bar(row, kind, y, (WIDTH - LEFT - LABEL) / most)
            y += STEP
        y += GAP
    commits = sorted({row.get("commit", result["commit"])[:7] for row in result["rows"]})
    where = f'{result["device"]} · {result["cores"]} cores · {result["date"]} · {", ".join(commits)}'
    head = (f'<text x="14" y="28" font-size="17" font-weight="bold">Unary calls over TCP, {CONNECTIONS} connections, '
            'every answer verified</text>'
            '<text x="14" y="49" fill="#555">Client and server on one machine. A sink reads and counts every byte, '
            'and does nothing else:</text>'
            '<text x="14" y="65" fill="#555">the least that a gRPC server can do. Longer is better; the longest bar of '
            'a group sets its scale.</text>'
            f'<text x="14" y="82" fill="#777">{escape(where)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="#202124">'
            f'<rect width="100%" height="100%" fill="#fff"/>{head}{"".join(parts)}</svg>\n')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as source:
        svg = draw(json.load(source))
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write(svg)


if __name__ == "__main__":
    main()
