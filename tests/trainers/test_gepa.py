"""GEPA-Base, GEPA-UCB and GEPA-Beam: their choices are recomputed from nothing but the history."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.memory_context import (
    DECIDE,
    DECIDE_BROKEN,
    DECIDE_RIGHT,
    GREET_RIGHT,
    MemoryContext,
    greeting,
    numeric,
    seeded,
    suggest,
)
from trace_bench.config.loader import parse_config
from trace_bench.config.names import KNOBS
from trace_bench.config.variants import resolve_variants
from trace_bench.trainers.base import Budget, Rollout, Slot, Step
from trace_bench.trainers.gepa_base import GEPABase
from trace_bench.trainers.gepa_beam import GEPABeam
from trace_bench.trainers.gepa_pareto import wins
from trace_bench.trainers.gepa_ucb import GEPAUCB
from trace_bench.trainers.population import Population
from trace_bench.worker.problem import Example, Parameter, Problem

ALL = (GEPABase, GEPAUCB, GEPABeam)
each = pytest.mark.parametrize("trainer", ALL, ids=lambda t: t.name)


def iterations(trainer: Any) -> str:
    return str(trainer.params[0].name)


def search(context: MemoryContext, trainer: Any, steps: int | None = None, **params: Any) -> Any:
    return context.search(trainer, **({iterations(trainer): steps} if steps else {}), **params)


def history(context: MemoryContext) -> list[Any]:
    return [
        (s.step, s.candidate, s.parents, s.state, s.rollouts, s.split, s.accepted, s.reason, s.extra)
        for s in context.steps
    ]


def weighted(
    train: tuple[tuple[float, ...], ...],
    validate: tuple[tuple[float, ...], ...] = (),
    parameters: str = "abc",
    score_range: tuple[float, float] | None = None,
    **fields: Any,
) -> Problem:
    """Numbers from 0 to 10. An example is a weight for each of them: its score is the weighted sum."""

    def total(weights: tuple[float, ...], *values: float) -> float:
        """The weighted sum."""
        return sum(w * v for w, v in zip(weights, values, strict=True))

    names = parameters[: len(train[0])]
    return Problem(
        parameters=tuple(Parameter(name, 0.0, "float", bounds=(0.0, 10.0)) for name in names),
        guide=lambda query, response, reference: (float(response), "the weighted sum"),
        train=tuple(Example(f"t{i}", weights) for i, weights in enumerate(train)),
        validate=tuple(Example(f"v{i}", weights) for i, weights in enumerate(validate)),
        objective="Much.",
        direction="maximize",
        failure_score=-1000.0,
        score_range=score_range,
        agent=lambda ops, query: ops.apply(total, query, *(ops.param(name) for name in names)),
        **fields,
    )


def setting(values: Mapping[str, float]) -> Any:
    """A model that sets the module it is asked for to one value."""

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(**{v["name"]: values[v["name"].rstrip("0")] for v in variables})

    return model


# --- acceptance ---------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("value", "accepted"), [(1.0, True), (-1.0, None), (0.0, None)], ids=["better", "out of bounds", "unchanged"]
)
def test_a_child_is_scored_where_its_parent_was_and_added_if_better(
    context: Any, trainer: Any, value: float, accepted: bool | None
) -> None:
    memory = context(weighted(((1.0,),) * 4, ((1.0,),) * 3), setting({"a": value}))
    search(memory, trainer, 1, train_batch_size=2)
    expected = [("validate", (0, 1, 2))]  # the start; its run on the minibatch goes through the graph
    if accepted:
        (_, minibatch), whole = memory.evaluated[1:]
        assert len(minibatch) == 2 and set(minibatch) <= {0, 1, 2, 3}
        assert memory.evaluated[1][0] == "train" and whole == ("validate", (0, 1, 2))
        assert memory.evaluations == 3 + 2 + 2 + 3
        child = memory.steps[1]
        assert (child.split, child.accepted, child.parents) == ("validate", True, ("seed",))
        assert child.extra["parent_minibatch_score"] == 0.0 and child.extra["minibatch_score"] == 1.0
    else:
        assert memory.evaluated == expected and len(memory.steps) == 1


@each
def test_equal_on_the_minibatch_is_not_enough(context: Any, trainer: Any) -> None:
    # Better on the selection split, and neither better nor worse on the minibatch of both training examples.
    memory = context(weighted(((1.0,), (-1.0,)), ((5.0,),)), setting({"a": 3.0}))
    assert search(memory, trainer, 1) == {"a": 0.0}
    (child,) = memory.steps[1:]
    assert (child.split, child.accepted, len(child.rollouts)) == ("train", False, 2)
    assert child.reason.startswith("no better than its parent") and child.score == 0.0
    assert memory.told("search.step")[0]["children"] == []


@each
def test_a_rejected_state_is_tried_again_when_it_is_proposed_again(context: Any, trainer: Any) -> None:
    memory = context(weighted(((1.0,), (-1.0,), (-1.0,), (-1.0,))), setting({"a": 3.0}))
    search(memory, trainer, 4, train_batch_size=1)
    assert sorted(s.accepted for s in memory.steps[1:]) == [False, False, False, True]
    assert len({s.candidate for s in memory.steps}) == 5
    assert memory.told("proposal.dropped") == []


@each
def test_minimised_scores_stay_in_natural_units(context: Any, trainer: Any) -> None:
    memory = context(numeric(direction="minimize", train=2, validate=2), lambda *_: suggest(x0=2.5))
    assert search(memory, trainer, 1, train_batch_size=1) == {"x": 2.5}
    child = memory.steps[1]
    assert child.accepted and (child.extra["parent_minibatch_score"], child.extra["minibatch_score"]) == (3.0, 0.5)
    assert memory.told("search.step")[0]["best_mean"] == 0.5


@each
@pytest.mark.parametrize(
    ("best", "asked"),
    [
        pytest.param(0.0, 0, id="every score is the best"),
        pytest.param(0.5, 2, id="not the best"),
        pytest.param(-0.5, 2, id="better than the best: the range is wrong"),
    ],
)
def test_no_model_is_asked_where_the_minibatch_cannot_get_better(
    context: Any, trainer: Any, best: float, asked: int
) -> None:
    memory = context(weighted(((0.0,),), ((1.0,),), score_range=(-1.0, best)), lambda *_: "no idea")
    search(memory, trainer, 2)
    assert len(memory.calls) == asked
    reason = "the minibatch has the best score that there is"
    assert [e["reason"] for e in memory.told("proposal.skipped")] == [reason] * (2 - asked)


def test_what_is_forgotten_is_new_again_and_its_place_in_the_order_is_not_given_twice(context: Any) -> None:
    memory = context(numeric(), seeded(1))
    start = Step(0, "seed", (), {"x": 0.0}, (Rollout("t0", -3.0, ""),), "train")
    population = Population(SimpleNamespace(problem=numeric(), start=start, log=memory))  # type: ignore[arg-type]
    one, two = (population.add(f"c{x}", {"x": x}, (population.seed,)) for x in (1.0, 2.0))
    assert one is not None and two is not None
    assert population.add("again", {"x": 1.0}, (population.seed,)) is None
    population.forget(one)
    again = population.add("again", {"x": 1.0}, (population.seed,))
    assert again is not None and [c.created for c in (population.seed, one, two, again)] == [0, 1, 2, 3]


@each
def test_a_minibatch_that_was_asked_for_and_cannot_be_had_is_a_warning(context: Any, trainer: Any) -> None:
    memory = context(weighted(((1.0,),) * 2, score_range=(0.0, 10.0)), setting({"a": 1.0}))
    search(memory, trainer, 1)
    assert memory.warnings == []
    search(memory, trainer, 1, train_batch_size=4)
    assert len(memory.warnings) == 1 and "there are 2 training examples" in memory.warnings[0]


# --- modules ------------------------------------------------------------------------------------------------------


@each
def test_modules_take_turns_and_a_child_goes_on_where_its_parent_stands(context: Any, trainer: Any) -> None:
    memory = context(weighted(((1.0, 1.0, 1.0),)), setting({"a": 1.0, "b": 1.0, "c": 1.0}))
    extra = {"beam_width": 1} if trainer is GEPABeam else {}
    best = search(memory, trainer, 3, **extra)
    assert [s.extra["module"] for s in memory.steps[1:]] == ["a", "b", "c"]
    assert best == {"a": 1.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize("trainer", [GEPABase, GEPAUCB], ids=lambda t: t.name)
def test_a_merged_candidate_goes_on_where_the_further_of_its_parents_stands(context: Any, trainer: Any) -> None:
    memory = context(rugged(), seeded(3), seed=4)
    search(memory, trainer, 60, merge_every=2, train_batch_size=2)
    asked = {call.slot.step: call.variables[0]["name"] for call in memory.calls}
    turn, merged = {"seed": 0}, set()
    for told in memory.told("search.step"):
        if len(told["explored"]) == 2:
            turn.update(dict.fromkeys(told["children"], max(turn[parent] for parent in told["explored"])))
            unequal = len({turn[parent] for parent in told["explored"]}) == 2
            merged.update(told["children"] if unequal else ())
            continue
        (parent,) = told["explored"]
        assert asked[told["step"]] == f"{'abc'[turn[parent]]}0"
        turn[parent] = (turn[parent] + 1) % 3
        turn.update(dict.fromkeys(told["children"], turn[parent]))
    assert merged & {told["explored"][0] for told in memory.told("search.step")}, "no merged one became a parent"


@each
def test_a_rejected_module_is_left_for_the_next_one(context: Any, trainer: Any) -> None:
    memory = context(weighted(((-1.0, 1.0, -1.0),)), setting({"a": 1.0, "b": 1.0, "c": 1.0}))
    extra = {"beam_width": 1} if trainer is GEPABeam else {}
    search(memory, trainer, 5, **extra)
    assert [(s.extra["module"], s.accepted) for s in memory.steps[1:]] == [
        ("a", False), ("b", True), ("c", False), ("a", False),
    ]  # fmt: skip
    assert memory.told("proposal.dropped")[0]["reason"] == "unchanged"  # b again


@each
def test_a_proposal_may_change_one_module_only_and_the_rest_of_the_answer_is_an_event(
    context: Any, trainer: Any
) -> None:
    memory = context(weighted(((1.0, 1.0),)), lambda *_: suggest(a0=1.0, b0=7.0))
    assert search(memory, trainer, 1) == {"a": 1.0, "b": 0.0}
    assert memory.told("proposal.unknown_variables") == [{"slot": str(memory.calls[0].slot), "names": ["b0"]}]
    assert [v["name"] for v in memory.calls[0].variables] == ["a0"]
    asked = memory.calls[0].prompt
    assert "(float) b0=0.0" in asked[asked.index("#Inputs") :] and "b0" not in asked[asked.index("#Variables") :
        asked.index("#Inputs")]  # fmt: skip


@each
def test_a_module_that_no_response_depends_on_is_skipped_with_an_event(context: Any, trainer: Any) -> None:
    memory = context(greeting(decide=DECIDE_BROKEN), lambda *_: "nonsense")
    search(memory, trainer, 2, train_batch_size=2)
    assert [e["reason"] for e in memory.told("proposal.skipped")] == ["no response depends on greet"]
    assert len(memory.calls) == 1


@each
def test_an_agent_of_two_operators_is_repaired_one_after_the_other(context: Any, trainer: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        return suggest(**{v["name"]: {"decide0": DECIDE_RIGHT, "greet0": GREET_RIGHT}[v["name"]] for v in variables})

    memory = context(greeting(decide=DECIDE_BROKEN), model)
    assert search(memory, trainer, 6, train_batch_size=2) == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    accepted = [s for s in memory.steps if s.accepted]
    assert [s.score for s in accepted] == [0.5, 1.0]
    assert "no idea about" in memory.calls[0].prompt


# --- merge --------------------------------------------------------------------------------------------------------

HULLO = 'def greet(lang, name):\n    return ("Hola " if lang == "es" else "Hullo ") + name\n'


def specialists(messages: Any, slot: Slot, variables: Any) -> str:
    """Repairs one operator of the start, and of a child nothing: what each of them lacks is the other's."""
    prompt = messages[-1]["content"]
    (_variable,) = variables
    if slot.step == 1:
        return suggest(decide0=DECIDE_RIGHT)
    return suggest(greet0=GREET_RIGHT) if 'lang == "es" else' in prompt and slot.candidate == "c1" else "no idea"


