"""The pictures of single tasks and jobs, and of what was spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from trace_bench.analysis.frames import SCORE
from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.records.rows import GAP, NORMALISED
from trace_bench.report.content import Report
from trace_bench.report.curves import AXES, Band, task_bands
from trace_bench.report.drawing import GRADIENT, Figure, Style, Trace, plain
from trace_bench.report.lineage import Candidate, JobLineage

MOST_TASKS = 24
"""Tasks with pictures of their own."""
MOST_POINTS = 200
"""Of one Pareto front."""

# -------------------------------------------------------------------------------------------------------- curves


def curve_figure(number: int, task: str, report: Report, style: Style) -> Figure | None:
    """Best score so far against each axis on which anything was spent."""
    steps = report.steps[report.steps["task"] == task]
    jobs = report.counted[report.counted["task"] == task]
    bands = task_bands(steps, jobs, report.configurations)
    if not bands:
        return None
    data: list[Trace] = []
    layout: dict[str, Any] = {}
    for panel, (axis, of_configuration) in enumerate(bands.items(), start=1):
        ax = "" if panel == 1 else str(panel)
        for configuration, one in of_configuration.items():
            data += _band_traces(configuration, one, style, ax)
        where = {"domain": _domain(panel, len(bands)), "rangemode": "tozero"}
        layout[f"xaxis{ax}"] = {**where, "title": {"text": AXES[axis]}}
        same: Trace = {"matches": "y", "showticklabels": False} if panel > 1 else {}
        layout[f"yaxis{ax}"] = {"anchor": f"x{ax}", "automargin": True, **same}
    layout["yaxis"]["title"] = {"text": f"best score so far<br>({report.better(task)})"}
    layout["showlegend"] = False
    label = f"Best score so far on {task} against {', '.join(AXES[axis] for axis in bands)}"
    return Figure(f"curve-{number}", label, data, layout, 380)


def _band_traces(configuration: str, one: Band, style: Style, ax: str) -> list[Trace]:
    single = len(one.grid) == 1
    common: Trace = {"type": "scatter", "x": list(one.grid), "xaxis": f"x{ax}", "yaxis": f"y{ax}"}
    edge = {**common, "mode": "lines", "line": {"width": 0, "shape": "hv"}, "hoverinfo": "skip"}
    middle = {
        **common,
        "y": list(one.median),
        "mode": "lines+markers" if single else "lines",
        "line": {**style.line(configuration), "shape": "hv"},
        "marker": style.marker(configuration, 10 if single else 1),
        "name": plain(configuration),
        "customdata": [
            f"{plain(configuration)}<br>median {m:.6g}, quartiles {low:.6g} … {high:.6g}, {one.seeds} seeds"
            for m, low, high in zip(one.median, one.lower, one.upper, strict=True)
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    if one.seeds < 2:
        return [middle]
    if single:
        middle["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [one.upper[0] - one.median[0]],
            "arrayminus": [one.median[0] - one.lower[0]],
        }
        return [middle]
    upper = {**edge, "y": list(one.upper), "fill": "tonexty", "fillcolor": style.faint(configuration)}
    return [{**edge, "y": list(one.lower)}, upper, middle]


def _domain(panel: int, panels: int) -> list[float]:
    gap = 0.03
    width = (1 - gap * (panels - 1)) / panels
    start = (panel - 1) * (width + gap)
    return [round(start, 4), round(min(start + width, 1.0), 4)]


# ------------------------------------------------------------------------------------------------- distributions


def distribution_figure(number: int, task: str, report: Report, style: Style) -> Figure | None:
    """Validation and held-out scores of all seeds by configuration."""
    jobs = report.counted[report.counted["task"] == task]
    panels = [("score_best", "validation score, which chose the state"), ("score_test", "held-out score")]
    panels = [(column, title) for column, title in panels if jobs[column].notna().any()]
    names = [name for name in report.configurations if (jobs["configuration"] == name).any()]
    if not panels:
        return None
    data: list[Trace] = []
    layout: dict[str, Any] = {"showlegend": False}
    for panel, (column, title) in enumerate(panels, start=1):
        ax = "" if panel == 1 else str(panel)
        for name in names:
            ours = jobs[(jobs["configuration"] == name) & jobs[column].notna()]
            data.append(
                {
                    "type": "box",
                    "orientation": "h",
                    "x": ours[column].tolist(),
                    "y": [plain(name)] * len(ours),
                    "name": plain(name),
                    "xaxis": f"x{ax}",
                    "boxpoints": "all",
                    "pointpos": 0,
                    "jitter": 0.5,
                    "marker": style.marker(name, 6),
                    "line": {"width": 1, "color": style.color(name)},
                    "fillcolor": style.faint(name),
                    "text": [f"seed {seed}" for seed in ours["seed"]],
                    "hovertemplate": "%{text}: %{x:.6g}<extra></extra>",
                }
            )
        layout[f"xaxis{ax}"] = {"domain": _domain(panel, len(panels)), "title": {"text": title}}
    order = [plain(name) for name in names]
    layout["yaxis"] = {"type": "category", "automargin": True, "categoryorder": "array", "categoryarray": order[::-1]}
    return Figure(
        f"distribution-{number}",
        f"Scores on {task} by configuration and seed",
        data,
        layout,
        110 + 42 * len(names),
    )


# -------------------------------------------------------------------------------------------------------- Pareto


def pareto_figure(number: int, task: str, report: Report, style: Style) -> Figure | None:
    """The fronts of the jobs that count and traded metrics off, on their first two metrics; of each configuration the
    one of the largest hypervolume as a line."""
    jobs = report.counted[(report.counted["task"] == task) & report.counted["pareto_path"].notna()]
    jobs = jobs[jobs["objective"] != "scalar"]
    data: list[Trace] = []
    axes: tuple[str, str] | None = None
    directions: Mapping[str, str] = {}
    drawn: set[str] = set()
    for row in jobs.sort_values("hypervolume", ascending=False, na_position="last", kind="stable").itertuples():
        front = _front(report, row.source, row.job_id)
        names = _objectives(front.metrics) if front else []
        if front is None or len(names) < 2:
            continue
        axes = axes or (names[0], names[1])
        directions = directions or front.metrics
        points = [point for point in front.points[:MOST_POINTS] if all(name in point.metrics for name in axes)]
        points.sort(key=lambda point: point.metrics[axes[0]] if axes else 0.0)
        first = row.configuration not in drawn
        drawn.add(row.configuration)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if first else "markers",
                "x": [point.metrics[axes[0]] for point in points],
                "y": [point.metrics[axes[1]] for point in points],
                "name": plain(row.configuration),
                "line": {**style.line(row.configuration), "width": 1},
                "marker": {**style.marker(row.configuration), "opacity": 1.0 if first else 0.4},
                "text": [
                    f"{plain(row.configuration)}, seed {row.seed}<br>{plain(point.candidate)}" for point in points
                ],
                "hovertemplate": "%{text}<br>%{x:.6g}, %{y:.6g}<extra></extra>",
            }
        )
    if axes is None:
        return None
    better = {"maximize": "higher is better", "minimize": "lower is better"}
    titles = [f"{plain(name)} ({better.get(directions.get(name, ''), '')})" for name in axes]
    layout = {
        "xaxis": {"title": {"text": titles[0]}},
        "yaxis": {"title": {"text": titles[1]}, "automargin": True},
        "showlegend": False,
    }
    return Figure(f"pareto-{number}", f"Pareto fronts on {task}: {axes[0]} against {axes[1]}", data, layout, 420)


def _front(report: Report, source: int, job_id: str) -> ParetoFront | None:
    try:
        front = read_model(ParetoFront, report.sources[source].layout.job(job_id).pareto.read_bytes())
    except (OSError, JsonError):
        return None
    return front


def _objectives(metrics: Iterable[str]) -> list[str]:
    """Without what is the score again: its normalised form, and the score itself where two others make it up."""
    names = [name for name in metrics if name not in (NORMALISED, GAP)]
    own = [name for name in names if name != SCORE]
    return own if len(own) > 1 else names


# ---------------------------------------------------------------------------------------------------- cost, trees


def cost_figure(report: Report, style: Style) -> Figure | None:
    """Means over all jobs that ran, by configuration: tokens, dollars, seconds."""
    jobs = report.jobs[report.jobs["status"] != "skipped"]
    panels = [("total_tokens", "tokens a job"), ("cost_usd", "US dollars a job"), ("time_seconds", "seconds a job")]
    panels = [(column, title) for column, title in panels if (jobs[column] > 0).any()]
    if not panels:
        return None
    names = [name for name in report.configurations if (jobs["configuration"] == name).any()]
    data: list[Trace] = []
    layout: dict[str, Any] = {"showlegend": False}
    for panel, (column, title) in enumerate(panels, start=1):
        ax = "" if panel == 1 else str(panel)
        means = jobs.groupby("configuration")[column].mean()
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": [None if math.isnan(mean) else float(mean) for mean in means.reindex(names)],
                "y": [plain(name) for name in names],
                "xaxis": f"x{ax}",
                "marker": {"color": [style.color(name) for name in names]},
                "hovertemplate": "%{y}<br>%{x:.4g}<extra></extra>",
            }
        )
        layout[f"xaxis{ax}"] = {"domain": _domain(panel, len(panels)), "title": {"text": title}}
    order = [plain(name) for name in names]
    layout["yaxis"] = {"type": "category", "automargin": True, "categoryorder": "array", "categoryarray": order[::-1]}
    return Figure("cost", "What a job cost, by configuration", data, layout, 110 + 34 * len(names))


def tree_figure(job: JobLineage, report: Report) -> Figure:
    """The candidates of one job: right is later, colour is the score; a click opens what a candidate changed."""
    nodes = job.candidates
    xs: list[float | None] = []
    ys: list[float | None] = []
    for node in nodes:
        if node.parent is not None:
            xs += [nodes[node.parent].x, node.x, None]
            ys += [nodes[node.parent].y, node.y, None]
    scores = [node.score for node in nodes]
    edges: Trace = {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": {"color": "#9a9a9a", "width": 1},
                    "hoverinfo": "skip", "showlegend": False}  # fmt: skip
    circles: Trace = {
        "type": "scatter",
        "mode": "markers+text" if len(nodes) <= 40 else "markers",
        "x": [node.x for node in nodes],
        "y": [node.y for node in nodes],
        "text": [f"{score:.4g}" for score in scores],
        "textposition": "top center",
        "textfont": {"size": 10},
        "customdata": [[number, _hover_text(node)] for number, node in enumerate(nodes)],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
        "showlegend": False,
        "marker": {
            "size": [18 if number == job.best else 13 for number in range(len(nodes))],
            "symbol": ["star" if number == job.best else "circle" if node.comparable else "circle-open"
                       for number, node in enumerate(nodes)],
            "color": scores,
            "colorscale": GRADIENT,
            "reversescale": report.signs[job.task] < 0,
            "line": {"width": 1, "color": "#666"},
            "colorbar": {"title": {"text": "score"}, "thickness": 10},
        },
    }  # fmt: skip
    leaves = max((node.y for node in nodes), default=0.0) + 1
    layout = {
        "xaxis": {"title": {"text": "step of the search"}, "dtick": 1 if max(n.x for n in nodes) < 20 else None},
        "yaxis": {"visible": False, "range": [-0.7, leaves - 0.2]},
        "clickmode": "event",
    }
    label = f"Candidates of job {job.job_id} as a tree: {len(nodes)}, the best a star"
    return Figure(f"tree-{job.key}", label, [edges, circles], layout, int(min(max(220, 90 + 34 * leaves), 900)))


def _hover_text(node: Candidate) -> str:
    score = f"{'score' if node.comparable else 'on a part of the examples'} {node.score:.6g}"
    return f"{plain(node.name)}, step {node.step}<br>{score}"
