"""MCTS-AHD: which actions are taken where, what they show, what becomes a node, and how a search ends."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.trainers.memory_context import numeric
from tests.trainers.program_search import answers, constant, program, writing
from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.mcts_ahd import MCTSAHD, TASKS


def inventive(slot: Slot) -> str:
    """A program at each place that is another one."""
    number = sum(map(ord, str(slot))) * 37 % 1000 / 100
    return program(number, str(slot))


def places(memory: Any) -> list[str]:
    """Place and attempt of each call for a program."""
    return [f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" for c in memory.calls if c.variables]


def nodes(memory: Any) -> list[tuple[str, str, str, int]]:
    return [(e["candidate"], e["action"], e["below"], e["depth"]) for e in memory.told("mcts.node")]


def shown(prompt: str) -> list[float]:
    return [float(number) for number in re.findall(r"    return ([0-9.-]+)", prompt)]


def prompt_at(memory: Any, place: str) -> str:
    (call,) = [
        c for c in memory.calls if c.variables and f"s{c.slot.step}.{c.slot.candidate}.p{c.slot.proposal}" == place
    ]
    return str(call.prompt)


PLANTED = {"s1.n0.p0": 1.0, "s1.n1.p0": 2.0, "s1.n2.p0": 2.5, "s1.n3.p0": -4.0}


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_step_plants_and_the_next_expands_the_best_branch(context: Any, direction: str) -> None:
    grown = {"s2.e2.p0": 2.25, "s2.m1-0.p0": 2.75, "s2.m1-1.p0": 2.8, "s2.m2-0.p0": 2.85, "s2.m2-1.p0": 2.9}
    memory = context(constant(direction=direction), answers({**PLANTED, **grown}))
    final = memory.search(MCTSAHD, num_steps=2)
    assert nodes(memory) == [
        ("s1.n0.p0", "i1", "", 1), ("s1.n1.p0", "e1", "", 1), ("s1.n2.p0", "e1", "", 1), ("s1.n3.p0", "e1", "", 1),
        ("s2.e2.p0", "e2", "s1.n2.p0", 2),
        ("s2.m1-0.p0", "m1", "s1.n2.p0", 2), ("s2.m1-1.p0", "m1", "s1.n2.p0", 2),
        ("s2.m2-0.p0", "m2", "s1.n2.p0", 2), ("s2.m2-1.p0", "m2", "s1.n2.p0", 2),
    ]  # fmt: skip
    assert final == {"code": program(2.9)} == memory.best_state
    # No s1: there is one program on the path.
    assert places(memory) == [*PLANTED, *grown]
    assert [s.accepted for s in memory.steps] == [None] + [True] * 9
    assert [s.parents for s in memory.steps[1:3]] == [("seed",), ("s1.n0.p0",)]
    assert memory.steps[6].parents == ("s1.n2.p0",)


def test_actions_show_what_they_build_on(context: Any) -> None:
    grown = {"s2.e2.p0": 2.25, "s2.m1-0.p0": 2.75, "s3.s1.p0": 2.8, "s3.m2-0.p0": 2.7}
    memory = context(constant(), answers({**PLANTED, **grown}))
    memory.search(MCTSAHD, num_steps=3, mutations=1, exploration_weight=0.0)
    assert shown(prompt_at(memory, "s1.n0.p0")) == [] and TASKS["i1"] in prompt_at(memory, "s1.n0.p0")
    assert shown(prompt_at(memory, "s1.n1.p0")) == [1.0]
    assert sorted(shown(prompt_at(memory, "s1.n2.p0"))) == [1.0, 2.0]
    assert len(shown(prompt_at(memory, "s1.n3.p0"))) in (2, 3)
    reference, own = shown(prompt_at(memory, "s2.e2.p0"))
    assert own == 2.5 and reference in (1.0, 2.0, -4.0)
    assert shown(prompt_at(memory, "s2.m1-0.p0")) == [2.5]
    # Step 3 goes on below 2.75; its path is 2.5, 2.75, the worst first.
    assert shown(prompt_at(memory, "s3.s1.p0")) == [2.5, 2.75]
    said = prompt_at(memory, "s3.s1.p0")
    assert "Program 1: describes n2.0" in said and "Its score is -0.5 (higher is better)" in said
    assert "def answer():" in prompt_at(memory, "s1.n0.p0").partition(TASKS["i1"])[0], "i1 has to know the signature"
    assert TASKS["s1"] in said and "Find the number." in said and "`answer`" in said


@pytest.mark.parametrize(("direction", "said"), [("maximize", "-2 (higher"), ("minimize", "2 (lower")])
def test_a_prompt_gives_scores_in_the_units_of_the_task(context: Any, direction: str, said: str) -> None:
    memory = context(constant(direction=direction), answers(PLANTED))
    memory.search(MCTSAHD, num_steps=2)
    assert f"Its score is {said} is better)" in prompt_at(memory, "s1.n1.p0")
    assert [(e["best"], e["best_mean"]) for e in memory.told("search.step")] == [
        ("s1.n2.p0", -0.5 if direction == "maximize" else 0.5)
    ] * 2


def test_each_node_is_described_once_from_its_source(context: Any) -> None:
    memory = context(constant(), answers({**PLANTED, "s1.n1.p0": None, "s1.n1.p1": 2.0}))
    memory.search(MCTSAHD, num_steps=1)
    described = [c for c in memory.calls if not c.variables]
    assert [str(c.slot) for c in described] == [
        f"step=1;candidate={place};proposal={n};attempt=1" for place, n in [("n0", 0), ("n1", 1), ("n2", 0), ("n3", 0)]
    ]
    assert shown(described[1].prompt) == [2.0] and "idea of n1.1" in described[1].prompt
    assert [e["description"] for e in memory.told("mcts.node")][1] == "describes n1.1"


def test_without_a_description_the_idea_stays(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return str(answers(PLANTED)(messages, slot, variables)) if variables else ""

    memory = context(constant(), model)
    memory.search(MCTSAHD, num_steps=1, init_size=1)
    assert [e["description"] for e in memory.told("mcts.node")] == ["idea of n0.0"]
    assert [e["kind"] for e in memory.told("description.unusable")] == ["empty"]


def test_a_program_is_asked_for_three_times_until_it_can_be_a_node(context: Any) -> None:
    given = {
        "s1.n0.p0": None, "s1.n0.p1": "def answer(): pass\n", "s1.n0.p2": 1.0,
        "s1.n1.p0": 1.0,  # known
        "s1.n1.p1": 5.0,  # 3 is the target: scores as 1 does
        "s1.n1.p2": 2.0,
    }  # fmt: skip
    memory = context(constant(), answers(given))
    memory.search(MCTSAHD, num_steps=1, init_size=3)
    assert places(memory) == [*given, "s1.n2.p0", "s1.n2.p1", "s1.n2.p2"]
    assert [(s.candidate, s.accepted, s.reason) for s in memory.steps[1:]] == [
        ("s1.n0.p1", False, "failed on t0"), ("s1.n0.p2", True, "i1 below the root"),
        ("s1.n1.p1", False, "scores as s1.n0.p2 does"), ("s1.n1.p2", True, "e1 below the root"),
    ]  # fmt: skip
    assert [name for name, *_ in nodes(memory)] == ["s1.n0.p2", "s1.n1.p2"]


def test_a_tree_without_a_program_is_planted_again(context: Any) -> None:
    memory = context(constant(), answers({"s2.n0.p0": 1.0}))
    memory.search(MCTSAHD, num_steps=2, init_size=1)
    assert places(memory) == ["s1.n0.p0", "s1.n0.p1", "s1.n0.p2", "s2.n0.p0"]


def test_nodes_on_the_way_widen(context: Any) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(MCTSAHD, num_steps=12, init_size=1, mutations=0)
    kinds = [(action, depth) for _, action, _, depth in nodes(memory) if action in ("e1", "e2")]
    assert ("e1", 1) in kinds  # the root, at the start of step 2: floor(sqrt 1) >= 1
    assert any(c.slot.candidate == "w0" for c in memory.calls)
    assert any(c.slot.candidate.startswith("w") and c.slot.candidate != "w0" for c in memory.calls)
    below = {name: below for name, _, below, _ in nodes(memory)}
    assert all(parent == "" or parent in below for parent in below.values())
    narrow = context(constant(), writing(inventive))
    narrow.search(MCTSAHD, num_steps=4, widening_exponent=0.0)
    assert not any(c.slot.candidate == "w0" for c in narrow.calls)


def test_selection_goes_no_deeper_than_the_depth(context: Any) -> None:
    def better(slot: Slot) -> str:
        return program(3 - 1 / (slot.step * 10 + slot.proposal + len(slot.candidate)), str(slot))

    for depth in (1, 2, 4):
        memory = context(constant(), writing(better))
        memory.search(MCTSAHD, num_steps=8, max_depth=depth, init_size=1, mutations=1, exploration_weight=0.0)
        assert max(d for *_, d in nodes(memory)) == depth + 1


def test_programs_are_judged_on_all_of_the_selection_split(context: Any) -> None:
    memory = context(constant([9.0] * 5, [1.0, 2.0, 3.0]), answers(PLANTED))
    memory.search(MCTSAHD, num_steps=1)
    assert {s.split for s in memory.steps} == {"validate"} and {len(s.rollouts) for s in memory.steps} == {3}


def test_the_same_seed_searches_the_same_and_another_one_does_not(context: Any) -> None:
    runs = []
    for seed in (1, 1, 2):
        memory = context(constant(), writing(inventive), seed=seed)
        memory.search(MCTSAHD, num_steps=6)
        runs.append([(s.candidate, s.parents, s.state, s.score) for s in memory.steps])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"num_steps": 3}, {"init_size": 2}, {"elite_size": 1}, {"mutations": 1}, {"max_depth": 1},
        {"exploration_weight": 5.0}, {"exploration_period": 20}, {"widening_exponent": 0.9},
    ],
)  # fmt: skip
def test_each_parameter_changes_the_search(context: Any, changed: dict[str, Any]) -> None:
    base = {"num_steps": 8, "exploration_weight": 0.5, "exploration_period": 0}
    seen = []
    for params in (base, {**base, **changed}):
        memory = context(constant(), writing(inventive))
        memory.search(MCTSAHD, **params)
        seen.append([(c.slot, c.prompt) for c in memory.calls])
    assert seen[0] != seen[1]


def test_limits_on_answers_go_with_each_request(context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    memory = context(constant(), writing(inventive))
    memory.search(MCTSAHD, num_steps=1, init_size=1, max_tokens=99, temperature=0.5, verbose=True)
    assert [c.request for c in memory.calls] == [{"max_tokens": 99, "temperature": 0.5}] * 2
    assert "step 1: 1 new; best" in capsys.readouterr().out


def test_empty_answers_end_no_search(context: Any) -> None:
    memory = context(constant(), lambda *_: "")
    assert memory.search(MCTSAHD, num_steps=3) == {"code": program(0.0)}
    assert len(memory.told("proposal.unusable")) == 3 * 4 * 3 and memory.stop_reason == "completed"


def test_a_budget_ends_it_and_what_was_judged_before_a_description_is_recorded(context: Any) -> None:
    memory = context(constant(), writing(inventive), budget=Budget(evaluations=7))
    memory.search(MCTSAHD, num_steps=0)
    assert memory.stop_reason == "budget" and memory.evaluations == 7
    memory = context(constant(), answers(PLANTED), budget=Budget(calls=1))
    assert memory.search(MCTSAHD, num_steps=0) == {"code": program(1.0)} and len(memory.steps) == 2


def test_a_problem_without_one_program_is_refused(context: Any) -> None:
    with pytest.raises(TrainerError, match="searches for one program"):
        context(numeric(), answers({})).search(MCTSAHD)
