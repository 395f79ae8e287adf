#!/usr/bin/env python3
"""Draws fields that the solvers wrote as an SVG: a panel for each, under its title, with one scale of colours.

usage: picture.py OUT.svg ACROSS DOWN TITLE=FIELD.csv[:FIRST-LAST] ...

A field is a line for each moment or row, of numbers with commas between. ACROSS and DOWN name the axes and say how long they are, as t=0..150. Fields
over t, which is the lines' own axis, are turned so that time runs to the right.
"""
import base64
import struct
import sys
import zlib

COLOURS = [(0x2B, 0x3F, 0x8C), (0x6F, 0xA8, 0xD6), (0xF6, 0xF4, 0xEE), (0xE8, 0x9A, 0x6B), (0x9B, 0x22, 0x26)]


def read(source):
    path, _, lines = source.partition(":")
    with open(path) as f:
        rows = [[float(x) for x in line.strip().strip(",").split(",")] for line in f]
    if lines:
        first, last = lines.split("-")
        rows = rows[int(first) : int(last)]
    return rows


def palette():
    for i in range(256):
        x = i / 255 * (len(COLOURS) - 1)
        low, part = COLOURS[min(int(x), len(COLOURS) - 2)], x - min(int(x), len(COLOURS) - 2)
        high = COLOURS[min(int(x), len(COLOURS) - 2) + 1]
        yield bytes(round(a + part * (b - a)) for a, b in zip(low, high))


def png(rows, low, high):
    """A picture with a palette, a pixel for each number."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    span = high - low or 1
    pixels = b"".join(b"\0" + bytes(min(255, max(0, round((x - low) / span * 255))) for x in row) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", b"".join(palette())), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


def image(x, y, width, height, rows, low, high):
    data = base64.b64encode(png(rows, low, high)).decode()
    return f'<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'


def text(x, y, what, anchor="middle"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{what}</text>'


def main(out, across, down, *panels):
    fields = [(title, read(source)) for title, source in (p.rsplit("=", 1) for p in panels)]
    over_time = across.startswith("t")
    if over_time:
        fields = [(title, [list(column) for column in zip(*rows)][::-1]) for title, rows in fields]
    low = min(min(map(min, rows)) for _, rows in fields)
    high = max(max(map(max, rows)) for _, rows in fields)
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    width, height = (620, 120) if over_time else (200, 200)
    columns = 1 if over_time else len(fields)
    lines = len(fields) // columns

    def axis(name):
        label, ends = name.split("=")
        return (label, *ends.split(".."))

    svg = []
    for i, (title, rows) in enumerate(fields):
        x, y = 50 + i % columns * (width + 30), 30 + i // columns * (height + 40)
        svg += [text(x, y - 8, title, "start"), image(x, y, width, height, rows, low, high)]
        svg += [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="#555"/>']
        name, first, last = axis(across)
        svg += [text(x, y + height + 16, first), text(x + width / 2, y + height + 16, name), text(x + width, y + height + 16, last)]
        if i % columns == 0:
            name, first, last = axis(down)
            svg += [text(x - 6, y + height, first, "end"), text(x - 6, y + height / 2, name, "end"), text(x - 6, y + 10, last, "end")]
    x = 50 + columns * (width + 30)
    svg += [image(x - 10, 30, 14, height, [[high - (high - low) * j / 63] for j in range(64)], low, high)]
    svg += [text(x + 10, 40, f"{high:.2g}", "start"), text(x + 10, 30 + height, f"{low:.2g}", "start")]
    w, h = x + 60, 30 + lines * (height + 40)
    with open(out, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12" fill="#222">\n')
        f.write(f'<rect width="{w}" height="{h}" fill="white"/>\n' + "\n".join(svg) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
