"""What an evaluation of a state comes to: its scores, metrics and feedback, by example and over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trace_bench.artifacts.contract import Direction
from trace_bench.display.markup import html
from trace_bench.display.table import Column, Table, number
from trace_bench.worker.objective import finite_mean


@dataclass(frozen=True)
class ExampleEvaluation:
    """A state on one example: `score` and `metrics` in natural units. `failed`: the candidate raised, ran out of time,
    or gave no answer that counts; `feedback` says why."""

    id: str
    score: float
    feedback: str
    failed: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A state on all examples of one split.

    Attributes:
        score: the mean over examples, natural units; `direction` says which way it is better.
        metrics: means over examples; empty for a task that declares none.
        feedback: the guide's words, of the first example that failed, else of the first one.
    """

    task_id: str
    split: str
    score: float
    direction: Direction
    feedback: str
    metrics: Mapping[str, float]
    examples: tuple[ExampleEvaluation, ...]

    @classmethod
    def of(cls, task_id: str, split: str, direction: Direction, examples: Sequence[ExampleEvaluation]) -> Evaluation:
        """The means of one or more `examples`."""
        names = set.intersection(*(set(example.metrics) for example in examples))
        means = {name: finite_mean([example.metrics[name] for example in examples]) for name in sorted(names)}
        told = next((example for example in examples if example.failed), examples[0])
        score = finite_mean([example.score for example in examples])
        return cls(task_id, split, score, direction, told.feedback, means, tuple(examples))

    @property
    def failed(self) -> int:
        """Examples on which the candidate failed."""
        return sum(example.failed for example in self.examples)

    def table(self) -> Table:
        """A line for each example."""
        names = [name for name in self.metrics if name != "score"]
        columns = [Column("example"), Column("score", True, number), *(Column(name, True, number) for name in names)]
        rows = [
            (each.id, each.score, *(each.metrics.get(name) for name in names), "failed" if each.failed else None,
             " ".join(each.feedback.split()))
            for each in self.examples
        ]  # fmt: skip
        return Table.of([*columns, Column("failed"), Column("feedback", limit=200)], rows, shrink={"feedback": 20})

    def _repr_html_(self) -> str:
        return html(self.table())