def test_an_agent_is_put_together_from_two_members_of_the_beam_that_repaired_one_operator_each(context: Any) -> None:
    memory = context(greeting(decide=DECIDE, greet=HULLO), specialists)
    best = search(memory, GEPABeam, 3, train_batch_size=2, merge_every=3)
    assert best == {"decide": DECIDE_RIGHT, "greet": GREET_RIGHT}
    assert [(s.candidate, s.parents, s.score) for s in memory.steps if s.accepted] == [
        ("s1.c0.p0", ("seed",), 0.5),
        ("s2.c1.p0", ("seed",), 0.5),
        ("s3.m", ("s1.c0.p0", "s2.c1.p0"), 1.0),
    ]
    merged = memory.steps[-1]
    assert merged.reason.startswith("merge") and merged.extra["ancestor"] == "seed"
    assert (merged.extra["parent_subsample_score"], merged.extra["subsample_score"]) == (0.5, 1.0)
    assert memory.told("search.step")[-1]["explored"] == ["s1.c0.p0", "s2.c1.p0"]
    assert len(memory.calls) == 3  # a merge asks nobody


TRAIN = ((1.0, 1.0),)
TRADE = ((1.0, 0.0), (0.0, 1.0), (-0.1, -0.1))
"""The start is best on the last of these, so it stays in the front."""


