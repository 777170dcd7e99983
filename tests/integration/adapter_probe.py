"""Runs inside an image of a trainer's layer: what each parameter of an adapter changes, as digests on stdout.

It gets no network, no HOME that can be written to, and no pytest. `main(TRAINER)` prints one JSON object,
``{case: {"digest": …, "printed": …, "best": …, …}}``; a case is ``base N`` or ``PARAMETER = value``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.forking import ForkingSpawner
from tests.trainers.memory_context import MemoryContext, numeric, suggest
from trace_bench.errors import TrainerError
from trace_bench.trainers.adapters.gepa_package import GEPATrainer
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.gepa_base import GEPABase
from trace_bench.worker.candidates import CandidatePrograms
from trace_bench.worker.problem import Example, Parameter, Problem

WORDS = ("english", "polite", "short", "rhyme", "calm")
ENTRIES = {
    "GEPATrainer": "trace_bench.trainers.adapters.gepa_package",
    "DSPyTrainer": "trace_bench.trainers.adapters.dspy_trainer",
    "OpenEvolveTrainer": "trace_bench.trainers.adapters.openevolve_trainer",
    "TextGradTrainer": "trace_bench.trainers.adapters.textgrad_trainer",
}


def one_text(train: int = 6, validate: int = 4) -> Problem:
    """Say the words that the examples want; each wants some of them."""

    def guide(query: Any, response: Any, wanted: int) -> tuple[float, str]:
        missing = [word for word in WORDS[:wanted] if word not in response]
        return 1 - len(missing) / wanted, f"say {missing[0]}" if missing else "good"

    def examples(prefix: str, count: int) -> tuple[Example, ...]:
        return tuple(Example(f"{prefix}{i}", f"question {i}", 1 + i % len(WORDS)) for i in range(count))

    return Problem(
        parameters=(Parameter("style", "Answer in english.", "text", description="how to answer"),),
        guide=guide,
        train=examples("t", train),
        validate=examples("v", validate),
        objective="Find the style.",
        direction="maximize",
        failure_score=0.0,
        score_range=(0.0, 1.0),
    )


def two_texts() -> Problem:
    """Two texts; one is good for the first kind of example and bad for the second, the other the other way round."""

    def agent(ops: Any, query: Any) -> Any:
        return ops.apply(_pair, ops.param("first"), ops.param("second"))

    def guide(query: Any, response: Any, kind: int) -> tuple[float, str]:
        good = "good" in response[kind]
        bad = "good" in response[1 - kind]
        return 0.5 + 0.5 * good - 0.2 * bad, "say good"

    def examples(prefix: str) -> tuple[Example, ...]:
        return tuple(Example(f"{prefix}{i}", f"question {i}", i % 2) for i in range(6))

    return Problem(
        parameters=(
            Parameter("first", "begin first", "text"),
            Parameter("second", "begin second", "text"),
        ),
        guide=guide,
        train=examples("t"),
        validate=examples("v"),
        agent=agent,
        objective="Say it.",
        direction="maximize",
        failure_score=0.0,
    )


TRAIN = ("apple 2", "apple 3", "berry 4", "cherry 5", "berry 6", "cherry 8")
VALIDATE = ("apple 11", "berry 13", "cherry 15", "apple 12")


def few_shot(train: tuple[str, ...] = TRAIN, texts: tuple[str, ...] = ("style",)) -> Problem:
    """Name the fruit in capitals. The agent can do so where its number is even, and for fruits of its demos."""

    def agent(ops: Any, query: Any) -> Any:
        return ops.apply(_fruit, ops.param("style"), query)

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return (1.0, "right") if response == reference["secret"] else (0.25, "wrong")

    def examples(prefix: str, queries: tuple[str, ...]) -> tuple[Example, ...]:
        return tuple(Example(f"{prefix}{i}", text, {"secret": text.upper()}) for i, text in enumerate(queries))

    return Problem(
        parameters=tuple(Parameter(name, "Name it.", "text") for name in texts),
        guide=guide,
        train=examples("t", train),
        validate=examples("v", VALIDATE),
        agent=agent,
        objective="Name the fruit.",
        direction="maximize",
        failure_score=0.0,
        score_range=(0.0, 1.0),
    )


def _fruit(style: str, query: str) -> str:
    """The answer to `query`."""
    name, number = query.split()
    shown = [line.removeprefix("Query: ").split()[0] for line in style.splitlines() if line.startswith("Query: ")]
    return query.upper() if int(number) % 2 == 0 or name in shown else "no idea"


def _pair(first: Any, second: Any) -> list[Any]:
    """Both texts."""
    return [first, second]


def reflecting(messages: list[dict[str, str]], slot: Slot, variables: Any) -> str:
    """For the package gepa: the instruction in the prompt, with a word that the feedback asks for."""
    text = messages[-1]["content"]
    now = re.findall(r"```\n(.*?)\n```", text, re.DOTALL)[0]
    asked = re.findall(r"say (\w+)", text)
    return f"```\n{now} {random.Random(f'{slot}').choice([*asked, 'hm'])}\n```"


def evolving(messages: list[dict[str, str]], slot: Slot, variables: Any) -> str:
    """For openevolve: a random word is added, as a block or as a whole program."""
    text = messages[-1]["content"]
    now = re.findall(r"# Current Program\n```\w+\n(.*?)\n```", text, re.DOTALL)[0]
    new = f"{now} {random.Random(f'{slot}').choice(WORDS)}"
    if "SEARCH/REPLACE" in text:
        return f"<<<<<<< SEARCH\n{now}\n=======\n{new}\n>>>>>>> REPLACE"
    return f"```text\n{new}\n```"


def descending(messages: list[dict[str, str]], slot: Slot, variables: Any) -> str:
    """For textgrad: feedback names words, and an update says one of them."""
    text = messages[-1]["content"]
    if "IMPROVED_VARIABLE" not in messages[0]["content"]:
        return " ".join(re.findall(r"say \w+", text)) or "fine"
    now = re.findall(r"<VARIABLE> (.*?) </VARIABLE>", text, re.DOTALL)[0]
    asked = re.findall(r"<FEEDBACK>.*?say (\w+)", text)
    return f"<IMPROVED_VARIABLE>{now} {random.Random(f'{slot}').choice([*asked, 'hm'])}</IMPROVED_VARIABLE>"


def instructing(messages: list[dict[str, str]], slot: Slot, variables: Any) -> str:
    """For dspy: whatever fields it asks for, in the form that it asks for."""
    system, text = messages[0]["content"], messages[-1]["content"]
    chance = random.Random(str(slot))
    words = " ".join(chance.sample(WORDS, 3))
    if '"new_instruction"' in system:
        now = re.findall(r"## current_instruction ## \]\]\n(.*?)\n\n", text, re.DOTALL)[0]
        word = chance.choice([*re.findall(r"say (\w+)", text), *WORDS])
        return json.dumps({"new_instruction": f"{now} {word}"})
    names = re.findall(r"^\d+\. `(\w+)`", system.split("Your output fields are")[1], re.MULTILINE)
    said = dict.fromkeys(names, f"Answer {words}")
    if "module_advice" in said:
        said["module_advice"] = json.dumps({"style": f"be {words}"})
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in said.items()) + "\n\n[[ ## completed ## ]]"


MODELS: dict[str, Callable[..., str]] = {
    "GEPATrainer": reflecting,
    "DSPyTrainer": instructing,
    "OpenEvolveTrainer": evolving,
    "TextGradTrainer": descending,
}


@dataclass(frozen=True)
class Case:
    """`parameter` set to `value`, beside `base`, against `base` alone."""

    parameter: str
    value: Any
    base: dict[str, Any] = field(default_factory=dict)
    problem: str = "one_text()"


def _dspy(optimizer: str, **base: Any) -> dict[str, Any]:
    small = {
        "mipro": {"num_candidates": 3, "num_trials": 3},
        "copro": {"breadth": 3, "depth": 2},
        "simba": {"max_steps": 2, "num_candidates": 3, "bsize": 4},
        "gepa": {"max_metric_calls": 40},
    }
    return {"dspy_optimizer": optimizer, **small[optimizer], **base}


TWO = "two_texts()"
FRUIT_OF_TWO = "few_shot(texts=('style', 'tone'))"
CASES: dict[str, tuple[Case, ...]] = {
    "GEPATrainer": (
        Case("num_iters", 2, {"num_iters": 8}),
        Case("max_metric_calls", 15, {"num_iters": 8}),
        Case("reflection_minibatch_size", 2, {"num_iters": 8}),
        Case("candidate_selection_strategy", "epsilon_greedy", {"num_iters": 12, "reflection_minibatch_size": 1}, TWO),
        Case("module_selector", "all", {"num_iters": 8}, TWO),
        Case("acceptance_criterion", "improvement_or_equal", {"num_iters": 8}),
        Case("skip_perfect_score", False, {"num_iters": 12}),
        Case("use_merge", True, {"num_iters": 14, "reflection_minibatch_size": 1}, TWO),
        Case("max_merge_invocations", 0, {"num_iters": 14, "reflection_minibatch_size": 1, "use_merge": True}, TWO),
        Case("max_tokens", 100, {"num_iters": 3}),
        Case("verbose", True, {"num_iters": 3}),
    ),
    "OpenEvolveTrainer": (
        Case("iterations", 4),
        Case("num_islands", 1),
        Case("population_size", 2, {"num_islands": 1, "iterations": 12}),
        Case("archive_size", 1, {"num_islands": 1, "iterations": 12}),
        Case("feature_bins", 50, {"num_islands": 1, "iterations": 20, "population_size": 5}),
        Case("migration_interval", 1, {"num_islands": 2, "iterations": 12}),
        Case("migration_rate", 1.0, {"num_islands": 2, "iterations": 16, "migration_interval": 1}),
        Case("exploration_ratio", 1.0, {"num_islands": 1, "iterations": 12}),
        Case("exploitation_ratio", 0.0, {"num_islands": 1, "iterations": 12}),
        Case("num_top_programs", 1, {"num_islands": 1, "iterations": 12}),
        Case("num_diverse_programs", 0, {"num_islands": 1, "iterations": 12}),
        Case("diff_based_evolution", False, {"iterations": 4}),
        Case("train_batch_size", 2, {"iterations": 4}),
        Case("max_tokens", 100, {"iterations": 4}),
        Case("verbose", True, {"iterations": 4}),
    ),
    "TextGradTrainer": (
        Case("num_steps", 2),
        Case("num_epochs", 4),
        Case("train_batch_size", 1),
        Case("constraints", ["Be brief."]),
        Case("ensure_improvement", True, {"num_steps": 6}),
        Case("improvement_threshold", 0.9, {"num_steps": 6, "ensure_improvement": True}),
        Case("max_tokens", 100),
        Case("verbose", True),
    ),
    "DSPyTrainer": (
        Case("dspy_optimizer", "copro", {"num_candidates": 3, "num_trials": 3}),
        Case("num_candidates", 4, _dspy("mipro")),
        Case("num_candidates", 2, _dspy("simba")),
        Case("num_trials", 5, _dspy("mipro")),
        Case("minibatch_size", 10, _dspy("mipro", num_candidates=6, num_trials=2), "one_text(train=4, validate=52)"),
        Case("init_temperature", 0.5, _dspy("mipro")),
        Case("init_temperature", 0.5, _dspy("copro")),
        Case("breadth", 4, _dspy("copro")),
        Case("depth", 1, _dspy("copro")),
        Case("max_bootstrapped_demos", 2, {"dspy_optimizer": "bootstrap"}, "few_shot()"),
        Case("metric_threshold", 0.25, {"dspy_optimizer": "bootstrap"}, "few_shot()"),
        Case("demo_parameter", "tone", {"dspy_optimizer": "bootstrap", "demo_parameter": "style"}, FRUIT_OF_TWO),
        Case("max_steps", 1, _dspy("simba")),
        Case("bsize", 6, _dspy("simba")),
        Case("max_metric_calls", 20, _dspy("gepa")),
        Case("auto", "medium", _dspy("gepa", max_metric_calls=0), TWO),
        Case("reflection_minibatch_size", 2, _dspy("gepa")),
        Case("candidate_selection_strategy", "current_best", _dspy("gepa", max_metric_calls=120), TWO),
        Case("component_selector", "all", _dspy("gepa"), TWO),
        Case("use_merge", False, _dspy("gepa", max_metric_calls=200, reflection_minibatch_size=1), TWO),
        Case("verbose", True, _dspy("copro")),
    ),
}


UNTIL_BUDGET: dict[str, tuple[dict[str, Any], ...]] = {
    "GEPATrainer": ({"num_iters": 0, "skip_perfect_score": False, "acceptance_criterion": "improvement_or_equal"},
                    {"num_iters": 0}),
    "OpenEvolveTrainer": ({"iterations": 0},),
    "TextGradTrainer": ({"num_steps": 0},),
    "DSPyTrainer": ({"dspy_optimizer": "gepa", "auto": "budget"},),
}  # fmt: skip
"""Parameters with which a search goes on until its budget ends."""


def run(
    name: str, problem: str, params: dict[str, Any], model: Callable[..., str] | None = None, **budget: int
) -> dict[str, Any]:
    """One search: a digest of all that it did, what it printed, and what came of it."""
    trainer = getattr(importlib.import_module(ENTRIES[name]), name)
    spawner = ForkingSpawner()
    programs = CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]
    memory = MemoryContext(eval(problem), programs, model or MODELS[name], seed=7, budget=Budget(**budget))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        memory.search(trainer, **params)
    steps = [(s.step, s.candidate, s.parents, s.state, s.split, s.score, s.accepted) for s in memory.steps]
    calls = [(str(c.slot), c.messages, c.request) for c in memory.calls]
    did = json.dumps([steps, calls, memory.events, memory.evaluations], sort_keys=True, default=str)
    return {
        "digest": hashlib.sha256(did.encode()).hexdigest(),
        "printed": printed.getvalue(),
        "scores": [s.score for s in memory.steps if s.split == ("validate" if memory.problem.validate else "train")],
        "stop": memory.stop_reason,
        "evaluations": memory.evaluations,
        "calls": len(memory.calls),
        "slots": len({str(c.slot) for c in memory.calls}),
        "judged": len({s.candidate for s in memory.steps if s.parents}),
        "events": sorted({kind for kind, _ in memory.events}),
        "warnings": memory.warnings,
    }


def gepa_pair() -> None:
    """GEPA-Base and the package's GEPA, told the same: states and counts of each, as JSON on stdout.

    Every number that is better than all before it is better on each example, so both have one parent to choose from,
    and the minibatch holds all training examples.
    """
    numbers = {1: 1.0, 2: 0.5, 3: 2.0, 4: 2.0, 5: 3.0, 6: -1.0, 7: 2.5}

    def model(messages: list[dict[str, str]], slot: Slot, variables: Any) -> str:
        number = numbers[slot.step]
        return suggest(**{v["name"]: number for v in variables}) if variables else f"```\n{number}\n```"

    found = {}
    for name, params in (
        ("GEPA-Base", {"train_batch_size": 3, "merge_every": 0}),
        ("GEPATrainer", {"reflection_minibatch_size": 3}),
    ):
        spawner = ForkingSpawner()
        programs = CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]
        memory = MemoryContext(numeric(train=3, validate=4), programs, model)
        memory.search(GEPABase if name == "GEPA-Base" else GEPATrainer, num_iters=len(numbers), **params)
        found[name] = {
            "steps": [(s.state["x"], s.split, s.accepted, s.evaluations) for s in memory.steps],
            "counts": (memory.evaluations, len(memory.calls)),
        }
    json.dump(found, sys.stdout)


def demos() -> None:
    """What searches for demos did and said, as JSON on stdout: by optimizer and number of demos, or a problem."""
    trainer = importlib.import_module(ENTRIES["DSPyTrainer"]).DSPyTrainer

    def searched(problem: Problem, **params: Any) -> dict[str, Any]:
        spawner = ForkingSpawner()
        programs = CandidatePrograms(spawner, seed=1)  # type: ignore[arg-type]
        memory = MemoryContext(problem, programs, instructing, seed=7)
        try:
            memory.search(trainer, **params)
        except TrainerError as error:
            return {"refused": str(error)}
        return {
            "steps": [(s.split, [r.score for r in s.rollouts], s.state["style"]) for s in memory.steps],
            "prompts": "\n".join(str(call.messages) for call in memory.calls),
            "evaluations": memory.evaluations,
            "warnings": memory.warnings,
        }

    few: dict[str, Any] = {"dspy_optimizer": "bootstrap"}
    mipro = {"dspy_optimizer": "mipro_demos", "num_candidates": 5, "num_trials": 12}
    found = {
        "bootstrap 4": searched(few_shot(), **few),
        "bootstrap 2": searched(few_shot(), **few, max_bootstrapped_demos=2),
        "any score": searched(few_shot(), **few, max_bootstrapped_demos=2, metric_threshold=0.25),
        "none passes": searched(few_shot(train=("apple 3", "berry 5")), **few),
        "no agent": searched(one_text(), **few),
        "mipro": searched(few_shot(), **mipro, max_bootstrapped_demos=2),
        "mipro again": searched(few_shot(), **mipro, max_bootstrapped_demos=2),
    }
    json.dump(found, sys.stdout)


def judged(name: str, budgets: list[dict[str, int]]) -> None:
    """How many proposals a search with each budget has judged, as JSON on stdout."""
    json.dump([run(name, "one_text()", {}, **budget)["judged"] for budget in budgets], sys.stdout)


def main(name: str) -> None:
    found: dict[str, Any] = {}
    for case in CASES[name]:
        base = f"{case.problem} {json.dumps(case.base, sort_keys=True)}"
        if base not in found:
            found[base] = run(name, case.problem, case.base)
        changed = f"{case.parameter} = {case.value} {base}"
        found[changed] = run(name, case.problem, {**case.base, case.parameter: case.value})
        found[changed]["base"], found[changed]["parameter"] = base, case.parameter
    first = CASES[name][0]
    found["again"] = run(name, first.problem, first.base)
    for what in ("evaluations", "calls"):
        found[f"budget of {what}"] = run(name, first.problem, first.base, **{what: 6 if what == "evaluations" else 2})
    bases: list[dict[str, Any]] = [{}]
    if name == "DSPyTrainer":
        bases = [_dspy(optimizer) for optimizer in ("mipro", "copro", "simba", "gepa")]
    for small in bases:
        found[f"speechless {small}"] = run(name, first.problem, small, lambda *_: "")
    for small in UNTIL_BUDGET[name]:
        found[f"until its budget ends {small}"] = run(name, first.problem, small, evaluations=300)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
