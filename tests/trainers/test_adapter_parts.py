"""What adapters do alike: states as texts and back, scores from 0 to 1, steps out of single scores."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.trainers.memory_context import MemoryContext, greeting, numeric, seeded
from trace_bench.errors import TrainerError
from trace_bench.trainers.adapters import sections
from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.adapters.foreign import Foreign
from trace_bench.trainers.adapters.imports import importing
from trace_bench.trainers.adapters.judging import MOST, Judging
from trace_bench.trainers.answers import Unusable
from trace_bench.trainers.base import Rollout, Search, Slot, State, Step
from trace_bench.worker.problem import Parameter, Problem


class Scripted:
    """A trainer whose framework is a function."""

    name = "Scripted"
    params = ()
    uses_llm = uses_graph = False
    work: Any = None

    def search(self, search: Search) -> Any:
        bridge = Bridge("some framework")
        return (yield from bridge.run(lambda: type(self).work(Foreign(search, bridge))))


def within(context: Any, problem: Problem, work: Any, **fields: Any) -> MemoryContext:
    memory: MemoryContext = context(problem, seeded(1), **fields)
    memory.search(type("One", (Scripted,), {"work": staticmethod(work)}))
    return memory


def test_a_state_of_several_parameters_is_sections_and_comes_back() -> None:
    problem = greeting()
    texts = {name: str(value).rstrip("\n") for name, value in problem.initial_state().items()}
    text = sections.write(problem, texts)
    assert text.startswith("#### decide ####\ndef decide(query):")
    assert sections.read(problem, text) == texts
    assert sections.read(problem, text + "\n") == texts


@pytest.mark.parametrize("text", ["", "no sections", "#### decide ####\nx", "#### decide ####\n#### decide ####\n"])
def test_a_program_without_its_sections_is_unusable(text: str) -> None:
    with pytest.raises(Unusable, match="sections have to be decide, greet"):
        sections.read(greeting(), text)


def test_a_single_text_is_itself_and_a_single_number_is_not() -> None:
    text = Problem(**{**vars(numeric()), "parameters": (Parameter("style", "Answer.", "text"),)})
    assert sections.write(text, {"style": "Answer."}) == "Answer." and sections.read(text, "x") == {"style": "x"}
    assert sections.write(numeric(), {"x": "0.0"}) == "#### x ####\n0.0"


def test_values_are_texts_and_come_back_the_same(context: Any) -> None:
    found: list[Any] = []

    def work(foreign: Foreign) -> None:
        state: State = {"x": 0.1 + 0.2}
        found.append(foreign.read(foreign.texts(state)) == state)
        found.append(foreign.read({"x": "  2.5\n"}))
        for bad in ("eleven", "11", "nan", ""):
            with pytest.raises(Unusable, match=r"^x: "):
                foreign.read({"x": bad})

    within(context, numeric(), work)
    assert found == [True, {"x": 2.5}]


def test_an_answer_is_plain_text_since_packages_refuse_subclasses_of_str(context: Any) -> None:
    found: list[type] = []

    def work(foreign: Foreign) -> None:
        found.append(type(foreign.ask([{"role": "user", "content": "?"}], Slot(1, "a", 0), otherwise="")))

    within(context, numeric(), work)
    assert found == [str]


def test_the_start_is_not_evaluated_again(context: Any) -> None:
    def work(foreign: Foreign) -> None:
        start = foreign.search.start
        assert foreign.evaluate(start.state, "validate") == list(start.rollouts)
        foreign.evaluate(start.state, "train")
        foreign.evaluate({"x": 1.0}, "validate")

    memory = within(context, numeric(train=3, validate=2), work)
    assert memory.evaluations == 2 + 3 + 2


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_scores_are_turned_and_scaled_from_worst_to_best(context: Any, direction: str) -> None:
    sign = 1 if direction == "maximize" else -1
    known: list[float] = []
    unknown: list[float] = []

    def scaled(into: list[float]) -> Any:
        def work(foreign: Foreign) -> None:
            judging = Judging(foreign)
            into.extend(judging.scaled(Rollout("e", sign * score, "")) for score in (-10.0, -3.0, 0.0, 1e9, -1e9))

        return work

    within(context, numeric(direction=direction, score_range=(sign * -10.0, 0.0)), scaled(known))
    within(context, numeric(direction=direction), scaled(unknown))
    tiny = pytest.approx(0.0, abs=1e-9)
    assert known == [tiny, pytest.approx(0.7), pytest.approx(1.0), MOST, tiny]
    assert unknown == [tiny, pytest.approx(0.5), pytest.approx(1.5), MOST, tiny], "the start's mean is -3"


def test_scores_of_one_state_that_follow_each_other_are_one_step(context: Any) -> None:
    def work(foreign: Foreign) -> None:
        judging = Judging(foreign)
        for texts, split, index in (
            ({"x": "1.0"}, "train", 0), ({"x": "1.0"}, "train", 2), ({"x": "2.0"}, "train", 0),
            ({"x": "1.0"}, "train", 1), ({"x": "1.0"}, "train", 1), ({"x": "many"}, "train", 1),
            ({"x": "many"}, "validate", 0), ({"x": "0.0"}, "validate", 1), ({"x": "many", "y": "z"}, "train", 1),
        ):  # fmt: skip
            judging.one(texts, split, index)
        judging.flush()
        judging.whole({"x": 2.0}, "validate")

    memory = within(context, numeric(train=3, validate=2), work)
    told = [(s.step, s.state["x"], s.split, len(s.rollouts)) for s in memory.steps]
    assert told == [(0, 0.0, "validate", 2), (1, 1.0, "train", 2), (2, 2.0, "train", 1), (3, 1.0, "train", 3),
                    (4, 2.0, "validate", 2)]  # fmt: skip
    assert memory.evaluations == 2 + 4 + 2, "each example once, and the start is known"
    assert [event["variable"] for event in memory.told("proposal.rejected")] == ["x", "x"]
    (unusable,) = memory.told("proposal.unusable")
    assert unusable["kind"] == "invalid_value", "one answer, whatever its value is combined with"


def test_an_example_that_fills_a_minibatch_twice_is_paid_once(context: Any) -> None:
    seen: list[list[str]] = []

    def work(foreign: Foreign) -> None:
        state = {"x": 1.0}
        for indices in ([0, 1, 0, 0], [1, 0]):
            seen.append([r.example_id for r in foreign.evaluate(state, "train", indices)])
        foreign.tell(1, "c", (), state, foreign.evaluate(state, "train"), "train")

    memory = within(context, numeric(train=2), work)
    assert seen == [["t0", "t1", "t0", "t0"], ["t1", "t0"]]
    assert memory.evaluations == 2 + 2  # the start, and each example once


@pytest.mark.parametrize(("deterministic", "samples"), [(True, 1), (False, 3)])
def test_a_framework_that_samples_gets_new_scores_where_the_task_has_any(
    context: Any, deterministic: bool, samples: int
) -> None:
    def work(foreign: Foreign) -> None:
        judging = Judging(foreign)
        for _ in range(3):
            judging.one({"x": "1.0"}, "train", 0)
        judging.flush()

    memory = within(context, numeric(), work, deterministic=deterministic)
    assert [len(s.rollouts) for s in memory.steps[1:]] == [1] * samples
    assert (memory.evaluations, memory.saved) == (1 + samples, 3 - samples)


def test_a_package_that_is_left_out_is_a_stand_in_during_the_import_only() -> None:
    with importing("some framework", clients=("openai",), missing=("no_such_package", "json")):
        import no_such_package  # type: ignore[import-not-found]
        import openai  # type: ignore[import-not-found, unused-ignore]

        client = openai.OpenAI
        assert no_such_package.anything and hasattr(sys.modules["json"], "dumps")
    assert "no_such_package" not in sys.modules
    assert getattr(sys.modules.get("openai"), "OpenAI", None) is not client
    with pytest.raises(TrainerError, match="left out of its image"):
        client()


def test_a_missing_framework_is_a_sentence() -> None:
    with (
        pytest.raises(TrainerError, match=r"some framework cannot be imported .*Use the image of this trainer"),
        importing("some framework"),
    ):
        import no_such_framework  # type: ignore[import-not-found]  # noqa: F401


def test_steps_are_named_by_their_states(context: Any) -> None:
    names: list[Any] = []

    def work(foreign: Foreign) -> None:
        rollouts = foreign.evaluate({"x": 1.0}, "train")
        foreign.tell(1, "s1.p0", ("seed",), {"x": 1.0}, rollouts, "train", True, "better", gain=2.0)
        names.extend([foreign.name({"x": 1.0}), foreign.name({"x": 0.0}), foreign.name({"x": 9.0})])

    memory = within(context, numeric(), work)
    assert names == ["s1.p0", "seed", None]
    last: Step = memory.steps[-1]
    assert (last.parents, last.accepted, last.reason, dict(last.extra)) == (("seed",), True, "better", {"gain": 2.0})
