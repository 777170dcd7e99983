"""The package from Python: what is in it, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import trace_bench


def test_completion_finds_the_functions_of_the_api_and_nothing_of_the_import_machinery() -> None:
    public = [name for name in dir(trace_bench) if not name.startswith("_")]
    assert {"RunResult", "expand", "load_config", "open_run", "run"} <= set(public)
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & set(public)
    assert all(hasattr(trace_bench, name) for name in dir(trace_bench))
    assert set(trace_bench.__all__) <= set(dir(trace_bench))


def test_the_import_alone_and_its_listing_load_nothing_of_the_host() -> None:
    code = (
        "import sys, trace_bench; dir(trace_bench); "
        "print(sorted(name for name in sys.modules if name.startswith('trace_bench.') or name in "
        "('pydantic', 'rich', 'docker', 'pandas', 'numpy', 'yaml', 'jsonschema')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_a_config_may_be_a_mapping_wherever_one_is_taken() -> None:
    jobs = trace_bench.expand(
        {"tasks": ["internal:numeric_param"], "trainers": ["NoOp", "PrioritySearch"], "seeds": [1, 2]}
    )
    assert [(job.trainer_id, job.seed) for job in jobs] == [
        ("NoOp", 1), ("NoOp", 2), ("PrioritySearch", 1), ("PrioritySearch", 2),
    ]  # fmt: skip
