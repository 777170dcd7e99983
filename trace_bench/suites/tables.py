"""Tables of a suite about the jobs of a run, and what it makes them with. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Estimate(Protocol):
    """A mean of `n` values, and its interval; None is not determined by so few values.

    Attributes:
        unit: one value per ``seeds`` or per ``tasks``.
    """

    @property
    def n(self) -> int: ...
    @property
    def unit(self) -> str: ...
    @property
    def mean(self) -> float | None: ...
    @property
    def interval(self) -> tuple[float, float] | None: ...


class Statistics(Protocol):
    """Estimates as all tables of this program have them. A task weighs the same whatever its seeds.

    Attributes:
        level: confidence level of the intervals.
    """

    @property
    def level(self) -> float: ...

    def mean(
        self, tasks: Sequence[str], values: Sequence[float], bounds: tuple[float, float] | None = None
    ) -> Estimate:
        """Return the mean of `values`, each of the task at the same place in `tasks`, all of which are in `bounds`."""

    def geometric_mean(self, tasks: Sequence[str], values: Sequence[float]) -> Estimate:
        """Return the geometric mean of positive `values`."""

    def text(self, estimate: Estimate) -> str:
        """Return an interval as text."""


@dataclass(frozen=True)
class SuiteTable:
    """A table of a suite.

    Attributes:
        title: of the table.
        heading: of the section that a report has for it.
        explanation: of the columns.
        numeric: columns that are flush right.
        remarks: sentences about jobs that are not in the table.
        fields: for ``results --json``, by name.
    """

    title: str
    heading: str
    explanation: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[str] = frozenset()
    remarks: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
