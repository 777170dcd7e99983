"""Task specs: ``task.toml`` checked, hashed and packed without importing anything of the task.

The format is in ``docs/design/job-contract.md`` ("Task folders").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from trace_bench.arguments import Argument, Where, describe, find, hint, resolve
from trace_bench.errors import ConfigError
from trace_bench.suites import former
from trace_bench.suites.base import Suite
from trace_bench.suites.forms import FORM, FORMS
from trace_bench.suites.installed import load_suites, reader_of
from trace_bench.suites.spec_tables import (
    CandidateSpec,
    DataSpec,
    EvalKwargSpec,
    ForeignSpec,
    HarborSpec,
    Interaction,
    KernelSpec,
    LeanSpec,
    LimitSpec,
    MetricSpec,
    Names,
    QaSpec,
    SandboxOfValue,
    ScoreSpec,
    SplitSpec,
    Table,
)
from trace_bench.suites.splits import STANDARD
from trace_bench.suites.task_files import content_hash
from trace_bench.suites.toml_lines import at_line, find_line, read_toml
from trace_bench.worker.levels import top_level

SPEC_FILE = "task.toml"

_TIMEOUT = Argument("timeout_seconds", float, None, minimum=0.001, aliases=former.OTHER_NAMES["timeout_seconds"])
COMMON_EVAL_KWARGS = (
    Argument("num_train", int, None, minimum=1, aliases=former.OTHER_NAMES["num_train"]),
    Argument("num_validate", int, None, minimum=0, aliases=former.OTHER_NAMES["num_validate"]),
    Argument("num_test", int, None, minimum=0),
    _TIMEOUT,
)
"""Every code task takes these, unless its spec defines them anew: sizes of the splits, and the wall limit of
a candidate.
"""

FOREIGN_EVAL_KWARGS = (
    Argument("execute_in_scorer", bool, None),
    _TIMEOUT,
)
"""Every task of foreign code takes these: whether candidates run in the scorer itself (the job is then unprotected),
and the time limit of a whole evaluation."""

OBJECTIVE_MODE = "objective_mode"
ASKED_EVAL_KWARGS = (Argument("initial_instructions", str, None),)
"""Every task over a data set of questions takes these: the text that the search starts from."""
MEASURED_EVAL_KWARGS = (Argument(OBJECTIVE_MODE, str, None, choices=("weighted", "pareto")),)
"""Every task that declares metrics takes these: the mode of the objective for one task entry."""

_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class TaskSpec(Table):
    """Static metadata of a task. `raw` is the same as the plain dict that goes into ``job.json``."""

    title: str = Field(min_length=1)
    statement: str = Field(min_length=1)
    interaction: Interaction
    score: ScoreSpec
    entry: str | None = None
    signature: str | None = None
    suite: str | None = None
    image: str | None = None
    """Image family, where it is not the suite's."""
    tags: Names = ()
    source: str = ""
    licence: str = ""
    corrections: str = ""
    """What other versions of this task get wrong, or do otherwise."""
    dependencies: Names = ()
    """Packages that the evaluator imports, or the statement offers to candidates."""
    template_seconds: Annotated[float, Field(gt=0)] | None = None
    """Seconds that the template takes on the training split with default arguments, on one core."""
    tolerance: Annotated[float, Field(ge=0)] = 1e-9
    timing_sensitive: bool = False
    deterministic: bool = True
    """Whether a state scores the same on an example each time. If not, each evaluation is made and counted anew."""
    metrics: dict[str, MetricSpec] = Field(default_factory=dict)
    splits: SplitSpec = SplitSpec()
    limits: LimitSpec = LimitSpec()
    eval_kwargs: dict[str, EvalKwargSpec] = Field(default_factory=dict)
    sizes: dict[Literal["small", "large"], dict[str, Any]] = Field(default_factory=dict)
    """Defaults of ``eval_kwargs`` at a size; those of ``eval_kwargs`` themselves are the size ``standard``."""
    candidates: CandidateSpec | None = None
    data: DataSpec | None = None
    foreign: ForeignSpec | None = None
    kernel: KernelSpec | None = None
    lean: LeanSpec | None = None
    harbor: HarborSpec | None = None
    qa: QaSpec | None = None

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)
    _owner: Suite | None = PrivateAttr(default=None)

    @property
    def raw(self) -> dict[str, Any]:
        """``task.toml`` as read."""
        return self._raw

    @property
    def owner(self) -> Suite | None:
        """The suite whose table the spec has; it builds the problem. None: the suite of the task does."""
        return self._owner

    @property
    def repeats(self) -> bool:
        """Whether a score that was measured once can stand for the next one."""
        return self.deterministic and not self.timing_sensitive

    @property
    def is_code_task(self) -> bool:
        return self.candidates is not None

    def arguments(self, size: Any = STANDARD) -> tuple[Argument, ...]:
        """The arguments that ``eval_kwargs`` may hold: the task's own arguments, and the common ones of a code task.

        Args:
            size: whose defaults they have.
        """
        defaults = self.sizes.get(size, {}) if isinstance(size, str) else {}  # type: ignore[call-overload]
        own = tuple(
            replace(spec.argument(name), default=defaults.get(name, spec.default))
            for name, spec in self.eval_kwargs.items()
        )
        if self.sizes:
            names = ("small", STANDARD, "large")
            own += (Argument("size", str, None, choices=names), Argument("test_size", str, None, choices=names))
        if self.candidates is not None and self.candidates.stateless is not None:
            own += (Argument(FORM, str, None, choices=FORMS),)
        return own + tuple(a for a in self._common() if a.name not in self.eval_kwargs)

    def takes(self, name: str) -> bool:
        """Whether `name` may be an argument, known or not."""
        return find(self.arguments(), name) is not None or (self._free and name.replace("-", "_").isidentifier())

    def asked_of_sandbox(self, eval_kwargs: Mapping[str, Any]) -> Iterator[tuple[str, SandboxOfValue]]:
        """The requirements of the values of arguments on the sandbox, by name of the argument."""
        for name, argument in self.eval_kwargs.items():
            if (found := argument.sandbox.get(str(eval_kwargs.get(name)))) is not None:
                yield name, found

    def executes_candidates(self, eval_kwargs: Mapping[str, Any]) -> bool:
        """Whether a job with these arguments may run a candidate's source in the process that scores it."""
        return bool(self.execution(eval_kwargs))

    def execution(self, eval_kwargs: Mapping[str, Any]) -> str:
        """The reason why jobs are unprotected; empty if a candidate's source only runs in processes of its own."""
        if self.foreign is None:
            return ""
        if self.foreign.executes_candidates:
            signs = f" ({'; '.join(self.foreign.signs)})" if self.foreign.signs else ""
            return f"its own code may execute programs in the process that scores them{signs}"
        return "execute_in_scorer is set" if eval_kwargs.get("execute_in_scorer") is True else ""

    @property
    def _free(self) -> bool:
        return self.foreign is not None and self.foreign.free

    def _common(self) -> tuple[Argument, ...]:
        if self.foreign is None:
            asked = ASKED_EVAL_KWARGS if self.qa is not None else ()
            measured = MEASURED_EVAL_KWARGS if self.metrics else ()
            return (COMMON_EVAL_KWARGS if self.is_code_task else ()) + asked + measured
        return FOREIGN_EVAL_KWARGS if self.foreign.free else FOREIGN_EVAL_KWARGS[:1]

    @model_validator(mode="after")
    def _metrics_have_names(self) -> TaskSpec:
        for name in self.metrics:
            if name == "score":
                raise ValueError("metrics.score: 'score' is the task's own score; call the metric something else")
            if not _METRIC.fullmatch(name):
                raise ValueError(f"metrics.{name}: a metric's name is a Python identifier of up to 64 letters")
        return self

    @model_validator(mode="after")
    def _sizes_fit(self) -> TaskSpec:
        for size, defaults in self.sizes.items():
            for name, value in defaults.items():
                if name not in self.eval_kwargs:
                    raise ValueError(f"sizes.{size}: {name!r} is none of eval_kwargs{hint(name, self.eval_kwargs)}")
                own = [replace(self.eval_kwargs[name].argument(name), default=None)]
                resolve(own, {name: value}, lambda _, at=size: f"sizes.{at}", "the task")  # type: ignore[misc]
        return self

    @model_validator(mode="after")
    def _code_tasks_are_whole(self) -> TaskSpec:
        if self.candidates is not None:
            for name in ("entry", "signature"):
                if not getattr(self, name):
                    raise ValueError(f"a task with [candidates] must also say {name!r}")
            if self.candidates.stateless is not None and self.interaction != "policy":
                raise ValueError("candidates.stateless: only a task whose interaction is 'policy' has a stateless form")
        return self


