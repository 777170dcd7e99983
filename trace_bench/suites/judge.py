"""Makes the guide of a task from a few small functions: generate an instance, ask the program, check, score, explain.

The ``evaluator.py`` of such a task defines these. An *instance* is a dict of plain data and arrays: all that judging
needs, also what the candidate must not see. A *solution* is whatever `answer` makes of the program's answers.

* ``instance(rng, **settings)``: one instance, drawn from a `numpy.random.Generator` that is this instance's own;
* ``answer(program, instance)``: calls the program and returns a checked solution; `CandidateError` for what is none;
* ``score(instance, solution)``: the score, natural units;
* ``worst(instance)``: what a failure is worth; no valid solution is worse;

and may define

* ``violations(instance, solution)``: yields a sentence for each rule that the solution breaks;
* ``bound(instance)``: no solution is better than this; None if nothing is known;
* ``target(instance)``: what normalised score 1 is; left out, it is the bound, else ``best_known`` of the spec;
* ``normalised(instance, score)``: the normalised score, where neither ``ratio`` nor ``linear`` fits;
* ``metrics(instance, solution)``: values of the spec's further metrics, by name;
* ``worst_metrics(instance)``: of these, what a failure is worth; left out, it is what the spec declares;
* ``remark(instance, solution)``: what an optimizer should know of this solution besides;
* ``described(**settings)``: what the settings choose, in sentences that the statement ends with;
* ``draw(instance, solution)``: a `trace_bench.suites.drawing.Drawing` for the docs;
* ``read(text, name)``: the instances in one published data file (`trace_bench.suites.data_files` helps); keywords
  that it names are settings.

``settings`` are the ``eval_kwargs`` of the spec without the common ones and ``n_instance``, the number of instances of
each split. `answer`, `violations` and `score` are apart so that a solution can be judged that no program gave.

*Normalised score.* A task that declares ``[metrics.normalised]`` has one. ``[score] normalised = "ratio"`` is target /
score where lower is better and score / target where higher is; ``"linear"`` is (score - worst) / (target - worst). A
failure is 0. It exceeds 1 where a solution beats a target that is no bound. Of an instance from a published file whose
best known score is known it is CO-Bench's score: best known / score where lower is better, score / best known where
higher is.

*Best known scores.* A task can have a table of them (`trace_bench.suites.best_known`). The host measures gaps by them
(`trace_bench.records.gaps`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import ModuleType
from typing import Any

from trace_bench.suites import checks, data_files
from trace_bench.suites.best_known import BestKnown
from trace_bench.suites.published import Published
from trace_bench.worker.problem import CandidateError, ProblemError, Program

Instance = Mapping[str, Any]
NORMALISED = "normalised"
SINGLE = "single-instance"
"""Tag of a task without random data: each split has its one instance, or none."""
IN_FILE = "best_known"
"""Key of an instance from a published file that says what its best known score is."""
_NAMED = 3
_MARGIN = 1e-9
"""Relative; a score is better than the best known one only beyond it."""
_COUNTED = 1000


@dataclass(frozen=True)
class Verdict:
    """The feedback on a valid solution.

    Attributes:
        score: natural units.
        bound: no solution is better; None if nothing is known.
        metrics: by name, ``normalised`` among them where the spec asks for it.
    """

    score: float
    remark: str = ""
    bound: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def is_judged(module: ModuleType) -> bool:
    """Whether `module` is an evaluator of this kind."""
    return callable(getattr(module, "answer", None))


class Judge:
    """The functions of one evaluator, put together.

    Args:
        module: the task's ``evaluator.py``.
        spec: its ``task.toml``.
        known: its best known scores.

    Raises:
        ProblemError: a function is missing.
    """

    def __init__(
        self,
        module: ModuleType,
        spec: Mapping[str, Any],
        files: data_files.Files | None = None,
        known: BestKnown | None = None,
    ) -> None:
        self._module = module
        self._published = None if files is None else Published(files, self._hook("read"))
        self._table = known
        self._best: dict[int, tuple[Instance, tuple[float, str] | None]] = {}
        self._score: Mapping[str, Any] = spec.get("score", {})
        self._normalised = NORMALISED in spec.get("metrics", {})
        self._single = SINGLE in spec.get("tags", ())
        self._known: dict[tuple[str, int], tuple[Instance, float | None]] = {}
        missing = [n for n in ("instance", "answer", "score", "worst") if not callable(getattr(module, n, None))]
        if missing:
            raise ProblemError(f"evaluator.py defines answer(), but no {missing[0]}(); see docs/how-to/add-a-task.md")

        self.maximizes: bool = self._score.get("direction") == "maximize"

    # -- data

    def split_sizes(self, **settings: Any) -> dict[str, int]:
        """``n_instance`` for each split; no more than there are in the user's data."""
        count = settings.get("n_instance")
        if self._published is not None:
            there = {split: len(self._published.instances(split, **settings)) for split in data_files.SPLITS}
            return {split: size if count is None else min(size, count) for split, size in there.items()}
        return {} if count is None else dict.fromkeys(data_files.SPLITS, count)

    def instances(self, split: str, seed: int, count: int, **settings: Any) -> list[Instance]:
        """`count` instances; each has a generator of its own, so that the first ones of a longer list are the same."""
        import numpy as np

        settings.pop("n_instance", None)
        if self._published is not None:
            there = self._published.instances(split, **settings)
            if count > len(there):
                raise ProblemError(f"num_{split} is {count}, and the data hold {len(there)} instances for {split}")
            chosen = np.random.default_rng(seed).permutation(len(there))[:count]
            return [there[i] for i in sorted(chosen.tolist())]
        if self._single and count > 1:
            raise ProblemError(f"this task has one instance, so num_{split} cannot be {count}; give 0 or 1")
        return [self._module.instance(np.random.default_rng([seed, i]), **settings) for i in range(count)]

    def described(self, **settings: Any) -> str:
        """The description of the settings; empty where the statement is complete."""
        settings.pop("n_instance", None)
        hook = self._hook("described")
        return str(hook(**settings)) if hook else ""

    # -- judging

    def evaluate(self, program: Program, instance: Instance, **settings: Any) -> tuple[float, str, dict[str, float]]:
        """Score, feedback and metrics of `program` on `instance`.

        Raises:
            CandidateError: the program failed, or its solution breaks a rule; with what that is worth.
        """
        try:
            verdict = self.verdict(instance, self._module.answer(program, instance))
        except CandidateError as error:
            error.score = float(self._module.worst(instance))
            error.metrics = self.failed_metrics(instance)
            raise
        return verdict.score, self.feedback(verdict), dict(verdict.metrics)

    def failed_metrics(self, instance: Instance) -> dict[str, float]:
        """The metrics of a failure on `instance`; those that are left out are worth what the spec declares."""
        hook = self._hook("worst_metrics")
        return dict(hook(instance)) if hook else {}

    def verdict(self, instance: Instance, solution: Any) -> Verdict:
        """Check and score a solution.

        Raises:
            CandidateError: it breaks rules; the first of them are named.
        """
        if violations := self._hook("violations"):
            broken = list(islice(violations(instance, solution), _COUNTED))
            if broken:
                raise checks.refuse(_listed(broken))
        score = checks.real(self._module.score(instance, solution), "the score")
        remark = self._hook("remark")
        metrics = self._hook("metrics")
        measured = dict(metrics(instance, solution)) if metrics else {}
        if self._normalised:
            measured[NORMALISED] = self.normalised(instance, score)
        said = remark(instance, solution) if remark else ""
        if (known := self.best_known(instance)) is not None:
            best, source = known
            better = score - best if self.maximizes else best - score
            if better > _MARGIN * abs(score):
                said = f"This is better than the best known score, {best:.10g} ({source}). {said}"
        return Verdict(
            score=score,
            remark=said.rstrip(),
            bound=self._bound(instance),
            metrics=measured,
        )

    def feedback(self, verdict: Verdict) -> str:
        """A verdict in words: where the score stands, and the task's own remark."""
        if verdict.bound is None:
            return verdict.remark
        way = "above" if self.maximizes else "below"
        return f"No answer can score {way} {verdict.bound:.10g}. {verdict.remark}".rstrip()

    def normalised(self, instance: Instance, score: float) -> float:
        """`score` as a number that is 0 for a failure and 1 at the target."""
        if (published := self._best_published(instance)) is None:
            return self._share(instance, score)
        over, under = (score, published[0]) if self.maximizes else (published[0], score)
        return over / under if under else float(over == under)

    def best_known(self, instance: Instance) -> tuple[float, str] | None:
        """The best known score of this very instance, natural units, and its source; None where none is known."""
        key = id(instance)
        if key not in self._best:
            found = self._best_published(instance)
            if found is None and self._table is not None:
                found = self._table.of_instance(instance)
            self._best[key] = (instance, found)  # the instance: its id is in use
        return self._best[key][1]

    def _best_published(self, instance: Instance) -> tuple[float, str] | None:
        """The best known score of an instance from a file, as the table or the file itself says, and its source."""
        name = self._published.name(instance) if self._published is not None else None
        if name is not None and self._table is not None and (found := self._table.published(name)) is not None:
            return found
        return (float(instance[IN_FILE]), "its file") if IN_FILE in instance else None

    def _share(self, instance: Instance, score: float) -> float:
        if own := self._hook("normalised"):
            return float(own(instance, score))
        target = self.target(instance)
        if self._score.get("normalised") == "linear":
            worst = float(self._module.worst(instance))
            return (score - worst) / (target - worst) if target != worst else 1.0
        over, under = (score, target) if self.maximizes else (target, score)
        return over / under if under else 1.0

    def target(self, instance: Instance) -> float:
        """The score whose normalised value is 1."""
        if published := self._best_published(instance):
            return published[0]
        for found in (self._once("target", instance), self._bound(instance)):
            if found is not None:
                return found
        if self._score.get("best_known") is None:
            raise ProblemError("evaluator.py has no target(), no bound(), and task.toml no best_known to normalise by")
        return float(self._score["best_known"])

    # -- what failures are worth

    def worst(self, instances: list[Instance]) -> float:
        """The worst of what a failure on one of `instances` is worth."""
        values = [float(self._module.worst(i)) for i in instances]
        return min(values) if self.maximizes else max(values)

    def best(self, instances: list[Instance]) -> float | None:
        """The best score that a bound allows on one of `instances`; None if there is none for all of them."""
        values = [value for i in instances if (value := self._bound(i)) is not None and math.isfinite(value)]
        if len(values) < len(instances):
            return None
        return max(values) if self.maximizes else min(values)

    def mean_bound(self, instances: list[Instance]) -> float | None:
        """The mean of the bounds; None if one of `instances` has none."""
        values = [value for i in instances if (value := self._bound(i)) is not None and math.isfinite(value)]
        return math.fsum(values) / len(values) if values and len(values) == len(instances) else None

    def _bound(self, instance: Instance) -> float | None:
        return self._once("bound", instance)

    def _once(self, name: str, instance: Instance) -> float | None:
        """The value of the function `name` on `instance`. It is computed once, as it may take long."""
        hook = self._hook(name)
        if hook is None:
            return None
        key = (name, id(instance))
        if key not in self._known:
            value = hook(instance)
            self._known[key] = (instance, None if value is None else float(value))  # the instance: its id is in use
        return self._known[key][1]

    def _hook(self, name: str) -> Any:
        hook = getattr(self._module, name, None)
        return hook if callable(hook) else None


def _listed(broken: list[str]) -> str:
    named = "; ".join(broken[:_NAMED])
    if len(broken) <= _NAMED:
        return named
    count = f"{len(broken)} rules are broken" if len(broken) < _COUNTED else f"at least {_COUNTED} rules are broken"
    return f"{count}, first: {named}"
