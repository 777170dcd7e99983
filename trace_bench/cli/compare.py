"""``compare``: in what parts differ, by how much their scores do, and what could have been seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trace_bench.arguments import hint
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json
from trace_bench.cli.tables import emit_table, screen
from trace_bench.errors import ConfigError
from trace_bench.results.axes import UnfairComparison, refusal
from trace_bench.results.comparands import choose
from trace_bench.results.compare_text import Table, markdown, notes, sections
from trace_bench.results.comparison import Compared, compare
from trace_bench.results.detection import detected, methods
from trace_bench.results.parts import parse_where
from trace_bench.results.runs import find_run

FORMATS = ("table", "md", "json")
_ELASTIC = {"task": 20, "note": 20, "baseline": 10, "other": 10, "part": 16, "run": 10}
_SPARE = ("detectable", "p", "run")


@dataclass(frozen=True)
class Wanted:
    """The command's arguments, as typed."""

    runs: tuple[str, ...]
    wheres: tuple[str, ...]
    by: str | None
    baseline: str | None
    metric: str | None
    level: float
    strict: bool
    unprotected: bool
    failures_as_worst: bool
    form: str


def compare_command(wanted: Wanted, runs_dir: Path) -> None:
    """Print the comparison.

    Raises:
        ConfigError: there is no such run, part, metric or format, or the parts have no task in common.
        UnfairComparison: more than one axis differs, and `wanted` is strict; nothing was printed.
        HarnessError: a file of a run is damaged.
    """
    if wanted.form not in FORMATS:
        raise ConfigError(f"--format: there is no {printable(wanted.form)!r}{hint(wanted.form, FORMATS)}")
    layouts = [find_run(run, runs_dir) for run in wanted.runs]
    parts = choose(layouts, [parse_where(text) for text in wanted.wheres], wanted.by, wanted.baseline)
    if wanted.strict and (why := refusal(parts)):
        raise UnfairComparison(why)
    done = compare(
        parts,
        metric=wanted.metric,
        level=wanted.level,
        unprotected=wanted.unprotected,
        failures_as_worst=wanted.failures_as_worst,
    )
    if wanted.form == "json":
        emit_json(as_json(done))
    elif wanted.form == "md":
        emit(markdown(done).rstrip("\n"))
    else:
        _print(done)


def _print(done: Compared) -> None:
    at = screen()
    for place, section in enumerate(sections(done)):
        if place:
            emit()
        emit(at.strong(section.title) if at else section.title)
        for block in section.blocks:
            if isinstance(block, Table):
                elastic = {name: least for name, least in _ELASTIC.items() if name in block.header}
                emit_table(block.header, block.rows, block.numeric, elastic=elastic, spare=_SPARE)
            else:
                emit(block)


def as_json(done: Compared) -> dict[str, Any]:
    """Everything, in the names of the dataclasses."""
    found = asdict(done)
    found["metric"].pop("signs")
    return {
        **found,
        "alpha": done.alpha,
        "notes": notes(done),
        "detection": [line for one in done.comparisons for line in detected(done, one)],
        "methods": [{"name": name, "text": text} for name, text in methods(done)],
    }