def one_each(messages: Any, slot: Slot, variables: Any) -> str:
    """Raises a number of the start only."""
    (variable,) = variables
    other = "b0=0.0" if variable["name"] == "a0" else "a0=0.0"
    return suggest(**{variable["name"]: 1.0}) if other in messages[-1]["content"] else "no idea"


@pytest.mark.parametrize(("trainer", "extra"), [(GEPABase, {}), (GEPAUCB, {"ucb_exploration_constant": 9.0})])
def test_specialists_of_the_front_are_merged_each_pair_once(context: Any, trainer: Any, extra: Any) -> None:
    memory = context(weighted(TRAIN, TRADE), one_each, seed=2)
    best = search(memory, trainer, 24, merge_every=2, **extra)
    assert best == {"a": 1.0, "b": 1.0}
    merged = [s for s in memory.steps if s.reason.startswith("merge")]
    assert [(len(s.parents), s.accepted, s.extra["ancestor"]) for s in merged] == [(2, True, "seed")]
    assert merged[0].step % 2 == 0


def test_without_merges_the_specialists_stay_apart(context: Any) -> None:
    memory = context(weighted(TRAIN, TRADE), one_each, seed=2)
    search(memory, GEPABase, 24, merge_every=0)
    assert max(s.state["a"] + s.state["b"] for s in memory.steps) == 1.0


