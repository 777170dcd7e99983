"""Builds the problem of a Lean task: a Python program to translate to Lean 4, with proofs.

The folder holds ``task.toml`` with a table ``[lean]``, ``program.py`` (the Python program), ``template.lean`` (what the
search starts from, with ``sorry`` where work is to be done) and ``cases.toml`` (hidden tests, as pairs of a call and
its value). See `trace_bench.suites.veribench.audit` for how a file is judged.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_bench.suites.code_task import PARAMETER, limits
from trace_bench.suites.splits import SPLITS, Split, split_sizes
from trace_bench.suites.task_folder import place, scoring
from trace_bench.suites.veribench.audit import Verdict, judged
from trace_bench.suites.veribench.harness import Appended, HiddenTest, appended, theorem_of, told, values
from trace_bench.suites.veribench.lean import Compiled, Lean, lean_environment, lean_here
from trace_bench.suites.veribench.olean import Malformed, Module, Terms, read_module
from trace_bench.suites.veribench.source import refusal
from trace_bench.worker.problem import BuildContext, CandidateError, Example, Parameter, Problem, ProblemError

_MOST_FAILURES = 6
"""Tests that the feedback tells of."""


def build(context: BuildContext) -> Problem:
    """Build the problem of a Lean task.

    Raises:
        ProblemError: files, spec or arguments are at fault; the message names the place.
    """
    task: Mapping[str, Any] = context.spec["lean"]
    table: Mapping[str, Any] = context.spec["candidates"]
    template = _text(context.task_dir / table["template"])
    names = [*table.get("worse", ()), *table.get("alternatives", ())]
    names += [table["reference"]] if "reference" in table else []
    names += table.get("broken", ())
    tests = _tests(context.task_dir / "cases.toml")
    score = scoring(context)
    sizes = split_sizes(context)
    memory = int(context.eval_kwargs["memory_mb"]) << 20
    lean = Lean(
        context.programs,
        replace(limits(context), memory_bytes=memory),
        [lean_here(os.environ)],
        lean_environment(os.environ),
    )
    splits = {split: _examples(context, split, sizes[split], tests) for split in SPLITS}
    return Problem(
        parameters=(
            Parameter(
                name=PARAMETER,
                value=template,
                kind="text",
                description="A Lean 4 file",
                alternatives=tuple(_text(context.task_dir / name) for name in names),
            ),
        ),
        guide=LeanGuide(lean, template, tuple(task.get("theorems", ())), tuple(task.get("equivalence", ())),
                        dict(task["weights"]), frozenset(task.get("imports", ("Init",)))),
        train=splits["train"],
        validate=splits["validate"],
        test=splits["test"],
        objective=_objective(context, template, task),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
        metadata={"entry": context.spec["entry"], "interaction": "lean"},
    )  # fmt: skip


@dataclass(frozen=True)
class LeanGuide:
    """Scores a file by the share of tests that it passes and of theorems that it proves.

    Attributes:
        theorems: names of the frozen theorems of `template`.
        equivalence: those that equate an imperative and a functional version.
        weights: of the parts in the score.
        imports: modules that a file may import.
    """

    lean: Lean
    template: str
    theorems: Sequence[str]
    equivalence: Sequence[str]
    weights: Mapping[str, float]
    imports: frozenset[str]

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str, dict[str, float]]:
        if not isinstance(response, str):
            raise CandidateError("compile", f"the file must be text, not {type(response).__name__}")
        if refused := refusal(response, self.imports):
            raise CandidateError("compile", f"refused: {refused.reason}", line=refused.line)
        tests, shown = reference
        whole, compiled, verdict = self.judge(response, tests, shown)
        if verdict.violations:
            disqualified = CandidateError("output", "disqualified: " + "; ".join(verdict.violations))
            disqualified.metrics = {"compiles": 1.0}
            raise disqualified
        parts = {
            "compiles": 1.0,
            "tests": len(verdict.tests) / max(1, len(tests)),
        }
        if self.theorems:
            parts["theorems"] = len(verdict.theorems) / len(self.theorems)
        if self.equivalence:
            parts["imperative_equivalence"] = len(verdict.theorems & {*self.equivalence}) / len(self.equivalence)
        score = sum(self.weights[part] * parts[part] for part in self.weights) / sum(self.weights.values())
        feedback = _told(verdict, tests, shown, values(compiled.said, whole), self.theorems)
        warnings = told(compiled.said, whole)
        return score, "\n".join(filter(None, (feedback, warnings))), parts | {"axioms_ok": float(verdict.axioms_ok)}

    def judge(
        self, source: str, tests: Sequence[HiddenTest], shown: Sequence[HiddenTest]
    ) -> tuple[Appended, Compiled, Verdict]:
        """Compile `source` with its tests, and judge what comes out. Its text is not looked at (see `refusal`).

        Raises:
            CandidateError: it does not compile. ProblemError: Lean does not work, or the template does not compile.
        """
        whole = appended(source, tests, shown)
        compiled = self.lean.elaborate(whole.text)
        if not compiled.files:
            said = told(compiled.said, whole)
            raise CandidateError("compile", f"Lean does not compile it with its tests:\n{said}", lines=True)
        terms, challenge = self._challenge(tests, shown)
        try:
            found = read_module(compiled.files, terms)
        except Malformed as error:
            raise CandidateError("compile", f"the compiled file cannot be read: {error}") from error
        return whole, compiled, judged(found, challenge, [theorem_of(test) for test in tests], self.theorems)

    def _challenge(self, tests: Sequence[HiddenTest], shown: Sequence[HiddenTest]) -> tuple[Terms, Module]:
        key = (tuple(tests), tuple(shown))
        if key not in self._challenges:
            terms = Terms()
            try:
                compiled = self.lean.elaborate(appended(self.template, tests, shown).text)
                if not compiled.files:
                    said = "; ".join(f"line {m.line}: {m.text}" for m in compiled.said if m.severity == "error")
                    raise ProblemError(f"the template does not compile with its tests: {said}")
                self._challenges[key] = (terms, read_module(compiled.files, terms))
            except (CandidateError, Malformed) as error:
                raise ProblemError(f"the template cannot be compiled: {error}") from error
            for name in (*self.theorems, *map(theorem_of, tests)):
                if name not in self._challenges[key][1].constants:
                    raise ProblemError(f"the template does not declare {name}")
        return self._challenges[key]

    @cached_property
    def _challenges(self) -> dict[Any, tuple[Terms, Module]]:
        return {}


def _told(
    verdict: Verdict,
    tests: Sequence[HiddenTest],
    shown: Sequence[HiddenTest],
    returned: Mapping[str, str],
    theorems: Sequence[str],
) -> str:
    """The verdict in words. Of tests that are not `shown` it tells only how many pass."""
    lines = [f"{len(verdict.tests)} of {len(tests)} tests pass."]
    failed = [test for test in shown if theorem_of(test) not in verdict.tests]
    for test in failed[:_MOST_FAILURES]:
        got = f", and returns {returned[test.name]}" if test.name in returned else ""
        lines.append(f"{test.call} has to return {test.expected}{got}.")
    if len(failed) > _MOST_FAILURES:
        lines.append(f"{len(failed) - _MOST_FAILURES} more tests fail.")
    if theorems:
        lines.append(f"{len(verdict.theorems)} of {len(theorems)} theorems are proved.")
    lines += [f"{name} does not count: {verdict.why_not[name]}." for name in theorems if name in verdict.why_not]
    return "\n".join(lines)


def _examples(
    context: BuildContext, split: Split, count: int, tests: Mapping[str, Sequence[HiddenTest]]
) -> tuple[Example, ...]:
    """Each is an evaluation with all tests of its split. Held-out tests are not told about."""
    if split == "test":
        if context.test_seed is None:
            return ()
        return tuple(Example(id=f"test-{i}", reference=(tests["test"], ())) for i in range(count))
    return tuple(Example(id=f"{split}-{i}", reference=(tests["train"], tests["train"])) for i in range(count))


def _tests(path: Path) -> dict[str, tuple[HiddenTest, ...]]:
    try:
        table = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ProblemError(f"{place(path)}: {error}") from error
    found = {}
    for split in ("train", "test"):
        pairs = table.get(split)
        if not isinstance(pairs, list) or not pairs or not all(_is_pair(pair) for pair in pairs):
            raise ProblemError(f"{place(path)}, {split}: give a list of pairs, such as ['gcd 12 18', '6']")
        found[split] = tuple(HiddenTest(f"{split}_{i}", call, value) for i, (call, value) in enumerate(pairs, 1))
    return found


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) and "\n" not in each for each in pair)
    )


def _objective(context: BuildContext, template: str, task: Mapping[str, Any]) -> str:
    program = _text(context.task_dir / "program.py")
    weights = ", ".join(f"{part} {weight:g}" for part, weight in task["weights"].items())
    proves = ", and prove theorems about it" if task.get("theorems") else ""
    return (
        f"{context.spec['statement'].strip()}\n\nTranslate this Python program to Lean 4{proves}:\n\n"
        f"```python\n{program.strip()}\n```\n\nAnswer with a whole Lean file. It has to declare what this template "
        f"declares, with the same names, types and statements, and with work in place of each sorry:\n\n"
        f"```lean\n{template.strip()}\n```\n\nThe score is between 0 and 1, and higher is better: weighted shares "
        f"({weights}) of hidden tests that pass and of theorems that are proved from Lean's standard axioms. A theorem "
        "with sorry does not count. A file that does not compile scores 0, and so does one with axioms, macros, "
        "notations, unsafe or partial definitions, or commands that run code. Use Lean's core library only"
        + ("." if set(task.get("imports", ("Init",))) == {"Init"} else f", and import {', '.join(task['imports'])}.")
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{place(path)} cannot be read as UTF-8: {error}") from error
