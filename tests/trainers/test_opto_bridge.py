"""Trainers of OpenTrace: found without importing anything, and run on our problems by our rules."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.memory_context import MemoryContext, Model, numeric, seeded, suggest
from tests.trainers.opto_checkout import write_checkout
from trace_bench.errors import ConfigError, TrainerError
from trace_bench.images.layers import family_named
from trace_bench.images.recipe import image_key
from trace_bench.trainers import opto_scan
from trace_bench.trainers.base import Budget
from trace_bench.trainers.registry import additions_of, entry_of, executes_candidates, list_trainers, load_trainer
from trace_bench.worker.problem import Parameter, Problem, examples

NAMES = ["Beam", "Minibatch", "Parallel", "Raising", "Swallowing"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("opentrace"))


@pytest.fixture
def checkout(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENTRACE", str(copy))
    return copy


@pytest.fixture
def importable(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The checkout's trainers beside the trace-opt that is installed here, which is the same."""
    # What imported it before, if anything did, gave it another stand-in for black than the bridge does.
    for name in [name for name in sys.modules if name == "opto" or name.startswith("opto.")]:
        monkeypatch.delitem(sys.modules, name)
    opto = importlib.import_module("opto")
    monkeypatch.setattr(opto, "__path__", [*opto.__path__, str(checkout / "opto")])
    monkeypatch.syspath_prepend(str(checkout))
    yield checkout
    for name in [name for name in sys.modules if name.split(".")[0] in ("opto", "examples")]:
        del sys.modules[name]


def searched(name: str, model: Model | None = None, problem: Any = None, **params: Any) -> MemoryContext:
    budget = params.pop("budget", Budget())
    context = MemoryContext(problem or numeric(train=2), None, model or seeded(1), budget=budget)  # type: ignore[arg-type]
    context.final = context.search(load_trainer(f"opto:{name}"), **params)  # type: ignore[attr-defined]
    return context


def always(value: float) -> Model:
    return lambda messages, slot, variables: suggest(**{variables[0]["name"]: value})


@pytest.mark.usefixtures("importable")
def test_with_no_bound_it_goes_on_until_the_budget_ends() -> None:
    def inventive(messages: Any, slot: Any, variables: Any) -> str:
        return suggest(**{variables[0]["name"]: random.Random(str(slot)).uniform(-9.0, 9.0)})

    (bound,) = [p for p in load_trainer("opto:Minibatch").params if p.endless is not None]
    assert (bound.name, bound.endless, bound.default, bound.minimum) == ("num_epochs", 0, 1, 0)
    memory = searched("Minibatch", inventive, num_epochs=0, budget=Budget(evaluations=300))
    assert memory.stop_reason == "budget" and 270 <= memory.evaluations <= 300
    stalled = searched("Minibatch", always(1.0), num_epochs=0, budget=Budget(evaluations=300))
    assert stalled.stop_reason == "completed" and stalled.told("search.stalled")
    assert stalled.evaluations == 2 * 2, "the start and one more state"


def test_trainers_are_found_by_reading_and_nothing_is_imported(checkout: Path) -> None:
    rows = {name: available for name, available, _ in list_trainers() if name.startswith("opto:")}
    assert rows == {f"opto:{name}": True for name in NAMES}
    assert entry_of("opto:Beam") == "trace_bench.trainers.opto_bridge:Beam"
    assert additions_of("opto:Beam", load_trainer("opto:Beam")) == ("opentrace",)
    assert executes_candidates("opto:Beam") and not executes_candidates("PrioritySearch")
    code = "import sys; from trace_bench.trainers.registry import list_trainers as listed; listed(); "
    code += "print('opto' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.usefixtures("checkout")
def test_parameters_are_those_of_train_that_have_a_plain_default() -> None:
    params = {p.name: (p.type, p.default) for p in load_trainer("opto:Minibatch").params}
    assert params == {
        "num_epochs": (int, 1),
        "min_score": (float, None),
        "scale": (float, 1.0),
        "optimizer_class": (str, "OptoPrime"),
    }
    assert {p.name for p in load_trainer("opto:Beam").params} == params.keys(), "of the nearest class that has a train"
    assert {p.name for p in load_trainer("opto:Parallel").params} == {"num_epochs", "optimizer_class"}