@pytest.mark.parametrize(
    ("punished", "accepted"),
    [
        pytest.param(0.0, True, id="better than both"),
        pytest.param(0.875, True, id="as good as the better one"),
        pytest.param(1.5, False, id="between the two"),
    ],
)
def test_a_merge_has_to_be_no_worse_than_the_better_of_its_parents(
    context: Any, punished: float, accepted: bool
) -> None:
    """On the selection split a = 1 brings 0.875, b = 1 brings 1.875, both bring 2.75 less what is `punished`."""

    def sum_less_product(weights: tuple[float, ...], a: float, b: float) -> float:
        """The weighted sum, less the weighted product."""
        return weights[0] * a + weights[1] * b - weights[2] * a * b

    problem = replace(
        weighted(TRAIN, ((1.0, 0.0, punished), (0.0, 2.0, 0.0), (-0.125, -0.125, 0.0))),
        train=(Example("t0", (1.0, 1.0, 0.0)),),
        agent=lambda ops, query: ops.apply(sum_less_product, query, ops.param("a"), ops.param("b")),
    )

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        """Raises one number of the start, and both together once they were merged."""
        raised = {v["name"]: 1.0 for v in variables}
        return suggest(**raised) if slot.step > 20 else one_each(messages, slot, variables)

    memory = context(problem, model, seed=2)
    search(memory, GEPABase, 30, merge_every=2)
    both = [s for s in memory.steps if s.state == {"a": 1.0, "b": 1.0}]
    assert both[0].step < 20 and both[0].reason.startswith("merge") and both[0].accepted is accepted
    assert both[0].split == "validate" and len(both[0].rollouts) == 3
    assert both[0].extra["subsample_score"] == pytest.approx((2.75 - punished) / 3)
    assert both[0].extra["parent_subsample_score"] == pytest.approx(1.875 / 3)
    # Merged and rejected it is not merged again, and may be proposed: the minibatch knows of no punishment.
    assert [s.reason.split()[0] for s in both[1:]] == ([] if accepted else ["better"])


def test_a_merged_candidate_remembers_what_its_better_parent_was_told(context: Any) -> None:
    memory = context(greeting(decide=DECIDE, greet=HULLO), specialists, optimizer_kwargs={"memory_size": 1})
    search(memory, GEPABeam, 4, train_batch_size=2, merge_every=3, beam_width=2)
    (asked,) = [c for c in memory.calls if (c.slot.step, c.slot.candidate) == (4, "c0")]
    assert memory.told("search.step")[3]["explored"][0] == "s3.m"
    past = asked.prompt[asked.prompt.index("received in the past") :]
    assert "Hullo" in past and "greet0" in past  # of equally good parents the newer, which was asked for greet


