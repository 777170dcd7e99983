"""The benchmark of looking at large runs: what it makes is a run like any other, and it comes to its end."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.integration.files import values_in
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.artifacts.schema import validate
from trace_bench.audit.verify import audit
from trace_bench.records.reading import read_rows

FOLDER = Path(__file__).parents[1] / "benchmarks" / "perf"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("results_benchmark", FOLDER / "results.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, found)
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
def test_a_large_run_is_of_the_jobs_it_plans_and_fits_its_schemas(
    benchmark: Any, recorded: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunLayout(tmp_path / "runs" / "large")
    benchmark.expand(recorded, run, 300)
    rows = read_rows(run)
    assert len(rows) == 306 and {row.seed for row in rows} == set(range(1, 35))
    histories = [len(run.job(row.job_id).state_history.read_text().splitlines()) for row in rows]
    assert set(histories) == {benchmark.LINES}
    for path in sorted(run.job(rows[-1].job_id).root.rglob("*")):
        if path.is_file() and (schema := schema_of(run.relative(path))) is not None:
            for value in values_in(path):
                validate(schema, value)
    benchmark.measure(run, None, ["ls", "results"])
    shown = capsys.readouterr().out
    assert "306 jobs, 6,120 steps" in shown and "ls, exit code 0" in shown and "results, exit code 0" in shown


@pytest.mark.slow
def test_an_audit_of_a_large_run_finds_nothing(benchmark: Any, recorded: RunLayout, tmp_path: Path) -> None:
    run = RunLayout(tmp_path / "runs" / "large")
    benchmark.expand(recorded, run, 300)
    report = audit(run)
    assert report.ok, [claim for claim in report.claims if claim.verdict == "contradicted"]
    assert {claim.claim: claim.verdict for claim in report.claims}["files.schemas"] == "verified"
