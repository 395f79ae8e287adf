"""Draws the recorded episode that begins furthest from what is wanted, beside the same one with a proportional pump: draw.py episodes.csv OUT.svg"""
import sys

from baselines import PUMPS, play
from tanks import Tanks

WIDTH, HEIGHT, LEFT, TOP, GAP, PUMP_HEIGHT = 560, 220, 50, 30, 30, 80
STEPS, SHOWN, LEVELS = 100, 60, 1.2  # SHOWN of an episode's STEPS
TRAINED, OTHER, FIRST, WANTED = "#9b2226", "#2b3f8c", "#e89a6b", "#222"


def line(values, low, high, top, height, colour, more=""):
    points = " ".join("%.1f,%.1f" % (LEFT + t * WIDTH / SHOWN, top + height * (high - x) / (high - low)) for t, x in enumerate(values))
    return '<polyline points="%s" fill="none" stroke="%s" stroke-width="2" %s/>' % (points, colour, more)


def text(x, y, what, colour="#222", anchor="start"):
    return '<text x="%d" y="%d" fill="%s" text-anchor="%s">%s</text>' % (x, y, colour, anchor, what)


def frame(top, height, low, high, name):
    return [
        '<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>' % (LEFT, top, WIDTH, height),
        text(LEFT - 6, top + 10, high, anchor="end"), text(LEFT - 6, top + height, low, anchor="end"), text(LEFT, top - 8, name),
    ]


def main(episodes, out):
    with open(episodes) as file:
        rows = [[float(x) for x in row.split(",")] for row in file]
    rows = max((rows[i:i + STEPS] for i in range(0, len(rows), STEPS)), key=lambda rows: rows[0][2] - rows[0][1])
    first, second, wanted, action = zip(*rows[:SHOWN])
    tanks = Tanks()
    tanks.first, tanks.second, tanks.wanted = rows[0][:3]
    other = list(play(PUMPS["proportional to what is missing"], tanks, rows[0][:3]))[:SHOWN]
    pump_top = TOP + HEIGHT + GAP
    bottom = pump_top + PUMP_HEIGHT
    svg = frame(TOP, HEIGHT, 0, LEVELS, "levels") + frame(pump_top, PUMP_HEIGHT, -1, 1, "pump")
    svg += [
        line(wanted, 0, LEVELS, TOP, HEIGHT, WANTED, 'stroke-dasharray="4 4"'),
        line(first, 0, LEVELS, TOP, HEIGHT, FIRST),
        line([seen[1] for seen, _, _ in other], 0, LEVELS, TOP, HEIGHT, OTHER),
        line(second, 0, LEVELS, TOP, HEIGHT, TRAINED),
        line([a for _, a, _ in other], -1, 1, pump_top, PUMP_HEIGHT, OTHER),
        line([max(-1, min(1, a)) for a in action], -1, 1, pump_top, PUMP_HEIGHT, TRAINED),
        text(LEFT, bottom + 16, 0, anchor="middle"), text(LEFT + WIDTH, bottom + 16, SHOWN, anchor="middle"), text(LEFT + WIDTH / 2, bottom + 16, "step"),
    ]
    names = [(0, "wanted", WANTED), (80, "second tank, trained", TRAINED), (230, "second tank, proportional", OTHER), (420, "first tank, trained", FIRST)]
    svg += [text(LEFT + x, bottom + 36, name, colour) for x, name, colour in names]
    with open(out, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">\n' % (LEFT + WIDTH + 30, bottom + 50))
        file.write('<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(svg) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