@dataclass(frozen=True)
class Task:
    """A task of a run: where it lies, the suite that builds it, its spec, and the user's data files for it."""

    id: str
    suite: Suite
    folder: Path
    spec: TaskSpec
    data: tuple[tuple[str, bytes], ...] = ()

    @property
    def builder(self) -> str:
        """``module:function`` that builds its problem in a sandbox."""
        return (self.spec.owner or self.suite).builder

    def image_family(self, eval_kwargs: Mapping[str, Any]) -> str:
        """The image family of a job with these arguments."""
        asked = [of_value.image for _, of_value in self.spec.asked_of_sandbox(eval_kwargs) if of_value.image]
        return asked[-1] if asked else self.spec.image or self.suite.image

    @cached_property
    def content_hash(self) -> str:
        """`content_hash` of the folder and the data, read once."""
        return content_hash(self.folder, self.data)


def load_task_spec(folder: Path) -> TaskSpec:
    """Read and check ``task.toml`` of a task folder; a suite describes a `folder` (or a file) in a format of its own.

    Raises:
        ConfigError: it is missing, no TOML, or breaks the format; one line per problem, with the line where known.
    """
    path = folder / SPEC_FILE
    if (reader := reader_of(folder)) is not None:
        raw = reader.described(folder)
        try:
            return _spec(raw)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigError(f"{folder}: {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None
    text, raw = read_toml(path)
    for suite, table in _owners(raw):
        if isinstance(raw[table], dict):
            raw = suite.completed(raw, folder)
        elif table not in TaskSpec.model_fields:
            raise ConfigError(f"{path}: {table} must be a table, not {describe(raw[table])}")
    try:
        spec = _spec(raw)
    except ValidationError as error:
        problems = [_spec_sentence(path, text, dict(e)) for e in error.errors(include_url=False)]
        raise ConfigError("\n".join(problems)) from None
    _check_files(folder, text, spec)
    return spec


def _owners(raw: Mapping[str, Any]) -> Iterator[tuple[Suite, str]]:
    """Suites with a table in `raw`, and the table."""
    yield from ((suite, table) for suite in load_suites().values() for table in suite.tables if table in raw)


def _spec(raw: dict[str, Any]) -> TaskSpec:
    """The spec in `raw`. Of a suite in another package, the suite itself checks the table."""
    known, owners = TaskSpec.model_fields, list(_owners(raw))
    foreign = {table for _, table in owners} - known.keys()
    spec = TaskSpec.model_validate({key: value for key, value in raw.items() if key not in foreign})
    spec._raw = raw
    spec._owner = owners[0][0] if owners else None
    return spec


def resolve_eval_kwargs(spec: TaskSpec, given: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The arguments that the task is built with: checked, defaults filled in.

    The common arguments of a code task are in it only if they were given: the spec's splits and limits hold otherwise.

    Raises:
        ConfigError: one line for each argument that is unknown, of the wrong type or out of bounds.
    """
    known = spec.arguments(given.get("size", STANDARD))
    free = {k.replace("-", "_"): v for k, v in given.items() if find(known, k) is None and spec.takes(k)}
    own = {k: v for k, v in given.items() if k.replace("-", "_") not in free}
    values = resolve(known, own, where, "the task", former.remedies(argument.name for argument in known))
    common = (*COMMON_EVAL_KWARGS, *FOREIGN_EVAL_KWARGS, *ASKED_EVAL_KWARGS, *MEASURED_EVAL_KWARGS)
    optional = {"size", "test_size", FORM, *(a.name for a in common)} - set(spec.eval_kwargs)
    return {name: value for name, value in values.items() if value is not None or name not in optional} | free


def _check_files(folder: Path, text: str, spec: TaskSpec) -> None:
    problems: list[str] = []
    names: list[str] = []
    if spec.owner is not None:
        needed = list(spec.owner.needed_files(spec.raw))
    elif spec.candidates is not None:
        needed = [(spec.score.function or "evaluator.py").partition(":")[0]]
    else:
        needed = ["problem.py"] if not (folder / "evaluator.py").is_file() else []
    if spec.candidates is not None:
        names = [spec.candidates.template, *spec.candidates.proposals()]
    for name in names:
        place = at_line(folder / SPEC_FILE, find_line(text, ("candidates", "template")))
        path = Path(name)
        if path.is_absolute() or ".." in path.parts:
            problems.append(f"{place}: {name!r} leaves the task folder; give a path inside it")
        elif not (folder / path).is_file():
            problems.append(
                f"{place}: {name!r} does not exist in the task folder; add it or take it out of [candidates]"
            )
    if spec.candidates is not None and spec.candidates.levels is not None and not problems:
        reference = str(spec.candidates.reference)
        if top_level((folder / reference).read_text(encoding="utf-8", errors="replace")) != spec.candidates.levels:
            place = at_line(folder / SPEC_FILE, find_line(text, ("candidates", "levels")))
            problems.append(f"{place}: {reference} has not exactly one line 'LEVEL = {spec.candidates.levels}'; add it")
    for name in needed:
        if not (folder / name).is_file():
            problems.append(f"{folder / SPEC_FILE}: the task folder has no {name}; see docs/design/job-contract.md")
    if problems:
        raise ConfigError("\n".join(problems))


def _spec_sentence(path: Path, text: str, error: Mapping[str, Any]) -> str:
    location = tuple(str(part) for part in error["loc"])
    shown = ".".join(location)
    place = at_line(path, find_line(text, location))
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{place}: unknown key {shown!r}{hint(location[-1], _known_keys(location[:-1]))}"
    if kind == "missing":
        return f"{place}: {shown!r} is missing"
    if kind == "literal_error":
        return f"{place}: {shown} must be one of {context['expected']}, not {describe(error['input'])}"
    if kind == "value_error":
        return f"{place}: {f'{shown}: ' if shown else ''}{context['error']}"
    return f"{place}: {shown}: {error['msg'].lower()}, not {describe(error['input'])}"


def _known_keys(location: tuple[str, ...]) -> list[str]:
    tables: Mapping[str, type[Table]] = {
        "score": ScoreSpec,
        "splits": SplitSpec,
        "limits": LimitSpec,
        "metrics": MetricSpec,
        "eval_kwargs": EvalKwargSpec,
        "candidates": CandidateSpec,
        "data": DataSpec,
        "foreign": ForeignSpec,
        "kernel": KernelSpec,
        "lean": LeanSpec,
    }
    model = tables[location[0]] if location and location[0] in tables else TaskSpec
    return [field.alias or name for name, field in model.model_fields.items()]
