"""The programs that come with each problem do what their names say. How fast they are is measured, and no test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.suites.conftest import BuildTask  # noqa: E402
from trace_bench.worker.problem import CandidateError  # noqa: E402

ROOT = Path(__file__).parents[3] / "benchmarks" / "kernelbench"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/*/task.toml"))


def test_there_are_sixteen_of_three_levels() -> None:
    assert len(FOLDERS) >= 16 and {path.parent.name for path in FOLDERS} == {"level1", "level2", "level3"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_honest_programs_run_where_their_inputs_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever device that is: the one without data refuses what mixes it with another."""
    for filled in ("kaiming_uniform_", "uniform_", "normal_"):  # weights that nothing reads
        monkeypatch.setattr(torch.nn.init, filled, lambda tensor, *_, **__: tensor)
    problem: dict[str, Any] = {}
    exec((folder / "problem.py").read_text(), problem)
    for name in ("problem", "template", "alternative", "faster"):
        program: dict[str, Any] = {}
        exec((folder / f"{name}.py").read_text(), program)
        with torch.device("meta"), torch.no_grad():
            inputs = problem["get_inputs"]()
        model = program["Model" if name == "problem" else "ModelNew"](*problem["get_init_inputs"]())
        with torch.no_grad():
            found = model.to("meta")(*inputs)
        tensors = found if isinstance(found, (tuple, list)) else [found]
        assert {tensor.device.type for tensor in tensors} == {"meta"}, name


@pytest.mark.parametrize(
    "folder",
    [pytest.param(path, marks=() if path.name == "cumulative_mean" else pytest.mark.slow) for path in FOLDERS],
    ids=lambda path: path.name,
)
def test_programs_are_right_wrong_or_cheat_in_vain(folder: Path, build_task: BuildTask) -> None:
    problem = build_task(f"kernelbench:{folder.parent.name}/{folder.name}", trials=9)

    def measured(name: str) -> tuple[float, str, dict[str, float]]:
        found: tuple[float, str, dict[str, float]] = problem.guide(None, (folder / f"{name}.py").read_text(), None)
        return found

    for name in ("template", "alternative", "faster", "slower"):
        score, feedback, metrics = measured(name)
        assert score > 0 and metrics["correct"] == 1.0, (name, feedback)
    with pytest.raises(CandidateError, match="is wrong in trial"):
        measured("wrong")
    try:
        score, feedback, _ = measured("cheating")
    except CandidateError as error:
        assert error.phase in ("output", "call"), error
    else:  # it waits for a chance to cheat that does not come, and computes meanwhile
        assert score < 1.5, feedback
