"""What Minibatch, BasicSearch, BeamSearch, UCBSearch and the sequential trainers have in common."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.memory_context import DECIDE_BROKEN, DECIDE_RIGHT, GREET_RIGHT, greeting, numeric, seeded, suggest
from tests.trainers.scripted_search import explored, history, kept, script, targets
from trace_bench.arguments import without_effect
from trace_bench.errors import ConfigError
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.basic_search import BasicSearch
from trace_bench.trainers.beam_search import BeamSearch
from trace_bench.trainers.minibatch import Minibatch
from trace_bench.trainers.registry import arguments_of, load_trainers, resolve_params
from trace_bench.trainers.sequential import SequentialSearch, SequentialUpdate
from trace_bench.trainers.ucb_search import UCBSearch

TRAINERS = (Minibatch, BasicSearch, BeamSearch, UCBSearch, SequentialSearch, SequentialUpdate)
CLIMBERS = (BasicSearch, SequentialSearch, SequentialUpdate)

# For each parameter, what it is changed to, and beside what. The defaults are the other side of the comparison.
CHANGES: Mapping[Any, Mapping[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    Minibatch: {
        "num_steps": ({}, {"num_steps": 6}),
        "num_epochs": ({}, {"num_epochs": 2}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "ensure_improvement": ({}, {"ensure_improvement": True}),
        "improvement_threshold": ({"ensure_improvement": True}, {"improvement_threshold": 10.0}),
        "eval_frequency": ({}, {"eval_frequency": 0}),
    },
    BasicSearch: {
        "num_steps": ({}, {"num_steps": 6}),
        "num_epochs": ({}, {"num_epochs": 2}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "num_proposals": ({}, {"num_proposals": 5}),
        "validate_examples": ({}, {"validate_examples": 2}),
        "eval_frequency": ({"validate_examples": 2}, {"eval_frequency": 0}),
    },
    BeamSearch: {
        "max_depth": ({}, {"max_depth": 3}),
        "beam_width": ({}, {"beam_width": 2}),
        "num_proposals": ({}, {"num_proposals": 5}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "validation_dataset_size": ({}, {"validation_dataset_size": 2}),
        "max_history_size": ({}, {"max_history_size": 1}),
        "eval_frequency": ({}, {"eval_frequency": 0}),
    },
    UCBSearch: {
        "num_steps": ({}, {"num_steps": 6}),
        "num_epochs": ({}, {"num_epochs": 2}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "max_buffer_size": ({}, {"max_buffer_size": 2}),
        "ucb_exploration_constant": ({}, {"ucb_exploration_constant": 0.0}),
        "evaluation_batch_size": ({}, {"evaluation_batch_size": 2}),
        "eval_frequency": ({"evaluation_batch_size": 2}, {"eval_frequency": 0}),
    },
    SequentialSearch: {
        "num_steps": ({}, {"num_steps": 6}),
        "num_epochs": ({}, {"num_epochs": 2}),
        "num_batches": ({}, {"num_batches": 2}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "num_proposals": ({}, {"num_proposals": 1}),
    },
    SequentialUpdate: {
        "num_steps": ({}, {"num_steps": 6}),
        "num_epochs": ({}, {"num_epochs": 2}),
        "num_batches": ({}, {"num_batches": 2}),
        "train_batch_size": ({}, {"train_batch_size": 2}),
        "validate_proposals": ({}, {"validate_proposals": False}),
        "eval_frequency": ({"validate_proposals": False}, {"eval_frequency": 0}),
    },
}
OVERLAPPING = {
    BasicSearch: {"num_proposals": 4},
    BeamSearch: {"num_proposals": 4, "max_depth": 3},
    SequentialSearch: {"num_proposals": 2, "num_batches": 2},
    SequentialUpdate: {"num_batches": 4},
}
"""Parameters with which each step of a trainer has four model calls that may overlap."""


def varied() -> Any:
    """Eight training examples and six to validate on, each with a target of its own; the start is far from all."""
    train, validate = [1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.0, 6.0], [1.0, 9.0, 4.0, 6.0, 2.0, 8.0]
    return targets(train, validate, start=-40.0, score_range=(-110.0, 0.0))


def behaviour(context: Any, trainer: Any, **params: Any) -> Any:
    memory = context(varied(), seeded(1))
    memory.search(trainer, **params)
    return history(memory), [(str(c.slot), c.prompt) for c in memory.calls], memory.evaluated, kept(memory)


@pytest.mark.parametrize(("trainer", "name"), [(t, p.name) for t in TRAINERS for p in t.params if p.changes_results])
def test_every_parameter_changes_what_the_search_does(context: Any, trainer: Any, name: str) -> None:
    beside, changed = CHANGES[trainer][name]
    assert set(changed) == {name}
    assert behaviour(context, trainer, **beside) != behaviour(context, trainer, **beside, **changed)


def test_the_parameters_that_change_nothing_are_known() -> None:
    idle = {t: {p.name for p in t.params if not p.changes_results} for t in TRAINERS}
    assert {t for t, names in idle.items() if "num_threads" in names} == set(OVERLAPPING)
    assert all(names - {"num_threads"} == {"verbose"} for names in idle.values())


@pytest.mark.parametrize("trainer", TRAINERS)
def test_they_are_found_by_name_and_take_the_names_that_others_use(trainer: Any) -> None:
    assert load_trainers()[trainer.name] is trainer
    other = "num_search_iterations" if trainer is UCBSearch else "num_steps"
    steps = "max_depth" if trainer is BeamSearch else "num_steps"
    assert resolve_params(trainer, {"batch_size": 3, other: 7}, str) == {
        **{p.name: p.default for p in trainer.params}, "train_batch_size": 3, steps: 7,
    }  # fmt: skip


@pytest.mark.parametrize("trainer", TRAINERS)
def test_equal_seeds_give_equal_histories_and_another_seed_other_minibatches(context: Any, trainer: Any) -> None:
    runs = [context(varied(), seeded(1), seed=seed) for seed in (1, 1, 2)]
    finals = [run.search(trainer) for run in runs]
    assert finals[0] == finals[1] and history(runs[0]) == history(runs[1]) and runs[0].events == runs[1].events
    assert [(c.slot, c.messages) for c in runs[0].calls] == [(c.slot, c.messages) for c in runs[1].calls]
    batches = [[indices for split, indices in run.evaluated if split == "train"] for run in runs]
    assert batches[0] != batches[2]


@pytest.mark.parametrize(
    ("trainer", "params"),
    [
        (BasicSearch, {"validate_examples": 2}),
        (BeamSearch, {"validation_dataset_size": 2}),
        (UCBSearch, {"evaluation_batch_size": 2}),
    ],
)
def test_another_seed_gives_other_samples_to_validate_on(context: Any, trainer: Any, params: dict[str, Any]) -> None:
    sampled = []
    for seed in (1, 2):
        memory = context(varied(), seeded(1), seed=seed)
        memory.search(trainer, **params)
        sampled.append([i for split, i in memory.evaluated if split == "validate" and len(i) == 2])
    assert sampled[0] != sampled[1] and all(sampled)


@pytest.mark.parametrize(
    ("trainer", "params"),
    [
        (BasicSearch, {"validate_examples": 2, "num_proposals": 1}),
        (BeamSearch, {"validation_dataset_size": 2, "num_proposals": 1, "beam_width": 1, "max_depth": 5}),
        (UCBSearch, {"evaluation_batch_size": 2, "ucb_exploration_constant": 0.0}),
    ],
)
def test_a_search_on_samples_that_a_budget_ends_has_a_better_best_than_its_start(
    context: Any, trainer: Any, params: dict[str, Any]
) -> None:
    closer = script({f"s{step}.c0.p0": float(step) for step in (1, 2, 3)})
    best = {}
    for frequency in (0, 1):
        memory = context(numeric(validate=9), closer, budget=Budget(calls=2))
        best[frequency] = memory.search(trainer, eval_frequency=frequency, **params)["x"]
        assert memory.stop_reason == "budget"
    assert best == {0: 0.0, 1: 2.0}  # nothing was judged on all examples; each leader was


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_scores_at_the_end_of_what_floats_hold_are_borne(context: Any, trainer: Any, direction: str) -> None:
    most = 1e308
    problem = targets([0.0, 1.0], [1.0, 2.0], scale=most, direction=direction, start=0.0, score_range=(-most, most))
    guide = problem.guide

    def bounded(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        score, told = guide(query, response, reference)
        return max(min(score, 1.7 * most), -1.7 * most), told

    memory = context(replace(problem, guide=bounded, failure_score=-most), seeded(1))
    memory.search(trainer)  # the context refuses what is no JSON number
    assert len(memory.steps) > 5


@pytest.mark.parametrize("trainer", OVERLAPPING)
def test_threads_change_nothing_but_the_overlap_of_calls(context: Any, trainer: Any) -> None:
    together = threading.Barrier(4, timeout=20)

    def overlapping(messages: Any, slot: Slot, variables: Any) -> str:
        together.wait()  # four calls of one step are in flight at once, or the barrier breaks
        return seeded(1)(messages, slot, variables)

    one, four = context(varied(), seeded(1)), context(varied(), overlapping)
    params = OVERLAPPING[trainer]
    assert one.search(trainer, **params) == four.search(trainer, num_threads=4, **params)
    assert history(one) == history(four) and one.events == four.events


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("unit", ["evaluations", "calls"])
def test_a_budget_cuts_the_history_off_and_changes_nothing_before(context: Any, trainer: Any, unit: str) -> None:
    whole = context(varied(), seeded(1))
    whole.search(trainer, train_batch_size=2)
    spent = whole.evaluations if unit == "evaluations" else len(whole.calls)
    lengths = set()
    for limit in range(spent + 1):
        memory = context(varied(), seeded(1), budget=replace(Budget(), **{unit: limit}))
        final = memory.search(trainer, train_batch_size=2)
        assert (memory.evaluations if unit == "evaluations" else len(memory.calls)) <= limit
        assert memory.stop_reason == ("completed" if limit == spent else "budget")
        assert history(memory) == history(whole)[: len(memory.steps)]
        assert limit == spent or final == memory.best_state
        lengths.add(len(memory.steps))
    assert max(lengths) == len(whole.steps) and len(lengths) > 5


# Six examples to judge on (step 0 costs six), minibatches of two. What each step costs, by the trainers' docstrings.
@pytest.mark.parametrize(
    ("trainer", "params", "evaluations", "calls"),
    [
        (Minibatch, {"num_steps": 3, "eval_frequency": 2}, 3 * 2 + 2 * 6, 3),
        (Minibatch, {"num_steps": 3, "eval_frequency": 2, "ensure_improvement": True}, 3 * (2 + 2) + 2 * 6, 3),
        (BasicSearch, {"num_steps": 3, "num_proposals": 4}, 3 * (2 + 4 * 6), 3 * 4),
        (BasicSearch, {"num_steps": 3, "validate_examples": 5, "eval_frequency": 0}, 3 * (2 + 5 * 5) + 6, 3 * 4),
        (
            BeamSearch,
            {"max_depth": 3, "beam_width": 2, "num_proposals": 2, "eval_frequency": 0},
            (2 + 3 * 5) + 2 * (2 * 2 + 6 * 5) + 2 * 6,
            2 + 2 * 4,
        ),
        (UCBSearch, {"num_steps": 3, "evaluation_batch_size": 5, "eval_frequency": 0}, 3 * (2 + 5) + 6, 3),
        (SequentialSearch, {"num_steps": 3, "num_batches": 2, "num_proposals": 3}, 3 * (2 * 2 + 6 * 6), 3 * 6),
        (SequentialUpdate, {"num_steps": 3, "num_batches": 2}, 3 * (2 * 2 + 2 * 6), 3 * 2),
    ],
)
def test_a_search_costs_what_its_description_says(
    context: Any, trainer: Any, params: dict[str, Any], evaluations: int, calls: int
) -> None:
    def always_better(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(x0=-30.0 + slot.step + (int(slot.candidate[-1]) + slot.proposal / 10) / 10)

    memory = context(varied(), always_better)
    memory.search(trainer, train_batch_size=2, **params)
    # What was known already is no cost, and is part of what is described.
    assert (memory.evaluations + memory.saved, len(memory.calls)) == (6 + evaluations, calls)
    assert memory.told("proposal.dropped") == []


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 2])
def test_a_number_is_found_in_either_direction(context: Any, trainer: Any, direction: str, validate: int) -> None:
    memory = context(numeric(direction=direction, train=4, validate=validate), seeded(1))
    more = {"ensure_improvement": True} if trainer is Minibatch else {}  # without, it is a random walk
    memory.search(trainer, **{"max_depth" if trainer is BeamSearch else "num_steps": 40}, **more)
    assert memory.best_state["x"] == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_verbose_prints_a_line_for_each_step_and_changes_nothing(
    context: Any, trainer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet, loud = context(varied(), seeded(1)), context(varied(), seeded(1))
    final = quiet.search(trainer)
    assert capsys.readouterr().out == ""
    assert loud.search(trainer, verbose=True) == final
    told = loud.told("search.step")
    for line, step in zip(capsys.readouterr().out.splitlines(), told, strict=True):
        assert line.startswith(f"step {step['step']}: on with {', '.join(step['kept'])}; best {step['best']} ")
    assert history(loud) == history(quiet) and loud.events == quiet.events


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_model_that_answers_nonsense_ends_with_the_start(context: Any, trainer: Any) -> None:
    memory = context(numeric(train=2, validate=8), lambda *_: "I am a teapot")
    assert memory.search(trainer) == memory.best_state == {"x": 0.0}
    assert len(memory.told("proposal.unusable")) == len(memory.calls) > 0
    assert {s.candidate for s in memory.steps} == {"seed"} and set(map(tuple, explored(memory))) == {("seed",)}


def learner(messages: Any, slot: Slot, variables: Any) -> str:
    if "greet0" not in [v["name"] for v in variables]:  # decide raised, so greet was never reached
        return suggest(decide0=DECIDE_RIGHT)
    return suggest(greet0=GREET_RIGHT)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_an_agent_of_two_operators_is_learned_in_candidate_processes(context: Any, trainer: Any) -> None:
    memory = context(greeting(decide=DECIDE_BROKEN), learner)
    steps = "max_depth" if trainer is BeamSearch else "num_steps"
    final = memory.search(trainer, **{steps: 2, "train_batch_size": 2})
    assert final == memory.best_state == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    assert memory.best_score == 1.0 and memory.steps[0].rollouts[0].failed
    assert "no idea about" in memory.calls[0].prompt and any("no idea about" not in c.prompt for c in memory.calls)


@pytest.mark.parametrize(
    ("trainer", "given"),
    [
        (Minibatch, {"improvement_threshold": 1.0}),
        (SequentialUpdate, {"eval_frequency": 2}),
        (SequentialUpdate, {"validate_proposals": False, "num_batches": 2}),
    ],
)
def test_a_parameter_without_effect_says_beside_what_it_has_one(trainer: Any, given: dict[str, Any]) -> None:
    (argument,) = [a for a in arguments_of(trainer.params) if a.name in given and a.when]
    why = without_effect(argument, resolve_params(trainer, given, str))
    assert why is not None and why.startswith("it has no effect with ")


def test_values_out_of_bounds_are_refused() -> None:
    for trainer in TRAINERS:
        for param in trainer.params:
            if param.minimum is not None:
                with pytest.raises(ConfigError, match=f"^{param.name} must be at least"):
                    resolve_params(trainer, {param.name: param.type(param.minimum - 1)}, str)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    trainer=st.sampled_from(TRAINERS),
    direction=st.sampled_from(["maximize", "minimize"]),
    validate=st.lists(st.integers(-9, 9), max_size=4),
    seed=st.integers(1, 99),
)
def test_the_best_never_gets_worse_and_is_the_best_of_all_that_was_judged(
    context: Any, data: st.DataObject, trainer: Any, direction: str, validate: list[int], seed: int
) -> None:
    """Whatever the answers. The oracle knows the problem, not the trainers."""
    numbers = st.floats(-10.0, 10.0, allow_nan=False)
    names = [f"s{s}.c{c}.p{p}" for s in (1, 2, 3) for c in (0, 1) for p in (0, 1)]
    answers = data.draw(st.dictionaries(st.sampled_from(names), numbers), label="answers")
    params: dict[str, Any] = {"max_depth" if trainer is BeamSearch else "num_steps": 3}
    for name, values in (("num_proposals", (1, 2)), ("beam_width", (1, 2)), ("max_buffer_size", (1, 2, 9))):
        if name in {p.name for p in trainer.params}:
            params[name] = data.draw(st.sampled_from(values), label=name)
    for name in ("validate_examples", "validation_dataset_size", "evaluation_batch_size"):
        if name in {p.name for p in trainer.params}:
            params[name] = data.draw(st.integers(0, 3), label=name)
    wanted = validate or [1, 2, 3]
    memory = context(targets([1.0, 2.0, 3.0], validate, direction=direction), script(answers), seed=seed)
    final = memory.search(trainer, **params)

    def loss(state: Mapping[str, Any]) -> float:
        return sum(abs(state["x"] - target) for target in wanted) / len(wanted)

    losses = [abs(s.best_score) for s in memory.steps]
    assert losses == sorted(losses, reverse=True)
    split = "validate" if validate else "train"
    judged = [s for s in memory.steps if s.split == split and len(s.rollouts) == len(wanted)]
    assert loss(memory.best_state) == pytest.approx(min(loss(s.state) for s in judged))
    assert any(s.state == final for s in judged), "the final state has a score on all examples"
    if trainer in CLIMBERS and not params.get("validate_examples"):
        states = {s.candidate: s.state for s in memory.steps}
        held = [loss(states[names[0]]) for names in kept(memory)]
        assert all(later <= earlier + 1e-9 for earlier, later in zip([loss({"x": 0.0}), *held], held, strict=False))
        assert loss(final) == pytest.approx(loss(memory.best_state))
