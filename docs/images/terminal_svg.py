#!/usr/bin/env python3
"""Draws what commands print, as an SVG picture of a terminal.

  terminal_svg.py OUTPUT.svg COMMAND...     each COMMAND is one shell command line

The commands run for real; the picture shows their lines and what they printed. The bars' block
characters become rectangles, so that the picture does not depend on the reader's fonts. The pictures
in this folder were made with a server running, in the folder of the programs, and
  terminal_svg.py demo.svg 'histogram /usr/share/common-licenses/GPL-3 --alphabet a:26:6' \
    'histogram --server 127.0.0.1:50051 histogram-server --statistics --rows 8'
"""

import html
import os
import pathlib
import subprocess
import sys

COLUMNS = 80
CELL_WIDTH, LINE_HEIGHT, MARGIN, BAR_TOP, BAR_HEIGHT = 8.4, 19, 14, 4, 12
BLOCKS = {chr(0x2588 + i): 1 - i / 8 for i in range(8)}  # full block down to one eighth


def run(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": str(COLUMNS)})
    return [f"$ {command}", *done.stdout.rstrip("\n").split("\n"), ""]


def draw_line(line, top):
    """The shapes of one line: text runs at their columns, and one rectangle for each bar."""
    parts, column = [], 0
    while column < len(line):
        start = column
        if line[column] in BLOCKS:
            width = 0.0
            while column < len(line) and line[column] in BLOCKS:
                width += BLOCKS[line[column]]
                column += 1
            parts.append(f'<rect class="bar" x="{MARGIN + start * CELL_WIDTH:.1f}" y="{top + BAR_TOP}" '
                         f'width="{width * CELL_WIDTH:.1f}" height="{BAR_HEIGHT}"/>')
        else:
            while column < len(line) and line[column] not in BLOCKS and line[column:column + 2] != "  ":
                column += 1
            text = line[start:column]
            if text.strip():
                kind = ' class="command"' if line.startswith("$ ") else ""
                parts.append(
                    f'<text{kind} x="{MARGIN + start * CELL_WIDTH:.1f}" y="{top + 14}" '
                    f'textLength="{len(text) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs">'
                    f"{html.escape(text)}</text>")
            while column < len(line) and line[column] == " ":
                column += 1
    return parts


def main():
    output, commands = pathlib.Path(sys.argv[1]), sys.argv[2:]
    lines = [line for command in commands for line in run(command)][:-1]
    width = 2 * MARGIN + max(COLUMNS, *map(len, lines)) * CELL_WIDTH
    height = 2 * MARGIN + len(lines) * LINE_HEIGHT
    shapes = [shape for i, line in enumerate(lines)
              for shape in draw_line(line, MARGIN + i * LINE_HEIGHT)]
    output.write_text("\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{html.escape(commands[0])}">',
        "<style>text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d8dee9;"
        "white-space:pre}.command{fill:#a3be8c}.bar{fill:#5e9cd3}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1e2430"/>',
        *shapes, "</svg>", ""]))


if __name__ == "__main__":
    main()
