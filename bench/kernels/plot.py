#!/usr/bin/env python3
"""Draws kernels.json as an SVG: each kernel's rate on each distribution, against the read ceiling.
Prints the same as a table in Markdown.

    bench/kernels/plot.py bench/results/nvidia-h200/kernels.json docs/images/kernels-h200.svg
"""
import json
import math
import sys
from html import escape

WIDTH, LEFT, RIGHT, TOP, ROW = 960, 160, 84, 78, 30
COLOURS = ["#3b6fb6", "#d1495b", "#edae49", "#66a182", "#8d6cab", "#4d9de0", "#9c6644", "#7a8450"]


def rows_of(results):
    """The kernels' rates at the largest size, 256 bins: {kernel: {distribution: gbps}}."""
    size = max(int(bytes_) for bytes_ in results["ceilings"]["read_gbps"])
    table = {}
    for row in results["kernels"]:
        if row["bytes"] == size or (row.get("prefix") and row["bytes"] > 1 << 20):
            table.setdefault(row["kernel"], {})[row["distribution"]] = row["gbps"]
    return size, table


def best_first(table):
    """The kernels, that with the best worst case first."""
    return sorted(table, key=lambda kernel: -min(table[kernel].values()))


def number(gbps):
    return f"{gbps:.0f}" if gbps >= 10 else f"{gbps:.1f}"


def draw(results):
    size, table = rows_of(results)
    ceiling = results["ceilings"]["read_gbps"][str(size)]
    kernels = best_first(table)
    distributions = list(next(iter(table.values())))
    low = 10 ** math.floor(math.log10(min(min(rates.values()) for rates in table.values())))
    height = TOP + ROW * len(kernels) + 56

    def x(gbps):
        span = math.log10(ceiling * 1.15 / low)
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(gbps / low) / span

    bottom = TOP + ROW * len(kernels)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16" font-weight="bold">Counting bytes on one '
        f'{escape(results["device"])}: 256 values, {size >> 20} MiB in device memory</text>',
    ]
    for i, name in enumerate(distributions):
        at = LEFT + i * 100
        out.append(f'<circle cx="{at}" cy="44" r="5" fill="{COLOURS[i % len(COLOURS)]}"/>')
        out.append(f'<text x="{at + 9}" y="48" font-size="11">{escape(name.replace("_", " "))}</text>')
    out.append(f'<text x="{WIDTH - 14}" y="{TOP - 12}" text-anchor="end" fill="#555">worst</text>')
    decade = low
    while decade < ceiling:
        out.append(f'<line x1="{x(decade):.1f}" y1="{TOP - 8}" x2="{x(decade):.1f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{x(decade):.1f}" y="{bottom + 18}" text-anchor="middle">{decade:g}</text>')
        decade *= 10
    out.append(f'<line x1="{x(ceiling):.1f}" y1="{TOP - 8}" x2="{x(ceiling):.1f}" y2="{bottom}" stroke="#222" stroke-dasharray="5 3"/>')
    out.append(f'<text x="{x(ceiling):.1f}" y="{bottom + 18}" text-anchor="middle" font-weight="bold">read {ceiling:.0f}</text>')
    out.append(f'<text x="{LEFT}" y="{bottom + 40}" fill="#555">GB/s, logarithmic; one dot a distribution, the bar goes from the worst to the best</text>')
    for i, kernel in enumerate(kernels):
        y = TOP + ROW * i + ROW / 2
        rates = table[kernel]
        out.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(kernel)}</text>')
        out.append(f'<line x1="{x(min(rates.values())):.1f}" y1="{y}" x2="{x(max(rates.values())):.1f}" y2="{y}" stroke="#bbb" stroke-width="7" stroke-linecap="round"/>')
        for j, name in enumerate(distributions):
            if name in rates:
                out.append(f'<circle cx="{x(rates[name]):.1f}" cy="{y}" r="4.5" fill="{COLOURS[j % len(COLOURS)]}" fill-opacity="0.85"/>')
        out.append(f'<text x="{WIDTH - 14}" y="{y + 4:.1f}" text-anchor="end">{number(min(rates.values()))}</text>')
    return "\n".join(out + ["</svg>", ""])


def share(part):
    return f"{part:.1%}".replace("%", " %") if part >= 0.01 else f"{part:.2%}".replace("%", " %")


def table_of(results):
    """GB/s, the kernel with the best worst case first; in the last column that worst case."""
    size, table = rows_of(results)
    ceiling = results["ceilings"]["read_gbps"][str(size)]
    distributions = list(next(iter(table.values())))
    lines = ["| GB/s | " + " | ".join(name.replace("_", " ") for name in distributions) + " | worst, of the ceiling |",
             "|---|" + "---|" * (len(distributions) + 1)]
    for kernel in best_first(table):
        rates = [table[kernel].get(name) for name in distributions]
        cells = " | ".join("" if rate is None else number(rate) for rate in rates)
        lines.append(f"| `{kernel}` | {cells} | {share(min(table[kernel].values()) / ceiling)} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(results))
    print(table_of(results))


if __name__ == "__main__":
    main()
