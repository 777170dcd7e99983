"""The matrix of tasks by configurations: a mean in each cell, and a dot for each seed beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from trace_bench.analysis.frames import NORMALISED
from trace_bench.display.names import shortened
from trace_bench.report.content import Report
from trace_bench.report.drawing import GRADIENT, Figure, Style, Trace, plain, short, wrapped

MOST_ROWS, MOST_COLUMNS = 70, 24
WRAPPED = 5
"""Columns at most whose names stand upright, in several lines."""
_LONGEST = 46


@dataclass(frozen=True)
class Matrix:
    """Tasks × configurations. `cells` has what the colour says, from 0 (worst) to 1 (best) or as `normalised`; `texts`
    what is written in it; `dots` a row, a configuration, an x and a text for each seed. `left_out` configurations are
    not here."""

    tasks: tuple[str, ...]
    ways: tuple[str, ...]
    cells: list[list[float | None]]
    texts: list[list[str]]
    dots: list[tuple[int, str, float, str]]
    normalised: bool
    left_out: int = 0


def matrices(report: Report, most: int = MOST_ROWS) -> list[Matrix]:
    """At most two, each of `most` tasks: of tasks whose every job that counts has a normalised held-out score, and of
    the others by rank within the task."""
    jobs = report.counted
    whole = jobs.groupby("task")[f"{NORMALISED}_test"].apply(lambda column: bool(column.notna().all()))
    absolute = [task for task in report.tasks if whole.get(task, False)]
    relative = [task for task in report.tasks if task in whole.index and task not in absolute]
    found = []
    for tasks, normalised in ((absolute, True), (relative, False)):
        if tasks:
            found.append(_matrix(report, jobs, tuple(tasks[:most]), normalised=normalised))
    return found


def _matrix(report: Report, jobs: pd.DataFrame, tasks: tuple[str, ...], *, normalised: bool) -> Matrix:
    there = set(jobs.loc[jobs["task"].isin(tasks), "way"])
    every = [way for way in report.ways if way in there]
    ways = tuple(every[:MOST_COLUMNS])
    cells: list[list[float | None]] = []
    texts: list[list[str]] = []
    dots: list[tuple[int, str, float, str]] = []
    for row, task in enumerate(tasks):
        ours = jobs[(jobs["task"] == task) & jobs["way"].isin(ways)]
        column = f"{NORMALISED}_test" if normalised else _score_column(ours)
        means = ours.groupby("way")[column].mean()
        if normalised:
            shade, xs = means, ours[column]
            told = {way: f"{mean:.3f}" for way, mean in means.items()}
        else:
            sign = report.signs[task]
            ranks = (sign * means).rank(ascending=False, method="min")
            shade = 1 - (ranks - 1) / max(len(ranks) - 1, 1)
            low, high = (sign * ours[column]).min(), (sign * ours[column]).max()
            span = high - low
            xs = (sign * ours[column] - low) / span if 0 < span < math.inf else ours[column] * 0 + 1.0
            told = {way: f"{int(ranks[way])}. ({mean:.4g})" for way, mean in means.items()}
        cells.append([float(shade[way]) if way in shade.index else None for way in ways])
        texts.append([told.get(way, "") for way in ways])
        for x, way, seed, value in zip(xs, ours["way"], ours["seed"], ours[column], strict=True):
            dots.append((row, way, float(x), f"seed {seed}: {value:.6g}"))
    return Matrix(tasks, ways, cells, texts, dots, normalised, len(every) - len(ways))


def _score_column(jobs: pd.DataFrame) -> str:
    return "score_test" if jobs["score_test"].notna().all() else "score_best"


def matrix_figure(matrix: Matrix, report: Report, style: Style, name: str = "") -> Figure:
    """The matrix as a picture called `name`."""
    rows, ways = len(matrix.tasks), matrix.ways
    known = [cell for line in matrix.cells for cell in line if cell is not None]
    low = min(0.9, math.floor(min(known, default=0.0) * 10) / 10) if matrix.normalised else 0.0
    high = max(1.0, max(known, default=1.0)) if matrix.normalised else 1.0
    names = [short(task, report.tasks) for task in matrix.tasks]
    heat: Trace = {
        "type": "heatmap",
        "z": matrix.cells,
        "x": list(range(len(ways))),
        "y": list(range(rows)),
        "zmin": low,
        "zmax": high,
        "colorscale": GRADIENT,
        "xgap": 2,
        "ygap": 2,
        "customdata": [[f"{plain(task)}<br>{plain(way)}" for way in ways] for task in matrix.tasks],
        "text": [[plain(text) for text in line] for line in matrix.texts],
        "hovertemplate": "%{customdata}<br>%{text}<extra></extra>",
        "colorbar": {
            "title": {"text": "normalised" if matrix.normalised else "rank"},
            "thickness": 12,
            "x": 1.02,
            **({} if matrix.normalised else {"tickvals": [0, 1], "ticktext": ["last", "first"]}),
        },
    }
    annotations = [
        {
            "x": column,
            "y": row,
            "text": plain(text),
            "showarrow": False,
            "font": {"color": "#000" if (cell - low) > 0.55 * (high - low) else "#fff", "size": 12},
        }
        for row, (cells, texts) in enumerate(zip(matrix.cells, matrix.texts, strict=True))
        for column, (cell, text) in enumerate(zip(cells, texts, strict=True))
        if cell is not None
    ]
    dots: list[Trace] = []
    for number, way in enumerate(ways):
        ours = [dot for dot in matrix.dots if dot[1] == way]
        place = 0.35 * (2 * (number + 0.5) / len(ways) - 1)
        dots.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain(way),
                "xaxis": "x2",
                "x": [x for _, _, x, _ in ours],
                "y": [row + place for row, _, _, _ in ours],
                "marker": {**style.marker(way, 6), "opacity": 0.8},
                "customdata": [f"{plain(names[row])}<br>{plain(way)}<br>{plain(text)}" for row, _, _, text in ours],
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )
    slanted = len(ways) > WRAPPED
    labels = [plain(way) for way in shortened(ways, _LONGEST)] if slanted else [wrapped(way, 24) for way in ways]
    lines = max((label.count("<br>") + 1 for label in labels), default=1)
    top = 20 + 5 * max(map(len, labels)) if slanted else 30 + 15 * lines
    ticks: Trace = {"tickvals": list(range(len(ways))), "ticktext": labels, "tickangle": -45 if slanted else 0}
    what = "normalised" if matrix.normalised else "worst … best of the task"
    layout = {
        "xaxis": {**ticks, "domain": [0, 0.6], "showgrid": False, "zeroline": False, "side": "top"},
        "xaxis2": {"domain": [0.64, 1], "title": {"text": f"each seed ({what})"}, "zeroline": False},
        "yaxis": {
            "tickvals": list(range(rows)),
            "ticktext": [plain(name) for name in names],
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
        "annotations": annotations,
        "showlegend": False,
        "margin": {"t": top, "l": 130},
    }
    cell = "normalised held-out mean" if matrix.normalised else "rank"
    label = f"Matrix of {rows} tasks by {len(ways)} configurations: {cell}"
    name = name or ("matrix" if matrix.normalised else "matrix-ranks")
    return Figure(name, label, [heat, *dots], layout, top + 100 + max(60, 11 * len(ways)) * rows)
