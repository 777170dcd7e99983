"""``compare``: by how much the scores of parts differ, and on demand in what the parts do and what could be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trace_bench.analysis.axes import UnfairComparison, refusal
from trace_bench.analysis.comparison import Compared, compare
from trace_bench.analysis.comparison_groups import choose
from trace_bench.analysis.comparison_power import detected, methods
from trace_bench.analysis.comparison_text import Section, markdown, notes, sections, summary
from trace_bench.analysis.where import parse_where
from trace_bench.arguments import hint
from trace_bench.display.console import emit, emit_block, emit_json, emit_sentence, emit_table
from trace_bench.errors import ConfigError
from trace_bench.records.runs import find_run

FORMATS = ("table", "md", "json")


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
    explain: bool = False


def compare_command(wanted: Wanted, runs_dir: Path) -> None:
    """Print the comparison.

    Raises:
        ConfigError: there is no such run, part, metric or format, or the parts have no task in common.
        UnfairComparison: more than one axis differs, and `wanted` is strict; nothing was printed.
        HarnessError: a file of a run is damaged.
    """
    if wanted.form not in FORMATS:
        raise ConfigError(f"--format: there is no {wanted.form!r}{hint(wanted.form, FORMATS)}")
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
        return
    shown = sections(done) if wanted.explain else [summary(done)]
    if wanted.form == "md":
        emit_block(markdown(shown).rstrip("\n"))
    else:
        _print(shown)


def _print(shown: Sequence[Section]) -> None:
    for place, section in enumerate(shown):
        if place:
            emit()
        emit_sentence(section.title, strong=True)
        for block in section.blocks:
            if isinstance(block, str):
                emit_sentence(block)
            else:
                emit_table(block, by="configuration")


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
