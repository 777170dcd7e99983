"""Each kernel that cheats beats a harness that believes too much, and gets no credit from our judge."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.forking import ForkingSpawner, spawner  # noqa: E402
from tests.suites.kernelbench.attacks import CREDIT, HONEST, PROBLEMS, Attack, all_attacks, by_kind, source_of  # noqa: E402
from tests.suites.kernelbench.naive import conclude, forked  # noqa: E402
from trace_bench.suites.kernelbench import bench as bench_module  # noqa: E402
from trace_bench.suites.kernelbench.bench import Bench  # noqa: E402
from trace_bench.suites.kernelbench.outputs import Outputs, Unequal  # noqa: E402
from trace_bench.suites.kernelbench.reference import Reference  # noqa: E402
from trace_bench.suites.kernelbench.timing import Speed  # noqa: E402
from trace_bench.worker.candidates import CandidatePrograms  # noqa: E402
from trace_bench.worker.problem import CandidateError, Limits, ProblemError  # noqa: E402

PATIENCE = 30.0
"""Seconds in which an attack has to beat the naive judge once."""
_ATTACKS = [attack for attack in all_attacks() if not attack.gpu]


def _attacks() -> list[object]:
    """All attacks; one of each kind runs without --full, since the judge takes seconds for each."""
    found = []
    for attacks in _kinds():
        for number, attack in enumerate(attacks):
            found.append(pytest.param(attack, marks=[pytest.mark.slow] if number else [], id=attack.name))
    return found


def _kinds() -> list[list[Attack]]:
    return [[attack for attack in attacks if not attack.gpu] for attacks in by_kind().values()]


@pytest.mark.slow
@pytest.mark.parametrize("attack", [pytest.param(kind[0], id=kind[0].name) for kind in _kinds() if kind])
def test_a_harness_that_believes_too_much_is_beaten(attack: Attack) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:  # a busy machine is no clock, and four tries may all meet the same busy second
        found = conclude(
            PROBLEMS[attack.problem], source_of(attack), attack.options, seconds=60 if attack.naive == CREDIT else 2
        )
        beaten = found is not None and found["correct"] and found["speedup"] >= attack.faster
        if attack.naive != CREDIT or beaten or time.monotonic() > deadline:
            break
    if attack.naive == CREDIT:
        assert found is not None and found["correct"] is True and found["speedup"] >= attack.faster, found
    else:
        assert found is None, found


@pytest.mark.parametrize("attack", _attacks())
def test_our_judge_gives_no_credit_and_goes_on(attack: Attack) -> None:
    spawner()
    found = forked(lambda: _judged(attack), 240, bare=False)
    if found is None:
        spawner.cache_clear()  # it may have an answer left for a judge that is gone
    assert found is not None, "the judge has not survived it"
    _told.update(found.pop("told"))
    if found["refused"] is None:
        assert re.fullmatch(attack.says, ""), found
        assert found["low"] <= attack.fair and found["best"] <= 2 * attack.fair, found
    else:
        assert attack.says and re.search(attack.says, found["refused"]), found
    assert found["honest"] > 0


_told: dict[str, tuple[dict[str, Any], int]] = {}
"""What the judge has found out about the references, which it need not find out for each attack."""


def _judged(attack: Attack) -> dict[str, Any]:
    """What the judge says of an attack, and the speed-up of an honest kernel afterwards."""
    programs: Any = CandidatePrograms(ForkingSpawner(), seed=1)  # type: ignore[arg-type]
    limits = Limits(wall_seconds=attack.wall_seconds, cpu_seconds=60, needs=frozenset({"machine_code"}))

    def bench_of(problem: str, trials: int) -> Bench:
        reference = Reference(PROBLEMS[problem], "problem.py", "float32")
        bench = Bench(programs, reference, limits, trials, threads=1)
        if problem in _told:
            bench.__dict__["_outputs"] = Outputs(*_told[problem])
        return bench

    bench = bench_of(attack.problem, attack.trials)
    best: list[float] = []  # by the shortest times, which a busy machine makes longer the least
    measured = bench_module.speed

    def speed(reference: list[list[float]], candidate: list[list[float]], empty: list[list[float]]) -> Speed:
        shortest = [min(map(min, times)) for times in (reference, candidate, empty)]
        ours, theirs = (seconds - shortest[2] for seconds in shortest[:2])
        best.append(ours / max(theirs, 0.05 * ours))
        return measured(reference, candidate, empty)

    bench_module.speed = speed  # in this process, which is the test's alone
    found: dict[str, Any] = {}
    for _ in range(attack.runs):
        try:
            of = bench.measure(source_of(attack))
            found = {"refused": None, "low": of.low, "speedup": of.speedup, "high": of.high, "best": best[-1]}
        except (Unequal, CandidateError, ProblemError) as error:
            found = {"refused": str(error)}
    other = bench_of("steps", 6)
    honest = other.measure(HONEST).speedup
    known = {attack.problem: bench, "steps": other}
    told = {name: (one._outputs.told, one._outputs.place) for name, one in known.items() if "_outputs" in vars(one)}
    return found | {"honest": honest, "told": told}


def test_attacks_are_many_and_have_names_of_their_own() -> None:
    names = [attack.name for attack in all_attacks()]
    assert len(set(names)) == len(names) and len(_ATTACKS) >= 25