@pytest.mark.usefixtures("importable")
def test_each_state_is_a_step_judged_on_the_whole_selection_split() -> None:
    context = searched("Minibatch", problem=numeric(train=2, validate=3), num_epochs=2)
    assert [step.step for step in context.steps] == [0, 1, 2, 3, 4] and context.stop_reason == "completed"
    assert {(step.split, len(step.rollouts)) for step in context.steps} == {("validate", 3)}
    assert context.steps[-1].state == context.final, "the last state is judged, though no example was run with it"
    assert len({step.state["x"] for step in context.steps}) == 5
    # Five states on three validation examples each, and the four that were learnt from on a training example.
    assert context.evaluations == 5 * 3 + 4 and len(context.calls) == 4
    assert [call.slot.step for call in context.calls] == [0, 1, 2, 3]
    assert "evaluate0 = evaluate(query=query0, x=x0)" in context.calls[0].prompt
    assert "0 is too low" in context.calls[0].prompt and "Find the number." in context.calls[0].prompt


@pytest.mark.usefixtures("importable")
def test_nothing_is_evaluated_twice() -> None:
    context = searched("Minibatch", model=always(1.0), num_epochs=5)
    assert [step.state["x"] for step in context.steps] == [0.0, 1.0]
    assert context.evaluations == 4, "two states on two examples"


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1), ("minimize", -1)])
def test_scores_are_higher_is_better_there_and_the_tasks_here(direction: str, sign: int) -> None:
    # It ends at the first score of at least -1, that is at distance 1.
    context = searched("Minibatch", problem=numeric(train=1, direction=direction), num_epochs=30, min_score=-1.0)
    near = [abs(step.state["x"] - 3.0) <= 1.0 for step in context.steps]  # type: ignore[operator]
    assert True in near[:-1] and near.index(True) == len(near) - 2, "the state after it was proposed, and is judged"
    assert all(step.score == -sign * abs(step.state["x"] - 3.0) for step in context.steps)  # type: ignore[operator]


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("params", [{"num_epochs": 3}, {"min_score": -100.0}, {"optimizer_class": "OPRO"}])
def test_each_parameter_changes_what_is_done(params: dict[str, Any]) -> None:
    def told(context: MemoryContext) -> list[Any]:
        return [[step.state for step in context.steps], [call.messages for call in context.calls]]

    assert told(searched("Minibatch", **params)) != told(searched("Minibatch"))


@pytest.mark.usefixtures("importable")
def test_the_same_seed_gives_the_same_steps_on_many_threads_too() -> None:
    first, second = (searched("Parallel", problem=numeric(train=1), num_epochs=3) for _ in range(2))
    assert first.steps == second.steps and len(first.steps) == 4


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("name", ["Minibatch", "Swallowing"])
@pytest.mark.parametrize(("budget", "calls"), [(Budget(calls=2), 2), (Budget(evaluations=6), 3)])
def test_a_budget_ends_it_in_order(name: str, budget: Budget, calls: int) -> None:
    context = searched(name, num_epochs=50, budget=budget) if name == "Minibatch" else searched(name, budget=budget)
    assert context.stop_reason == "budget" and (len(context.calls), context.evaluations) == (calls, 6)
    assert [step.step for step in context.steps] == [0, 1, 2]
    assert context.final == max(context.steps, key=lambda step: step.score).state


@pytest.mark.usefixtures("importable")
def test_what_is_no_value_of_the_parameter_fails_and_costs_nothing() -> None:
    context = searched("Minibatch", model=always(99.0), problem=numeric(train=1), num_epochs=2)
    assert [step.state["x"] for step in context.steps] == [0.0] and context.evaluations == 1
    assert "99.0 is not in the bounds from -10 to 10" in context.calls[1].prompt
    assert context.final == {"x": 0.0}, "its own last state is none; the best that was recorded is"
    assert [event["kind"] for event in context.told("proposal.unusable")] == ["invalid_value"], "one value, told once"


@pytest.mark.usefixtures("importable")
def test_an_answer_without_text_is_unusable() -> None:
    context = searched("Minibatch", model=lambda *_: " ", problem=numeric(train=1), num_epochs=2)
    assert [event["kind"] for event in context.told("proposal.unusable")] == ["empty"] * len(context.calls)
    assert context.calls


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(
    ("finish", "kinds", "score"),
    [("stop", [], 0.0), ("length", ["cut_off"], -3.0)],
)
def test_it_gets_the_answer_without_the_reasoning_and_nothing_of_one_that_was_cut_off(
    finish: str, kinds: list[str], score: float
) -> None:
    def thinking(messages: Any, slot: Any, variables: Any) -> str:
        draft, answer = (always(value)(messages, slot, variables) for value in (-9.0, 3.0))
        return f"\n<think>{draft}</think>\n{answer}"

    context = MemoryContext(numeric(), None, thinking, finish_reason=finish)  # type: ignore[arg-type]
    context.search(load_trainer("opto:Minibatch"))
    assert context.best_score == score
    assert {fields["kind"] for fields in context.told("proposal.unusable")} == set(kinds)