# --- who becomes a parent -----------------------------------------------------------------------------------------


def rugged(train: int = 6, validate: int = 5) -> Problem:
    """Examples that want different numbers, so that no candidate is best on all of them."""
    goals = [tuple((1.0, -0.7, 0.1)[(i + k) % 3] + 0.01 * i for k in range(3)) for i in range(train + validate)]
    return weighted(tuple(goals[:train]), tuple(goals[train:]), score_range=(-10.0, 10.0))


def accepted_of(context: MemoryContext) -> dict[str, tuple[float, ...]]:
    """Scores on the whole selection split, by candidate, in the order of creation."""
    return {
        s.candidate: tuple(r.score for r in s.rollouts)
        for s in context.steps
        if s.split == "validate" and s.accepted is not False
    }


def reflections(context: MemoryContext) -> list[Any]:
    """Of each iteration that was a reflection: its number, its parents, and the rows of scores known before it."""
    scores = accepted_of(context)
    born = {s.candidate: s.step for s in context.steps}
    told = []
    for event in context.told("search.step"):
        known = {name: row for name, row in scores.items() if name == "seed" or born[name] < event["step"]}
        if not any(name.endswith(".m") for name in event["children"]):
            told.append((event["step"], event["explored"], known))
    return told


def test_gepa_base_draws_its_parents_from_the_front(context: Any) -> None:
    memory = context(rugged(), seeded(3))
    search(memory, GEPABase, 40, merge_every=0, train_batch_size=2)
    by_step = {s.step: s for s in memory.steps[1:]}
    drawn, sizes = set(), set()
    for step, (parent,), known in reflections(memory):
        names, rows = list(known), list(known.values())
        won = {names[k]: n for k, n in wins(rows, [math.fsum(row) / len(row) for row in rows]).items()}
        assert parent in won
        sizes.add(len(won))
        drawn.add(parent)
        if step in by_step:
            assert (by_step[step].extra["parent_wins"], by_step[step].extra["front"]) == (won[parent], len(won))
    assert max(sizes) > 1 and len(drawn) > 3, "this history tells nothing of the draw"


