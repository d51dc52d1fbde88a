#!/usr/bin/env python3
"""Draws the throughput rows of bench/service/run.py: sinks, ours and peers, one group a payload size.

  bench/service/plot.py bench/results/cpu-2core/service.json docs/images/service-cpu.svg

Bars are relative to the null sink of the same run, which is what gRPC itself carries; the absolute rate
stands at each bar's end. Unary calls over TCP; of each payload size the row with
the most servers in it, of those the one with the most connections.
Needs Python 3.9 and nothing else.
"""
import json
import sys
from html import escape

COLOURS = {"null_sink": "#9aa0a6", "touch_sink": "#5f6b7a", "ours": "#1a73e8", "peer_numpy": "#e8a33d",
           "peer_torch": "#c5583e", "peer_cupy": "#8e5bb5"}
NAMES = {"null_sink": "null sink: plain gRPC, payload not read", "touch_sink": "touch sink: one counting pass",
         "ours": "histogram-server", "peer_numpy": "Python + numpy", "peer_torch": "Python + torch"}
WIDTH, LEFT, BAR, GAP, TOP = 760, 92, 17, 22, 84


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
    chosen = [r for r in rows if r["api"] == "compute" and r["transport"] == "tcp" and r["server"] in COLOURS]
    for payload in sorted({r["payload_bytes"] for r in chosen}):
        same = [r for r in chosen if r["payload_bytes"] == payload]
        _, most = max((sum(r["connections"] == c for r in same), c) for c in {r["connections"] for r in same})
        chosen_rows = [r for r in same if r["connections"] == most]
        run = next(r["commit"] for r in chosen_rows if r["server"] == "null_sink")
        yield payload, most, [r for r in chosen_rows if r["commit"] == run]  # a file may hold several runs


def label(row):
    name = NAMES.get(row["server"], row["server"])
    return f"{name} ({row['backend']})" if row["server"] in ("ours", "touch_sink") else name


def draw(result):
    parts, y = [], TOP
    for payload, connections, rows in groups(result["rows"]):
        full = max(r["requests_per_second"] for r in rows)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end" font-weight="bold">{human(payload)}</text>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 28}" text-anchor="end" fill="#777">{connections} conn.</text>')
        for row in rows:
            width = max(1.0, (WIDTH - LEFT - 330) * row["requests_per_second"] / full)
            colour = COLOURS.get(row["server"], "#444")
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 3}" fill="{colour}"/>')
            text = f"{rate(row)}  {label(row)}" + ("" if row["valid"] else "  (client was the limit)")
            parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 11}">{escape(text)}</text>')
            y += BAR
        y += GAP
    commits = sorted({row.get("commit", result["commit"])[:7] for row in result["rows"]})
    where = f'{result.get("device", "")} · {result.get("cores", "?")} cores · {result["date"]} · {", ".join(commits)}'
    head = (f'<text x="14" y="28" font-size="17" font-weight="bold">Unary calls over TCP, every answer verified</text>'
            f'<text x="14" y="50" fill="#555">Client and server on one machine. Longer is better; '
            f'the longest bar of a group sets its scale.</text>'
            f'<text x="14" y="68" fill="#777">{escape(where)}</text>')
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
