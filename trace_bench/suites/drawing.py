"""Small pictures of instances and solutions, as SVG: a packing, a tour, a schedule, a fit.

Coordinates are the task's own, y pointing up; the drawing scales them to its width. The text is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#997700", "#44aa99", "#882255")
"""Paul Tol's bright scheme and three more, which colour-blind readers distinguish too."""
INK = "#333333"
_MARGIN = 14.0

Point = tuple[float, float]


def colour(number: int) -> str:
    """The colour of the thing with this number."""
    return COLOURS[number % len(COLOURS)]


class Drawing:
    """Shapes within ``left .. right`` and ``bottom .. top`` of the task's coordinates.

    Args:
        width: of the picture, pixels.
        height: pixels; None keeps the proportions.
    """

    def __init__(
        self, left: float, right: float, bottom: float, top: float, *, width: float = 420, height: float | None = None
    ) -> None:
        self._left, self._top = float(left), float(top)
        across, up = max(float(right) - left, 1e-12), max(float(top) - bottom, 1e-12)
        self._x = (width - 2 * _MARGIN) / across
        self._y = self._x if height is None else (height - 2 * _MARGIN) / up
        self._width, self._height = width, 2 * _MARGIN + up * self._y
        self._shapes: list[str] = []

    def circle(self, x: float, y: float, radius: float, *, fill: str = "none", line: str = INK) -> None:
        """A circle; `radius` in units of x."""
        cx, cy = self._at(x, y)
        self._add("circle", cx=cx, cy=cy, r=_short(radius * self._x), fill=fill, stroke=line, opacity="0.85")

    def dots(self, points: Iterable[Sequence[float]], *, fill: str = INK, size: float = 2.5) -> None:
        """Points, `size` pixels in radius."""
        for x, y in points:
            cx, cy = self._at(x, y)
            self._add("circle", cx=cx, cy=cy, r=_short(size), fill=fill)

    def rectangle(self, x: float, y: float, across: float, up: float, *, fill: str = "none", line: str = INK) -> None:
        """A rectangle by its lower left corner."""
        left, top = self._at(x, y + up)
        self._add("rect", x=left, y=top, width=_short(across * self._x), height=_short(up * self._y), fill=fill,
                  stroke=line)  # fmt: skip

    def path(self, points: Iterable[Sequence[float]], *, line: str = INK, closed: bool = False, thick: float = 1.2,
             dashed: bool = False) -> None:  # fmt: skip
        """A line through points."""
        listed = " ".join(",".join(self._at(x, y)) for x, y in points)
        kind = "polygon" if closed else "polyline"
        dash = {"stroke-dasharray": "4 3"} if dashed else {}
        self._add(kind, points=listed, fill="none", stroke=line, **{"stroke-width": _short(thick)}, **dash)

    def text(self, x: float, y: float, words: str, *, size: float = 10, middle: bool = True, fill: str = INK) -> None:
        """Words, centred on the point unless `middle` is False."""
        at_x, at_y = self._at(x, y)
        anchor = "middle" if middle else "start"
        self._shapes.append(
            f'<text x="{at_x}" y="{at_y}" font-size="{_short(size)}" font-family="sans-serif" text-anchor="{anchor}" '
            f'dominant-baseline="central" fill="{fill}">{escape(words)}</text>'
        )

    def svg(self, title: str = "") -> str:
        """The picture."""
        size = f'width="{_short(self._width)}" height="{_short(self._height)}"'
        box = f'viewBox="0 0 {_short(self._width)} {_short(self._height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img">'
        ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(title)}</title>", ground, *self._shapes, "</svg>", ""])

    def _add(self, kind: str, **attributes: str) -> None:
        listed = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        self._shapes.append(f"<{kind} {listed}/>")

    def _at(self, x: float, y: float) -> tuple[str, str]:
        return (_short(_MARGIN + (float(x) - self._left) * self._x), _short(_MARGIN + (self._top - float(y)) * self._y))


def schedule(rows: Sequence[Sequence[tuple[float, float, int]]], *, names: Sequence[str] = ()) -> Drawing:
    """A Gantt chart: of each row (machine, crew) its bars ``(start, end, number)``; the number gives the colour."""
    end = max((bar[1] for row in rows for bar in row), default=1.0)
    start = min((bar[0] for row in rows for bar in row), default=0.0)
    drawing = Drawing(start, end, 0, len(rows), width=560, height=28 + 18 * len(rows))
    for number, row in enumerate(rows):
        level = len(rows) - 1 - number
        for begin, finish, which in row:
            drawing.rectangle(begin, level + 0.1, finish - begin, 0.8, fill=colour(which), line="#ffffff")
        if number < len(names):
            drawing.text(start, level + 0.5, names[number], size=9, middle=False)
    return drawing


def chart(lines: Sequence[tuple[str, Sequence[Point]]], *, dots: Sequence[Point] = ()) -> Drawing:
    """Curves over one another, each with a name, and maybe measured points."""
    points = [point for _, line in lines for point in line] + list(dots)
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    low, high = min(ys), max(ys)
    drawing = Drawing(min(xs), max(xs), low, high + 0.12 * (high - low or 1.0), width=460, height=280)
    drawing.dots(dots, fill="#bbbbbb", size=1.5)
    for number, (name, line) in enumerate(lines):
        drawing.path(line, line=colour(number), thick=1.8)
        drawing.text(min(xs) + 0.02 * (max(xs) - min(xs)), high + (0.1 - 0.055 * number) * (high - low or 1.0), name,
                     middle=False, fill=colour(number))  # fmt: skip
    return drawing


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