@pytest.mark.usefixtures("importable")
def test_errors_of_it_are_failures_of_the_trainer_in_one_sentence() -> None:
    with pytest.raises(TrainerError, match=r"^Raising of OpenTrace raised ValueError: no such thing$"):
        searched("Raising")
    with pytest.raises(TrainerError, match=r"opto\.optimizers has no Nobody; name one that it has as optimizer_class"):
        searched("Minibatch", optimizer_class="Nobody")


def test_an_image_gets_package_and_examples_and_is_known_by_them(checkout: Path, tmp_path: Path) -> None:
    family = family_named("core+opentrace")
    assert set(family.plugin_versions) == {"opentrace"} and family.plugin_versions["opentrace"] == "0.1.3.8"
    files = set(family.plugins[0].files)
    assert {"opto/trace/nodes.py", "opto/trainer/algorithms/basic.py", "examples/trainers/beam.py"} <= files
    assert not files & {"setup.py", "examples/other.py"}
    before = image_key(family.recipe, "x")
    other = write_checkout(tmp_path / "other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENTRACE", str(other))
        assert image_key(family_named("core+opentrace").recipe, "x") == before
        (other / "opto" / "trainer" / "algorithms" / "basic.py").write_text("")
        assert image_key(family_named("core+opentrace").recipe, "x") != before


def test_a_wheel_is_read_as_a_checkout_is(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "trace_opt-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (copy / "opto").rglob("*"):
            archive.write(path, path.relative_to(copy))
        archive.writestr("opto/../../outside.py", "")
    monkeypatch.setenv("OPENTRACE", str(wheel))
    place = opto_scan.location()
    assert place is not None
    files = opto_scan.files_of(place)
    assert list(opto_scan.trainers_of(files)) == [name for name in NAMES if name != "Beam"]
    assert not [name for name in files if "outside" in name]


def test_without_a_copy_or_without_trainers_the_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENTRACE", raising=False)
    with pytest.raises(ConfigError, match=r"'opto:Beam': OPENTRACE is not set; set OPENTRACE to a checkout"):
        load_trainer("opto:Beam")
    with pytest.raises(ConfigError, match="no copy of OpenTrace is named; set OPENTRACE"):
        family_named("core+opentrace")
    write_checkout(tmp_path / "bare")
    (tmp_path / "bare/opto/trainer/algorithms/basic.py").unlink()
    monkeypatch.setenv("OPENTRACE", str(tmp_path / "bare"))
    with pytest.raises(ConfigError, match=r"'opto:Beam': .*bare has no trainers; set OPENTRACE"):
        load_trainer("opto:Beam")
    for place in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        monkeypatch.setenv("OPENTRACE", str(place))
        with pytest.raises(ConfigError, match="is not a checkout or a wheel with a package opto"):
            list_trainers()


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("text", ["def is no word", "please define it", 'def f(x):\n    return "default"\n'])
def test_a_text_with_def_in_it_is_taken_as_it_is(text: str) -> None:
    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return float(len(response)), "longer"

    problem = Problem(parameters=(Parameter("x", "a", "text"),), guide=guide, train=examples(["only"]),
                      objective="Write.", direction="maximize", failure_score=0.0)  # fmt: skip
    model: Model = lambda messages, slot, variables: suggest(**{variables[0]["name"]: text})  # noqa: E731
    assert [step.state["x"] for step in searched("Minibatch", model=model, problem=problem).steps] == ["a", text]


def test_a_trainer_with_a_method_that_only_raises_is_abstract() -> None:
    source = b"class Trainer: ...\nclass Base(Trainer):\n    def train(self, guide, train_dataset): ...\n"
    source += b"    def forward(self):\n        'What.'\n        raise NotImplementedError('no')\n"
    source += b"class Whole(Base):\n    def forward(self): ...\n"
    found = opto_scan.trainers_of({"opto/trainer/a.py": source})
    assert {name: one.abstract for name, one in found.items()} == {"Base": ("forward",), "Whole": ()}
