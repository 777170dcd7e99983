"""Trace-Bench measures LLM-driven optimizers in isolated, repeatable jobs.

From Python, what the command ``trace-bench`` does:

    import trace_bench
    config = trace_bench.load_config("smoke.yaml", {"max_workers": 2})
    config = trace_bench.load_config({"tasks": ["internal:numeric_param"], "trainers": ["PrioritySearch"]})
    jobs = trace_bench.expand(config)     # what would run
    result = trace_bench.run(config)      # a RunResult: rows, layout, ok, and frames: result.jobs()
    result = trace_bench.run(config, budget=trace_bench.Budget(calls=60))
    result = trace_bench.open_run("latest")
    trace_bench.evaluate("internal:numeric_param", {"guess": 2.5}).score
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_bench.api import Budget as Budget
    from trace_bench.api import RunResult as RunResult
    from trace_bench.api import evaluate as evaluate
    from trace_bench.api import evaluator as evaluator
    from trace_bench.api import expand as expand
    from trace_bench.api import load_config as load_config
    from trace_bench.api import open_run as open_run
    from trace_bench.api import run as run

__version__ = "0.1.0"
__all__ = ["Budget", "RunResult", "__version__", "evaluate", "evaluator", "expand", "load_config", "open_run", "run"]


_API = ("Budget", "RunResult", "evaluate", "evaluator", "expand", "load_config", "open_run", "run")
_PROTOTYPE = {"BenchRunner": "trace_bench.runner", "RunConfig": "trace_bench.config"}
"""Names that the Trace-Bench prototype has here; see `trace_bench.integrations`."""


def __getattr__(name: str) -> Any:
    # This package is imported inside sandboxes too, where nothing of the host's side is installed.
    if name in _API:
        return getattr(import_module("trace_bench.api"), name)
    if name in _PROTOTYPE:
        return getattr(import_module(_PROTOTYPE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_API} - {"Any", "TYPE_CHECKING", "annotations", "import_module", "_API"})
