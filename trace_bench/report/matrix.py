"""The matrix of tasks by configurations: a mean in each cell, and a dot for each seed beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from trace_bench.display.names import shortened
from trace_bench.records.rows import NORMALISED
from trace_bench.report.content import Report
from trace_bench.report.drawing import GRADIENT, LETTER, Figure, Style, Trace, plain, short, wrapped

MOST_ROWS, MOST_COLUMNS = 70, 24
WRAPPED = 5
"""Columns at most whose names stand upright, in several lines."""
_LONGEST = 46
_SCALE = 180
"""Pixels for the scale of colours and the margin beside it."""
_HEAT = 0.6
"""Share of the width that the cells have; the dots have the rest."""


@dataclass(frozen=True)
class Matrix:
    """Tasks × configurations. `cells` has what the colour says, from 0 (worst) to 1 (best) or as `normalised`; `texts`
    what is written in it; `dots` a row, a configuration, an x and a text for each seed. `left_out` configurations are
    not here."""

    tasks: tuple[str, ...]
    configurations: tuple[str, ...]
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
    there = set(jobs.loc[jobs["task"].isin(tasks), "configuration"])
    every = [name for name in report.configurations if name in there]
    configurations = tuple(every[:MOST_COLUMNS])
    cells: list[list[float | None]] = []
    texts: list[list[str]] = []
    dots: list[tuple[int, str, float, str]] = []
    for row, task in enumerate(tasks):
        ours = jobs[(jobs["task"] == task) & jobs["configuration"].isin(configurations)]
        held_out = normalised or ours["score_test"].notna().all()
        column = f"{NORMALISED}_test" if normalised else "score_test" if held_out else "score_best"
        values = ours[column]
        means = values.groupby(ours["configuration"]).mean().reindex(list(configurations))
        if normalised:
            shade, xs = means, values
            labels = [f"{mean:.3f}" for mean in means]
        else:
            ranks = (report.signs[task] * means).rank(ascending=False, method="min")
            shade = 1 - (ranks - 1) / max(ranks.count() - 1, 1)
            signed = report.signs[task] * values
            span = signed.max() - signed.min()
            xs = (signed - signed.min()) / span if 0 < span < math.inf else signed * 0 + 1.0
            labels = [f"{rank:.0f}. ({mean:.4g})" for rank, mean in zip(ranks, means, strict=True)]
        known = means.notna()
        cells.append([float(x) if is_known else None for x, is_known in zip(shade, known, strict=True)])
        texts.append([text if is_known else "" for text, is_known in zip(labels, known, strict=True)])
        for x, name, seed, value in zip(xs, ours["configuration"], ours["seed"], values, strict=True):
            dots.append((row, name, float(x), f"seed {seed}: {value:.6g}"))
    return Matrix(tasks, configurations, cells, texts, dots, normalised, len(every) - len(configurations))


def matrix_figure(matrix: Matrix, report: Report, style: Style, name: str = "") -> Figure:
    """The matrix as a picture called `name`."""
    rows, columns = len(matrix.tasks), len(matrix.configurations)
    tasks = [plain(short(task, report.tasks)) for task in matrix.tasks]
    slanted = columns > WRAPPED
    names = matrix.configurations
    labels = [plain(text) for text in shortened(names, _LONGEST)] if slanted else [wrapped(text, 24) for text in names]
    lines = max((label.count("<br>") + 1 for label in labels), default=1)
    top = 20 + 5 * max(map(len, labels)) if slanted else 30 + 15 * lines
    heat, annotations = _heat(matrix)
    ticks: Trace = {"tickvals": list(range(columns)), "ticktext": labels, "tickangle": -45 if slanted else 0}
    what = "normalised" if matrix.normalised else "worst … best of the task"
    hidden = {"showgrid": False, "zeroline": False}
    layout = {
        "xaxis": {**ticks, **hidden, "domain": [0, _HEAT], "side": "top"},
        "xaxis2": {"domain": [_HEAT + 0.04, 1], "title": {"text": f"each seed ({what})"}, "zeroline": False},
        "yaxis": {
            **hidden, "tickvals": list(range(rows)), "ticktext": tasks, "autorange": "reversed", "automargin": True,
        },
        "annotations": annotations,
        "showlegend": False,
        "margin": {"t": top, "l": 130},
    }  # fmt: skip
    cell = "normalised held-out mean" if matrix.normalised else "rank"
    label = f"Matrix of {rows} tasks by {columns} configurations: {cell}"
    name = name or ("matrix" if matrix.normalised else "matrix-ranks")
    data = [heat, *_dots(matrix, tasks, style)]
    return Figure(name, label, data, layout, top + 100 + max(60, 11 * columns) * rows, _width(matrix, labels, tasks))


def _width(matrix: Matrix, labels: list[str], tasks: list[str]) -> int:
    """The width at which neither names of columns nor texts of cells overlap."""
    cell = max((len(text) for line in matrix.texts for text in line), default=0)
    lines = [len(line) for label in labels for line in label.split("<br>")] if len(labels) <= WRAPPED else []
    column = LETTER * (max([cell, *lines], default=0) + 1)
    left = max(130, LETTER * (max(map(len, tasks), default=0) + 2))
    return left + math.ceil(max(column, 26) * len(labels) / _HEAT) + _SCALE


def _heat(matrix: Matrix) -> tuple[Trace, list[Trace]]:
    """The cells by colour, and the texts in them."""
    known = [cell for line in matrix.cells for cell in line if cell is not None]
    low = min(0.9, math.floor(min(known, default=0.0) * 10) / 10) if matrix.normalised else 0.0
    high = max(1.0, max(known, default=1.0)) if matrix.normalised else 1.0
    hover = [[f"{plain(task)}<br>{plain(name)}" for name in matrix.configurations] for task in matrix.tasks]
    ends: Trace = {} if matrix.normalised else {"tickvals": [0, 1], "ticktext": ["last", "first"]}
    title = {"text": "normalised" if matrix.normalised else "rank"}
    heat: Trace = {
        "type": "heatmap",
        "z": matrix.cells,
        "x": list(range(len(matrix.configurations))),
        "y": list(range(len(matrix.tasks))),
        "zmin": low,
        "zmax": high,
        "colorscale": GRADIENT,
        "xgap": 2,
        "ygap": 2,
        "customdata": hover,
        "text": [[plain(text) for text in line] for line in matrix.texts],
        "hovertemplate": "%{customdata}<br>%{text}<extra></extra>",
        "colorbar": {"title": title, "thickness": 12, "x": 1.02, **ends},
    }
    annotations: list[Trace] = [
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
    return heat, annotations


def _dots(matrix: Matrix, tasks: list[str], style: Style) -> list[Trace]:
    """A dot for each seed, in a row for each configuration."""
    found: list[Trace] = []
    for number, name in enumerate(matrix.configurations):
        ours = [dot for dot in matrix.dots if dot[1] == name]
        place = 0.35 * (2 * (number + 0.5) / len(matrix.configurations) - 1)
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain(name),
                "xaxis": "x2",
                "x": [x for _, _, x, _ in ours],
                "y": [row + place for row, _, _, _ in ours],
                "marker": {**style.marker(name, 6), "opacity": 0.8},
                "customdata": [f"{tasks[row]}<br>{plain(name)}<br>{plain(text)}" for row, _, _, text in ours],
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )
    return found