def test_gepa_base_draws_by_the_number_of_examples_won(context: Any) -> None:
    """Three candidates stay for ever: the start wins one example of six, the others two and three."""
    drawn: dict[str, int] = {}

    def model(messages: Any, slot: Slot, variables: Any) -> str:
        (_variable,) = variables
        return one_each(messages, slot, variables) if slot.step < 30 else "no idea"

    goals = ((1.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (-0.1, -0.1))
    memory = context(weighted(TRAIN, goals), model)
    search(memory, GEPABase, 630, merge_every=0)
    for step, (parent,), known in reflections(memory):
        if step > 30:
            assert len(known) == 3
            drawn[str(memory_state(memory, parent))] = drawn.get(str(memory_state(memory, parent)), 0) + 1
    # Binomial: 600 draws with 1/6, 2/6, 3/6 have standard deviations of 9, 12, 12; five of them are allowed.
    expected = {"{'a': 0.0, 'b': 0.0}": 100, "{'a': 1.0, 'b': 0.0}": 200, "{'a': 0.0, 'b': 1.0}": 300}
    assert drawn.keys() == expected.keys()
    assert all(abs(drawn[key] - n) < 60 for key, n in expected.items()), drawn


def memory_state(context: MemoryContext, candidate: str) -> Any:
    return next(s.state for s in context.steps if s.candidate == candidate)


@pytest.mark.parametrize("constant", [0.0, 0.3, 20.0])
def test_gepa_ucb_chooses_the_highest_bound(context: Any, constant: float) -> None:
    memory = context(rugged(), seeded(3))
    search(memory, GEPAUCB, 30, merge_every=0, train_batch_size=2, ucb_exploration_constant=constant)
    chosen: dict[str, int] = {}
    by_step = {s.step: s for s in memory.steps[1:]}
    for step, (parent,), known in reflections(memory):
        means = {name: math.fsum(row) / len(row) for name, row in known.items()}
        spread = max(means.values()) - min(means.values())
        bounds = {
            name: mean + constant * spread * math.sqrt(math.log(step - 1 + 2) / (chosen.get(name, 0) + 1))
            for name, mean in means.items()
        }
        assert parent == max(bounds, key=lambda name: (bounds[name], list(bounds).index(name)))
        if step in by_step:
            assert by_step[step].extra["parent_ucb"] == pytest.approx(bounds[parent])
            assert by_step[step].extra["parent_chosen"] == chosen.get(parent, 0)
        chosen[parent] = chosen.get(parent, 0) + 1
    assert len(chosen) > 2
    if constant == 20.0:  # the bonus outweighs the means, so visits are even
        assert max(chosen.values()) <= 3


def test_gepa_ucb_scales_its_bonus_by_the_means_and_not_by_the_declared_range(context: Any) -> None:
    for score_range in (None, (-1000.0, 0.0)):
        problem = numeric(train=1, score_range=score_range)
        memory = context(problem, lambda m, slot, v: suggest(x0={1: 1.0, 2: 2.0}[slot.step]))
        search(memory, GEPAUCB, 2, ucb_exploration_constant=1.0)
        # After the first step: seed -3 (chosen once), child -2: the spread is 1.
        assert memory.steps[2].parents == ("s1.c0.p0",) and not memory.warnings
        assert memory.steps[2].extra["parent_ucb"] == pytest.approx(-2.0 + math.sqrt(math.log(3)))


def test_of_equal_bounds_the_newest_is_chosen_and_of_equal_means_the_oldest_is_the_answer(context: Any) -> None:
    memory = context(weighted(((1.0, 1.0),), ((0.0, 0.0),)), setting({"a": 1.0, "b": 1.0}))
    assert search(memory, GEPAUCB, 3, ucb_exploration_constant=0.0, merge_every=0) == {"a": 0.0, "b": 0.0}
    told = memory.told("search.step")
    assert [e["explored"] for e in told] == [["seed"], ["s1.c0.p0"], ["s2.c0.p0"]]
    assert [e["best"] for e in told] == ["seed"] * 3


@pytest.mark.parametrize("width", [1, 3])
def test_gepa_beam_keeps_the_best_and_reflects_on_all_of_them(context: Any, width: int) -> None:
    memory = context(rugged(), seeded(3))
    search(memory, GEPABeam, 12, merge_every=0, train_batch_size=2, beam_width=width)
    scores = accepted_of(memory)
    order = list(scores)
    beam = ["seed"]
    for event in memory.told("search.step"):
        assert event["explored"] == beam
        everyone = [*beam, *event["children"]]
        best = [max(column) for column in zip(*(scores[name] for name in everyone), strict=True)]

        def rank(name: str, best: list[float] = best) -> Any:
            row = scores[name]
            return math.fsum(row) / len(row), sum(s == b for s, b in zip(row, best, strict=True)), order.index(name)

        beam = sorted(everyone, key=rank, reverse=True)[:width]
    assert len(beam) == width and beam != ["seed"]
    asked = [str(c.slot) for c in memory.calls if c.slot.step == 12]
    assert asked == [f"step=12;candidate=c{i};proposal=0;attempt=0" for i in range(width)]


def test_of_equal_means_the_beam_keeps_who_wins_more_examples(context: Any) -> None:
    # Raising a gives (1, 1, 1) and wins two examples, raising b gives (3, 0, 0) and wins one; b comes later.
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        raised = {(1, "c0"): {"a0": 1.0}, (2, "c1"): {"b0": 1.0}}.get((slot.step, slot.candidate))
        return suggest(**raised) if raised else "no idea"

    memory = context(weighted(((1.0, 1.0),), ((1.0, 3.0), (1.0, 0.0), (1.0, 0.0))), model)
    search(memory, GEPABeam, 3, merge_every=0, beam_width=2)
    assert [e["explored"] for e in memory.told("search.step")] == [
        ["seed"], ["s1.c0.p0", "seed"], ["s1.c0.p0", "s2.c1.p0"],
    ]  # fmt: skip


def test_of_members_equal_in_everything_the_beam_keeps_the_newest(context: Any) -> None:
    def model(messages: Any, slot: Slot, variables: Any) -> str:
        raised = {(1, "c0"): {"a0": 1.0}, (2, "c1"): {"b0": 1.0}}.get((slot.step, slot.candidate))
        return suggest(**raised) if raised else "no idea"

    memory = context(weighted(((1.0, 1.0),)), model)
    search(memory, GEPABeam, 3, merge_every=0, beam_width=2)
    assert memory.told("search.step")[2]["explored"] == ["s2.c1.p0", "s1.c0.p0"]


# --- the Pareto set and the answer --------------------------------------------------------------------------------


@each
def test_on_a_smaller_pareto_set_who_leads_is_judged_on_all_and_the_answer_is_one_of_them(
    context: Any, trainer: Any
) -> None:
    memory = context(rugged(validate=8), seeded(5))
    best = search(memory, trainer, 25, pareto_subset_size=3, train_batch_size=2)
    everything = {f"v{i}" for i in range(8)}
    subsets = {tuple(r.example_id for r in s.rollouts) for s in memory.steps[1:]
               if s.accepted and s.reason.startswith("better")}  # fmt: skip
    assert len(subsets) == 1, "one Pareto set for all"
    (subset,) = subsets
    assert len(subset) == 3 and list(subset) == sorted(subset)
    leading = sum(r.score for r in memory.steps[0].rollouts if r.example_id in subset)
    expected = []
    for step in memory.steps[1:]:
        if step.accepted and len(step.rollouts) == 3 and sum(r.score for r in step.rollouts) > leading:
            leading = sum(r.score for r in step.rollouts)
            expected.append(step.candidate)
    whole = [s for s in memory.steps[1:] if {r.example_id for r in s.rollouts} == everything]
    assert [s.candidate for s in whole] == expected and len(expected) > 1
    assert all(len(s.rollouts) == 8 and s.accepted for s in whole)
    assert best == max(memory.steps[:1] + whole, key=lambda s: s.score).state


def test_another_seed_draws_another_pareto_set_and_too_large_a_one_is_all_with_a_warning(context: Any) -> None:
    sets = set()
    for seed in range(4):
        memory = context(weighted(((1.0,),), ((1.0,),) * 5), setting({"a": 1.0}), seed=seed)
        search(memory, GEPABase, 1, pareto_subset_size=2)
        sets.add(memory.evaluated[2])
    assert len(sets) > 1 and {len(indices) for _, indices in sets} == {2}
    memory = context(weighted(((1.0,),), ((1.0,),) * 5), setting({"a": 1.0}))
    search(memory, GEPABase, 1, pareto_subset_size=50)
    assert memory.evaluated[2] == ("validate", (0, 1, 2, 3, 4))
    assert len(memory.warnings) == 1  # and none of the default minibatch, which is larger than the training data, too
    assert any("pareto_subset_size is 50 and there are 5 examples" in w for w in memory.warnings)


@each
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("validate", [0, 2])
def test_a_number_is_found_in_either_direction(context: Any, trainer: Any, direction: str, validate: int) -> None:
    memory = context(numeric(direction=direction, train=4, validate=validate), seeded(1))
    best = search(memory, trainer, 40)
    assert best["x"] == pytest.approx(3.0, abs=0.1)
    assert memory.stop_reason == "completed"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6), trainer=st.sampled_from(ALL), subset=st.integers(0, 5), merge=st.integers(0, 3),
    evaluations=st.one_of(st.none(), st.integers(5, 60)),
)  # fmt: skip
def test_the_answer_is_the_best_of_what_was_judged_on_everything(
    context: Any, seed: int, trainer: Any, subset: int, merge: int, evaluations: int | None
) -> None:
    memory = context(rugged(), seeded(seed), seed=seed, budget=Budget(evaluations=evaluations))
    best = search(memory, trainer, 10, pareto_subset_size=subset, merge_every=merge, train_batch_size=2)
    judged = [s for s in memory.steps if s.split == "validate" and len(s.rollouts) == 5]
    assert best == max(judged, key=lambda s: s.score).state
    assert max(s.score for s in judged) >= memory.steps[0].score
    assert evaluations is None or memory.evaluations <= evaluations
    assert len({str(c.slot) for c in memory.calls}) == len(memory.calls)


