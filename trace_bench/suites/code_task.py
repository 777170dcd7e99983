"""Builds the problem of a code task: one program to write, scored on instances by the task's own evaluator.

The folder holds ``task.toml``, the programs that it names under ``[candidates]``, and ``evaluator.py``
(trusted) with

* ``instances(split, seed, count, **eval_kwargs) -> list``: exactly `count` instances;
* ``evaluate(program, instance, **eval_kwargs) -> (score, feedback)``: ``program(*args)`` calls the
  candidate in a process of its own, one process per instance (or, in the stateless form of
  `trace_bench.suites.forms`, one per call); ``program.metered(*args)`` returns its CPU seconds, too.
  It raises `CandidateError` for an answer that
  breaks the rules (`trace_bench.suites.checks` helps) and returns natural units;
* where they depend on the arguments, any of ``failure_score(**eval_kwargs) -> float``,
  ``best_known(**eval_kwargs) -> float | None``, ``score_range(**eval_kwargs) -> (a, b)`` and
  ``split_sizes(**eval_kwargs) -> {split: count}``, which go before what ``task.toml`` says.

or, in place of all that, one function that ``[score] function`` names (`trace_bench.suites.score_function`);
or, in smaller pieces, the functions that `trace_bench.suites.judge` puts together; tasks that ship are written so.

``eval_kwargs`` are those of the task spec without the common ones
(`trace_bench.suites.splits.COMMON_EVAL_KWARGS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from trace_bench.suites.best_known import BestKnown
from trace_bench.suites.data_files import Files
from trace_bench.suites.forms import (
    STATELESS,
    Form,
    FreshProcesses,
    candidates_of,
    form_of,
    has_forms,
    processes_described,
)
from trace_bench.suites.judge import Judge, is_judged
from trace_bench.suites.score_function import ScoreFunction
from trace_bench.suites.splits import SPLITS, Split, settings_of, split_seed, split_sizes
from trace_bench.suites.task_folder import Scoring, load_module, number, oriented, place, scoring, task_fault
from trace_bench.worker.levels import at_level
from trace_bench.worker.problem import (
    BuildContext,
    CandidateError,
    Example,
    Limits,
    Parameter,
    Problem,
    ProblemError,
    Program,
    Programs,
    checked_score,
)

PARAMETER = "code"
"""Name of the one trainable parameter."""

_QUOTED = 160
_LOOKED_AT = 2
"""Instances whose bounds give the range of scores."""


def build(context: BuildContext) -> Problem:
    """Build the problem of a code task folder.

    Raises:
        ProblemError: files, spec or arguments are at fault, or the evaluator raised; the message names the
        place.
    """
    evaluator = _Evaluator.load(context)
    score = evaluator.scoring(scoring(context))
    form = form_of(context.spec, context.eval_kwargs)
    template, alternatives, ladder = _candidates(context, form)
    entry = _required(context.spec, "entry")
    signature = _required(context.spec, "signature").strip()
    parameter = Parameter(
        name=PARAMETER,
        value=template,
        kind="code",
        description=f"Python source that defines {entry}",
        alternatives=alternatives,
        ladder=ladder,
        entry=entry,
        signature=signature,
    )
    sizes = split_sizes(context, evaluator.split_sizes())
    splits = {split: evaluator.examples(context, split, sizes[split]) for split in SPLITS}
    score = evaluator.of_instances(score, [e.reference for s in ("train", "validate") for e in splits[s]])
    guide = CodeGuide(evaluator, context.programs, entry, limits(context), score, form)
    return Problem(
        parameters=(parameter,),
        guide=guide,
        train=splits["train"],
        validate=splits["validate"],
        test=splits["test"],
        objective=objective(context.spec, signature, entry, score, evaluator.kwargs, evaluator.described(), form),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
        metadata={
            "entry": entry,
            "best_known": score.best_known,
            "interaction": context.spec.get("interaction"),
            # Bounds take a while: they are computed only where they are shown.
            "mean_bound": lambda: evaluator.mean_bound([e.reference for e in splits["train"]]),
            # `check-task` runs the reference of the stateless form by it.
            "stateless_guide": replace(guide, form=STATELESS) if has_forms(context.spec) else None,
        },
    )


def limits(context: BuildContext) -> Limits:
    """The limits of one candidate process: ``[limits]`` of the spec.

    ``timeout_seconds`` of the config replaces the wall limit of a call, and lifts the CPU limit of the
    process if that is lower.
    """
    table: Mapping[str, Any] = context.spec.get("limits", {})
    base = Limits()
    wall = number(table.get("wall_seconds", base.wall_seconds), "task.toml, [limits] wall_seconds")
    cpu = number(table.get("cpu_seconds", base.cpu_seconds), "task.toml, [limits] cpu_seconds")
    memory = number(table.get("memory_mb", base.memory_bytes / 2**20), "task.toml, [limits] memory_mb")
    asked = context.eval_kwargs.get("timeout_seconds")
    if asked is not None:
        wall = number(asked, "eval_kwargs.timeout_seconds")
        cpu = max(cpu, wall)
    if not (0 < wall < float("inf") and 0 < cpu < float("inf") and memory > 0):
        raise ProblemError("the limits of a candidate must be above zero and finite; see timeout_seconds and [limits]")
    needs = frozenset(table.get("needs", ()))
    return replace(base, wall_seconds=wall, cpu_seconds=cpu, memory_bytes=int(memory * 2**20), needs=needs)


def objective(
    spec: Mapping[str, Any],
    signature: str,
    entry: str,
    score: Scoring,
    settings: Mapping[str, Any],
    described: str = "",
    form: Form = "planned",
) -> str:
    """The statement given to the optimizer: the spec's, with what is particular to this job."""
    way = "Higher is better." if score.direction == "maximize" else "Lower is better."
    known = f" Best known score: {score.best_known:g}." if score.best_known is not None else ""
    here = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
    return (
        f"{_required(spec, 'statement').strip()}\n\n"
        + (f"Settings: {here}.\n\n" if here else "")
        + (f"{described}\n\n" if described else "")
        + f"Write Python source that defines `{entry}`:\n\n{signature}\n\n"
        f"{way}{known} A program that fails or breaks a rule on an instance scores {score.failure:g} for it. "
        f"{processes_described(spec, form)}"
    )


