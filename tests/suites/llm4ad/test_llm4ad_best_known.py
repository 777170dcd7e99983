"""The tables of best known scores, and what was measured by them: of every task, in each size."""

from __future__ import annotations

import json
import math
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from benchmarks.LLM4AD.pages import best_known_of, measured_file
from tests.suites.llm4ad.conftest import folders, task_of
from trace_bench.suites.best_known import key_in, rough_digest
from trace_bench.suites.spec import resolve_eval_kwargs
from trace_bench.suites.splits import settings_of, split_seed
from trace_bench.worker.problem import BuildContext

TASKS = sorted(folders())
SIZES = ("small", "standard")
"""Those that every table has; larger instances are estimated where it has none."""
SEED = 123


def context_of(task: str, size: str) -> BuildContext:
    spec = task_of(task).spec
    kwargs = resolve_eval_kwargs(spec, {"size": size}, lambda key: key)
    return BuildContext(task_dir=folders()[task], spec=spec.raw, eval_kwargs=kwargs, seed=SEED, programs=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_sizes_levels_and_a_table_of_each_size(task: str) -> None:
    one = task_of(task)
    table = best_known_of(one.folder)
    assert set(one.spec.sizes) == {"small", "large"}
    assert one.spec.candidates is not None and 3 <= (one.spec.candidates.levels or 0) <= 6
    sign = 1 if one.spec.score.direction == "maximize" else -1
    for size in SIZES:
        context = context_of(task, size)
        count = context.eval_kwargs.get("n_instance") or one.spec.splits.train
        entries = table[size]["instances"]
        assert len(entries) == count, size
        assert all(sign * best >= sign * template and len(source) > 5 for template, best, source in entries.values())
        assert any(best != template for template, best, _ in entries.values())
        assert table[size]["template"] < table[size]["best"] or math.isclose(table[size]["best"], 1.0)


def first_of(task: str, size: str) -> dict[str, Any]:
    context = context_of(task, size)
    settings = {k: v for k, v in settings_of(context, "train").items() if k != "n_instance"}
    made = task_of(task).module.instance(np.random.default_rng([split_seed(context, "train"), 0]), **settings)
    assert isinstance(made, dict)
    return made


@pytest.mark.parametrize("task", TASKS)
def test_tables_are_of_the_instances_that_are_made_and_failure_and_range_hold_in_every_size(task: str) -> None:
    one = task_of(task)
    score, (low, high) = one.spec.score, one.spec.score.range or (-math.inf, math.inf)
    maximizes = score.direction == "maximize"
    for size in (*SIZES, "large"):
        first = first_of(task, size)
        worst, bound = one.judge.worst([first]), one.judge.best([first])
        assert score.failure <= worst if maximizes else score.failure >= worst, size
        assert low <= worst <= high and (bound is None or low <= bound <= high), size
        if size in SIZES:
            entries = best_known_of(one.folder)[size]["instances"]
            template, best, _ = entries[key_in(entries, first)]
            if bound is not None:
                slack = 1e-6 * (1 + abs(best))
                assert best <= bound + slack if maximizes else best >= bound - slack
            assert 0 <= one.judge.normalised(first, template) <= one.judge.normalised(first, best) + 1e-9


@pytest.mark.parametrize("task", TASKS)
def test_the_template_has_gap_0_and_levels_climb_to_the_reference(task: str) -> None:
    measured: dict[str, Any] = json.loads(measured_file().read_text())[task]
    gaps = {program["role"]: program["metrics"]["gap"] for program in measured["programs"]}
    assert gaps["template"] == pytest.approx(0, abs=1e-9)
    assert 0 < gaps["reference"] <= 1 + 1e-9
    assert gaps["worse"] < 0 and gaps["broken"] <= gaps["worse"] + 1e-9
    climb = [p["metrics"]["gap"] for p in measured["programs"] if p["role"] in ("level", "reference")]
    assert climb == sorted(set(climb)) and climb[0] >= 0
    candidates = task_of(task).spec.candidates
    assert candidates is not None and ("stateless" in gaps) == (candidates.stateless is not None)
    assert 0 < gaps.get("stateless", 1) <= 1 + 1e-9


def test_published_instances_are_named_as_files_are() -> None:
    known = {task: best_known_of(folders()[task]).get("files", {}) for task in TASKS}
    assert fmean(len(files) > 0 for files in known.values()) > 0.1
    for task, files in known.items():
        data = task_of(task).spec.data
        assert not files or data is not None
        for name, (best, source) in files.items():
            assert name == name.lower() and name.partition("#")[2].isdigit()
            assert math.isfinite(best) and len(source) > 10


def test_an_instance_is_known_where_the_last_bits_of_its_numbers_differ() -> None:
    """As from processor to processor; one whose numbers are others is another one."""
    task = next(task for task in TASKS if task.endswith("science_discovery/oscillator1"))
    one, context, first = task_of(task), context_of(task, "small"), first_of(task, "small")
    settings = {k: v for k, v in settings_of(context, "train").items() if k != "n_instance"}
    moved = {
        k: np.nextafter(v, np.inf) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for k, v in first.items()
    }
    assert any(v is not first[k] for k, v in moved.items())
    entries = best_known_of(one.folder)["small"]["instances"]
    assert key_in(entries, moved) == key_in(entries, first) == rough_digest(first) in entries
    other = one.module.instance(np.random.default_rng([split_seed(context, "train"), 99]), **settings)
    assert key_in(entries, other) not in entries