# --- reproducibility ----------------------------------------------------------------------------------------------


@each
def test_equal_seeds_give_equal_histories_and_another_seed_another_one(context: Any, trainer: Any) -> None:
    runs = [context(rugged(), seeded(1), seed=seed) for seed in (1, 1, 2)]
    finals = [search(run, trainer, 12, merge_every=2, pareto_subset_size=3) for run in runs]
    assert finals[0] == finals[1]
    assert history(runs[0]) == history(runs[1]) and runs[0].events == runs[1].events
    assert [(c.slot, c.messages) for c in runs[0].calls] == [(c.slot, c.messages) for c in runs[1].calls]
    assert history(runs[0]) != history(runs[2])


@each
def test_the_number_of_threads_changes_nothing(context: Any, trainer: Any) -> None:
    one, four = (context(rugged(), seeded(1)) for _ in range(2))
    assert search(one, trainer, 12, num_threads=1) == search(four, trainer, 12, num_threads=4)
    assert history(one) == history(four) and one.events == four.events


def test_the_calls_of_a_beam_overlap_and_change_nothing(context: Any) -> None:
    together = threading.Barrier(6, timeout=20)

    def overlapping(messages: Any, slot: Slot, variables: Any) -> str:
        if slot.step == 4:  # the beam is full by then: its six calls are in flight at once, or the barrier breaks
            together.wait()
        return seeded(1)(messages, slot, variables)

    params = {"beam_width": 2, "num_proposals": 3, "merge_every": 0, "train_batch_size": 2}
    one, six = context(rugged(), seeded(1)), context(rugged(), overlapping)
    assert search(one, GEPABeam, 6, num_threads=1, **params) == search(six, GEPABeam, 6, num_threads=6, **params)
    assert history(one) == history(six) and one.events == six.events