@dataclass(frozen=True)
class CodeGuide:
    """Scores a program on one instance (the example's reference) in a process of its own, or one for each call."""

    evaluator: _Evaluator
    programs: Programs
    entry: str
    limits: Limits
    score: Scoring
    form: Form = "planned"

    def __call__(self, query: Any, response: Any, reference: Any) -> Any:
        if not isinstance(response, str):
            raise CandidateError("compile", f"the program must be source text, not {type(response).__name__}")
        try:
            with self._opened(response) as program:
                value, remark, *metrics = self.evaluator.evaluate(program, reference)
        except CandidateError as error:
            if error.metrics is None:
                error.metrics = self.evaluator.failed_metrics(reference)
            raise _with_source_line(error, response) from error
        return value, f"{self._verdict(value)} {remark}".rstrip(), *metrics

    def best_known(self, reference: Any) -> float | None:
        """The best known score of an instance, natural units; None where none is known."""
        return self.evaluator.best_known(reference)

    def _opened(self, source: str) -> AbstractContextManager[Program | FreshProcesses]:
        def open_one(limits: Limits) -> Program:
            return self.programs.open(source, self.entry, limits)

        return nullcontext(FreshProcesses(open_one, self.limits)) if self.form == STATELESS else open_one(self.limits)

    def _verdict(self, value: float) -> str:
        score = self.score
        way = "higher" if score.direction == "maximize" else "lower"
        text = f"Score {value:.10g} ({way} is better)."
        if score.best_known is None:
            return text
        gap = score.best_known - value if score.direction == "maximize" else value - score.best_known
        if gap > 0:
            return f"{text} Best known: {score.best_known:g}; gap {gap:.6g}."
        return f"{text} That reaches the best known score, {score.best_known:g}."


