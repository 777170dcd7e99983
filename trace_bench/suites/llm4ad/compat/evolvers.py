"""Stand-ins for what evaluators import from OpenEvolve and ShinkaEvolve."""

from __future__ import annotations

import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

_ON_ERROR = {"combined_score": 0.0, "execution_time_mean": 0.0, "execution_time_std": 0.0, "num_valid_runs": 0}


@dataclass
class EvaluationResult:
    """Result of an evaluator of OpenEvolve: numbers by name, and texts for the optimizer."""

    metrics: dict[str, float]
    artifacts: dict[str, Any] = field(default_factory=dict)


def run_shinka_eval(
    program_path: str,
    results_dir: str,
    experiment_fn_name: str,
    num_runs: int,
    get_experiment_kwargs: Callable[[int], dict[str, Any]] | None = None,
    aggregate_metrics_fn: Callable[[list[Any]], dict[str, Any]] | None = None,
    validate_fn: Callable[[Any], tuple[bool, str | None]] | None = None,
    default_metrics_on_error: dict[str, Any] | None = None,
    **others: Any,
) -> tuple[dict[str, Any], bool, str | None]:
    """Call a function of the program several times, check each answer, and write ``metrics.json`` and
    ``correct.json``; return the metrics, whether all answers are valid, and the first error."""
    problems: list[str] = []
    answers, seconds = list[Any](), list[float]()
    try:
        experiment = getattr(_loaded(program_path), experiment_fn_name)
        for number in range(num_runs):
            given = get_experiment_kwargs(number) if get_experiment_kwargs else {"seed": number + 1}
            begin = time.perf_counter()
            answers.append(experiment(**given))
            seconds.append(time.perf_counter() - begin)
            valid, why = validate_fn(answers[-1]) if validate_fn else (True, None)
            if not valid:
                problems.append(f"Validation failed: {why or 'no reason given'}")
        metrics: dict[str, Any] = {"num_successful_runs": len(answers)}
        if aggregate_metrics_fn:
            metrics = aggregate_metrics_fn(answers)
        metrics["execution_time_mean"] = statistics.fmean(seconds) if seconds else 0.0
        metrics["execution_time_std"] = statistics.pstdev(seconds) if seconds else 0.0
    except Exception as error:
        metrics = dict(default_metrics_on_error or _ON_ERROR)
        problems.insert(0, f"{type(error).__name__}: {error}")
    metrics.pop("extra_data", None)
    folder = Path(results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    first = problems[0] if problems else None
    (folder / "metrics.json").write_text(json.dumps(metrics, default=str))
    (folder / "correct.json").write_text(json.dumps({"correct": not problems, "error": first}))
    return metrics, not problems, first


def _loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None, "the path ends in .py"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def modules() -> dict[str, ModuleType]:
    """The stand-ins by name."""
    names = ("openevolve", "openevolve.evaluation_result", "shinka", "shinka.core", "shinka.core.wrap_eval")
    found: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name, module in found.items():
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(found[parent], last, module)
    found["openevolve.evaluation_result"].EvaluationResult = EvaluationResult
    for name in ("shinka.core", "shinka.core.wrap_eval"):
        found[name].run_shinka_eval = run_shinka_eval
    return found