@each
def test_verbose_prints_a_line_for_each_iteration_and_changes_nothing(
    context: Any, trainer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet, loud = context(rugged(), seeded(1)), context(rugged(), seeded(1))
    best = search(quiet, trainer, 3)
    assert capsys.readouterr().out == ""
    assert search(loud, trainer, 3, verbose=True) == best
    lines = capsys.readouterr().out.splitlines()
    for line, told in zip(lines, loud.told("search.step"), strict=True):
        assert line.startswith(f"step {told['step']}: best {told['best']} {told['best_mean']:.6g}, ")
    assert history(loud) == history(quiet)


# --- parameters ---------------------------------------------------------------------------------------------------

OTHER = {
    "num_iters": 3,
    "num_search_iterations": 3,
    "train_batch_size": 1,
    "merge_every": 2,
    "pareto_subset_size": 2,
    "ucb_exploration_constant": 0.01,
    "beam_width": 1,
    "num_proposals": 2,
}
CASES = [(trainer, param) for trainer in ALL for param in trainer.params if param.changes_results]


@pytest.mark.parametrize(("trainer", "param"), CASES, ids=[f"{t.name}.{p.name}" for t, p in CASES])
def test_every_parameter_changes_what_is_done(context: Any, trainer: Any, param: Any) -> None:
    """One without a case here is a KeyError."""
    assert OTHER[param.name] != param.default
    runs = [context(rugged(), one_each_of_three) for _ in range(2)]
    # With a small bonus GEPA-UCB follows one line of candidates, which has nothing to merge.
    bold = {"ucb_exploration_constant": 3.0} if trainer is GEPAUCB else {}
    search(runs[0], trainer, **bold)
    search(runs[1], trainer, **{**bold, param.name: OTHER[param.name]})
    assert history(runs[0]) != history(runs[1])


def one_each_of_three(messages: Any, slot: Slot, variables: Any) -> str:
    (variable,) = variables
    return suggest(**{variable["name"]: min(variable["value"] + 1.0 + slot.proposal, 10.0)})


@pytest.mark.parametrize("key", [key for key in KNOBS if key.startswith("gepa_")])
@pytest.mark.parametrize("on_entry", [False, True])
@each
def test_the_knobs_of_a_config_reach_it(trainer: Any, key: str, on_entry: bool) -> None:
    entry = {"id": trainer.name, **({key: 7} if on_entry else {})}
    config = parse_config({"tasks": ["a"], "trainers": [entry], **({} if on_entry else {key: 7})})
    problems: list[str] = []
    (variant,) = resolve_variants(config, {trainer.name: trainer}, problems)
    meant = {
        "gepa_iters": iterations(trainer),
        "gepa_train_bs": "train_batch_size",
        "gepa_merge_every": "merge_every",
        "gepa_pareto_subset": "pareto_subset_size",
    }
    assert problems == [] and variant.params[meant[key]] == 7
    assert [name for name, value in variant.params.items() if value == 7] == [meant[key]]


@each
@pytest.mark.parametrize("name", ["num_iters", "num_search_iterations"])
def test_either_name_of_the_number_of_iterations_is_taken(trainer: Any, name: str) -> None:
    config = parse_config({"tasks": ["a"], "trainers": [{"id": trainer.name, "params": {name: 7, "threads": 3}}]})
    problems: list[str] = []
    (variant,) = resolve_variants(config, {trainer.name: trainer}, problems)
    assert problems == [] and variant.params[iterations(trainer)] == 7 and variant.params["num_threads"] == 3