@dataclass(frozen=True)
class _Evaluator:
    """The task's ``evaluator.py``. Its errors are attributed to the task, to the candidate, or to this program."""

    path: Path
    module: ModuleType | ScoreFunction
    kwargs: Mapping[str, Any]
    held_out: Mapping[str, Any]
    judge: Judge | None = None

    @property
    def functions(self) -> Any:
        """The object with ``instances`` and ``evaluate``."""
        return self.judge or self.module

    @classmethod
    def load(cls, context: BuildContext) -> _Evaluator:
        file, _, function = str(context.spec["score"].get("function") or "evaluator.py").partition(":")
        path = context.task_dir / file
        module = load_module(path)
        kwargs, held_out = settings_of(context, "train"), settings_of(context, "test")
        if function:
            return cls(path, ScoreFunction.of(path, module, function), kwargs, held_out)
        if is_judged(module):
            known = BestKnown.of(context.task_dir)
            return cls(path, module, kwargs, held_out, Judge(module, context.spec, Files.of(context.task_dir), known))
        for name in ("instances", "evaluate"):
            if not callable(getattr(module, name, None)):
                raise ProblemError(f"{place(path)} defines no {name}(); see docs/design/job-contract.md")
        return cls(path, module, kwargs, held_out)

    def examples(self, context: BuildContext, split: Split, count: int) -> tuple[Example, ...]:
        seed = split_seed(context, split)
        if count == 0 or seed is None:
            return ()
        settings = self.held_out if split == "test" else self.kwargs
        made = self._run(lambda **_: self.functions.instances(split, seed, count, **settings))
        if not isinstance(made, list | tuple) or len(made) != count:
            size = len(made) if isinstance(made, list | tuple) else type(made).__name__
            raise ProblemError(f"{place(self.path)}: instances() gave {size} for {split} where {count} were asked for")
        return tuple(Example(id=f"{split}-{i}", reference=instance) for i, instance in enumerate(made))

    def evaluate(self, program: Program | FreshProcesses, instance: Any) -> Sequence[Any]:
        """Score and feedback, and metrics by name if the task has any."""
        watched = _Watched(program)
        try:
            outcome = self.functions.evaluate(watched, instance, **self.kwargs)
        except (CandidateError, ProblemError):
            raise
        except Exception as error:
            if error is watched.fault:  # the candidate runner's trouble (a lost sandbox, a stop), not the task's
                raise
            raise task_fault(self.path, error) from error
        if not isinstance(outcome, tuple) or len(outcome) not in (2, 3) or not isinstance(outcome[1], str):
            raise ProblemError(f"{place(self.path)}: evaluate() must return (score, feedback) or, with its metrics, "
                               "(score, feedback, metrics)")  # fmt: skip
        if len(outcome) == 3 and not outcome[2]:
            outcome = outcome[:2]
        return checked_score(outcome[0]), *outcome[1:]

    def failed_metrics(self, instance: Any) -> dict[str, float] | None:
        """The metrics of a failure on `instance`, as far as they are not what the spec declares."""
        if self.judge is None:
            return None
        return cast("dict[str, float]", self._run(lambda **_: self.judge.failed_metrics(instance)))  # type: ignore[union-attr]

    def best_known(self, instance: Any) -> float | None:
        """The best known score of `instance`; None where none is known."""
        if self.judge is None:
            return None
        found = self._run(lambda **_: self.judge.best_known(instance))  # type: ignore[union-attr]
        return None if found is None else float(found[0])

    def scoring(self, declared: Scoring) -> Scoring:
        where = place(self.path)
        found = declared
        if hook := self._hook("failure_score"):
            found = replace(found, failure=number(self._run(hook), f"{where}, failure_score()"))
        if hook := self._hook("best_known"):
            best = self._run(hook)
            found = replace(found, best_known=None if best is None else number(best, f"{where}, best_known()"))
        if hook := self._hook("score_range"):
            pair = oriented(declared.direction, self._run(hook), f"{where}, score_range()")
            found = replace(found, score_range=pair)
        return found

    def of_instances(self, declared: Scoring, instances: list[Any]) -> Scoring:
        """What a failure is worth on these very instances, and the range of scores, by the bounds of a few: they take a
        while, and the problem is built three times in a job."""
        if self.judge is None or not instances:
            return declared
        worst = number(self._run(lambda **_: self.judge.worst(instances)), f"{place(self.path)}, worst()")  # type: ignore[union-attr]
        best = self._run(lambda **_: self.judge.best(instances[:_LOOKED_AT]))  # type: ignore[union-attr]
        if best is None:
            best = declared.score_range[1] if declared.score_range else None
        return replace(declared, failure=worst, score_range=declared.score_range if best is None else (worst, best))

    def mean_bound(self, instances: list[Any]) -> float | None:
        """Mean of what no answer can beat, over `instances`; None where nothing is known of one."""
        if self.judge is None:
            return None
        return cast("float | None", self._run(lambda **_: self.judge.mean_bound(instances)))  # type: ignore[union-attr]

    def described(self) -> str:
        return str(self._run(self.judge.described)) if self.judge is not None else ""

    def split_sizes(self) -> Mapping[str, int]:
        if self.judge is not None:
            return cast("Mapping[str, int]", self._run(self.judge.split_sizes))
        hook = self._hook("split_sizes")
        return cast("Mapping[str, int]", self._run(hook)) if hook else {}

    def _hook(self, name: str) -> Callable[..., Any] | None:
        hook = getattr(self.module, name, None)
        return hook if callable(hook) else None

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args, **self.kwargs)
        except ProblemError:
            raise
        except Exception as error:
            raise task_fault(self.path, error) from error


