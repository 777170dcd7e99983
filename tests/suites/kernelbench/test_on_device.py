"""The checks that people make on a GPU of theirs: on this machine's, if it has one, and that they work on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.suites.kernelbench import on_device  # noqa: E402
from tests.suites.kernelbench.on_device import CHECKS, STARTERS, Verdict, measure, page  # noqa: E402

FOLDER = next(path for path in STARTERS if path.name == "relu")


def test_kernels_are_judged_by_the_real_worker_without_a_container() -> None:
    sources = [(FOLDER / f"{name}.py").read_text() for name in ("template", "wrong")]
    right, wrong = measure("cpu", on_device._problem(FOLDER, "cpu"), sources, trials=9)
    assert right["speedup"] > 0 and "is wrong in trial" in wrong["refused"]
    (failed,) = measure("cpu", "no reference", [""])
    assert "ProblemError" in failed["failed"]


def test_all_verdicts_are_on_one_page() -> None:
    found = page("cpu", [Verdict("timing", "a", held, "so|so") for held in (True, False, None)])
    assert found.splitlines()[-3:] == [f"| timing | a | {word} | so\\|so |" for word in ("yes", "**no**", "not tried")]


@pytest.mark.parametrize("name", ["starters", "timing", "attacks"])
@pytest.mark.slow
def test_the_checks_themselves_hold_on_a_cpu(name: str) -> None:
    check, _ = CHECKS[name]
    verdicts = list(check("cpu", 2))
    # Two measurements say little of an interval.
    assert verdicts and all(one.held for one in verdicts if "as fast as itself" not in one.claim), verdicts


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")
@pytest.mark.parametrize("name", CHECKS)
def test_what_is_claimed_of_gpus_holds(name: str) -> None:
    check, wanted = CHECKS[name]
    broken = [one for one in check("cuda", wanted) if one.held is False]
    assert not broken, page("cuda", broken)


def test_the_command_names_a_module_that_is_there() -> None:
    script = (Path(__file__).parents[3] / "scripts" / "check-gpu").read_text()
    assert f"-m {on_device.__name__} " in script