class _Watched:
    """A program that remembers what its runner raised other than the candidate's own failure."""

    __slots__ = ("_program", "fault")

    def __init__(self, program: Program | FreshProcesses) -> None:
        self._program = program
        self.fault: Exception | None = None

    def __call__(self, *args: Any) -> Any:
        return self._watch(self._program, *args)

    def metered(self, *args: Any) -> Any:
        """See `Program.metered`."""
        return self._watch(self._program.metered, *args)

    def _watch(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except CandidateError:
            raise
        except Exception as error:
            self.fault = error
            raise


def _with_source_line(error: CandidateError, source: str) -> CandidateError:
    """The same failure with the source line that it names, which says more than a number."""
    lines = source.splitlines()
    if error.line is None or not 1 <= error.line <= len(lines) or not (code := lines[error.line - 1].strip()):
        return error
    shown = code if len(code) <= _QUOTED else code[:_QUOTED] + " …"
    located = CandidateError(error.phase, f"{error.message} (the line reads: {shown})", line=error.line)
    located.score, located.metrics = error.score, error.metrics
    return located


def _candidates(context: BuildContext, form: Form) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The template, the programs that a stub model may propose, and the ladder that it climbs, if there are levels."""
    table = candidates_of(context.spec, form)
    template = table.get("template")
    if not isinstance(template, str):
        raise ProblemError("task.toml, [candidates] template: name the file that the search starts from")
    start, *rest = (_source(context.task_dir, name) for name in (template, *table.get("worse", ())))
    others = [_source(context.task_dir, name) for name in table.get("alternatives", ())]
    reference = [_source(context.task_dir, table["reference"])] if "reference" in table else []
    broken = [_source(context.task_dir, name) for name in table.get("broken", ())]
    alternatives = (*rest, *others, *reference, *broken)
    if "levels" not in table:
        return start, alternatives, ()
    weaker = [at_level(reference[0], level) for level in range(1, table["levels"])]
    return start, alternatives, (*broken[:1], *rest, start, *weaker, *reference)


def _source(folder: Path, name: str) -> str:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ProblemError(f"task.toml, [candidates]: {name} lies outside the task folder; move it in")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ProblemError(f"task.toml, [candidates]: {name} cannot be read ({reason})") from error


def _required(spec: Mapping[str, Any], key: str) -> str:
    value = spec.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ProblemError(f"task.toml lacks {key!r}, which a code task needs")
    return value
