"""Task specs: ``task.toml`` checked, hashed and packed without importing anything of the task.

The format is in ``docs/design/job-contract.md`` ("Task folders").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, Strict, ValidationError, model_validator

from trace_bench.arguments import Argument, Where, describe, find, hint, resolve
from trace_bench.errors import ConfigError
from trace_bench.suites import foreign
from trace_bench.suites.base import Suite
from trace_bench.suites.kernelbench import described as kernelbench
from trace_bench.suites.task_files import content_hash
from trace_bench.suites.terminal_bench import described as harbor
from trace_bench.suites.toml_lines import at_line, find_line, syntax_error
from trace_bench.suites.veribench import described as veribench

SPEC_FILE = "task.toml"

COMMON_EVAL_KWARGS = (
    Argument("num_train", int, None, minimum=1),
    Argument("num_validate", int, None, minimum=0),
    Argument("num_test", int, None, minimum=0),
    Argument("timeout_seconds", float, None, minimum=0.001),
)
"""Every code task takes these, unless its spec defines them anew: sizes of the splits, and the wall limit of
a candidate.
"""

FOREIGN_EVAL_KWARGS = (
    Argument("execute_in_scorer", bool, None),
    Argument("timeout_seconds", float, None, minimum=0.001),
)
"""Every task of foreign code takes these: whether candidates run in the scorer itself (the job is then unprotected),
and the time limit of a whole evaluation."""

_DESCRIBED = {"kernel": kernelbench.described, "lean": veribench.described, "harbor": harbor.described}
"""What a task with such a table leaves out in its ``task.toml`` is filled in."""
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
LeanPart = Literal["compiles", "tests", "theorems", "imperative_equivalence"]
Interaction = Literal["solve", "policy", "fit", "agent", "value", "kernel", "lean", "trial"]
Direction = Literal["maximize", "minimize"]
_Names = Annotated[tuple[str, ...], Strict(False)]
_TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "list": list}


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ScoreSpec(_Table):
    """The direction and reference values of a score. Numbers are in the task's natural units."""

    direction: Direction
    failure: float
    """What a candidate that fails gets for an example."""
    best_known: float | None = None
    range: Annotated[tuple[float, float], Strict(False)] | None = None
    normalised: Literal["ratio", "linear"] = "ratio"
    """How the metric ``normalised`` (0 is a failure, 1 the target) comes from the score, if the spec declares it: see
    `trace_bench.suites.judge`."""


class MetricSpec(_Table):
    """One thing beside the score that the guide measures of an answer. Numbers are in its natural units."""

    direction: Direction
    failure: float
    """What a candidate that fails on an example gets."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """In weighted sums, unless a config says otherwise."""
    reference: float | None = None
    """Of the hypervolume: a value that is just too bad to count."""
    range: Annotated[tuple[float, float], Strict(False)] | None = None
    """Lowest and highest value, as far as known."""
    doc: str = ""


class SplitSpec(_Table):
    """Number of examples of each split, unless ``eval_kwargs`` say otherwise."""

    train: Annotated[int, Field(ge=1)] = 1
    validate_: Annotated[int, Field(ge=0, alias="validate")] = 0
    test: Annotated[int, Field(ge=0)] = 0


class LimitSpec(_Table):
    """Limits of one candidate process."""

    wall_seconds: Annotated[float, Field(gt=0)] = 30.0
    cpu_seconds: Annotated[float, Field(gt=0)] = 30.0
    memory_mb: Annotated[int, Field(ge=1)] = 1024
    needs: Annotated[tuple[Literal["files", "processes", "machine_code"], ...], Strict(False)] = ()


class SandboxOfValue(_Table):
    """The requirements on the sandbox that a value of an argument has."""

    image: str | None = None
    """Image family, in place of the task's."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs that it has at least."""


class EvalKwargSpec(_Table):
    """One argument that a config may give."""

    type: Literal["int", "float", "str", "bool", "list"]
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    choices: Annotated[tuple[Any, ...], Strict(False)] | None = None
    sandbox: dict[str, SandboxOfValue] = Field(default_factory=dict)
    """By value."""
    doc: str = ""

    def argument(self, name: str) -> Argument:
        return Argument(name, _TYPES[self.type], self.default, self.minimum, self.maximum, self.choices)

    @model_validator(mode="after")
    def _default_fits(self) -> EvalKwargSpec:
        resolve([Argument("value", _TYPES[self.type], None, self.minimum, self.maximum, self.choices)],
                {"value": self.default}, lambda _: "its default", "the argument")  # fmt: skip
        return self


class CandidateSpec(_Table):
    """The programs that come with a code task, as paths in its folder."""

    template: str
    """What the search starts from."""
    reference: str | None = None
    """A decent known heuristic, cited in its docstring."""
    worse: _Names = ()
    broken: _Names = ()
    """Programs that fail: each breaks a rule, or raises."""
    alternatives: _Names = ()
    """Further programs. All of these but the template are what the stub model may propose."""

    def proposals(self) -> tuple[str, ...]:
        """The programs that a stub model proposes, in this order: worse, others, reference, broken."""
        reference = () if self.reference is None else (self.reference,)
        return (*self.worse, *self.alternatives, *reference, *self.broken)


class DataSpec(_Table):
    """Published data that a user may have: files that the evaluator's ``read`` understands."""

    folder: str = Field(min_length=1)
    """Name of the task's folder in CO-Bench's layout."""
    files: Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]
    """Patterns of file names (``airland*.txt``), in that folder or right in the folder that the user names."""


class ForeignSpec(_Table):
    """Code that was not written for this package: how it runs, `trace_bench.suites.llm4ad.compat` knows."""

    module: str = Field(min_length=1)
    """A file of the folder that defines ``build_trace_problem``; or, of a `package`, its module below ``task``."""
    package: Literal["llm4ad"] | None = None
    evaluation: str | None = None
    """The class, of a package."""
    free: bool = True
    """Whether it takes arguments whose names are not known."""
    executes_candidates: bool = False
    """Whether it executes a candidate's source in the process that scores it: its jobs are unprotected."""
    signs: _Names = ()
    """Why: places in its source."""
    in_place: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Strict(False)] = ()
    """Positions of the arguments that a program is to change in place."""


class KernelSpec(_Table):
    """A file of KernelBench, ``problem.py``."""

    sizes: dict[str, dict[str, int | float | str | bool]] = Field(default_factory=dict)
    """By name (``cpu``, ``gpu``): constants of ``problem.py`` that take other values."""
    precision: Literal["float32", "float16", "bfloat16"] = "float32"


class LeanSpec(_Table):
    """A Python program to translate to Lean: ``program.py``, with hidden tests in ``cases.toml``."""

    defines: _Names = ()
    """Functions that a candidate has to implement."""
    theorems: _Names = ()
    """Theorems whose statements are frozen, as the template has them."""
    unproved: _Names = ()
    """Those of them that the reference does not prove."""
    equivalence: _Names = ()
    """Those that equate an imperative and a functional version."""
    imports: _Names = ("Init",)
    """Modules that a candidate may import; of a package, all of its modules."""
    weights: dict[LeanPart, Annotated[float, Field(ge=0, strict=False)]] = Field(min_length=1)
    """Of the parts in the score."""

    @model_validator(mode="after")
    def _parts_are_there(self) -> LeanSpec:
        if not sum(self.weights.values()) > 0:
            raise ValueError("lean.weights: all are 0, and there would be no score")
        for part, names in (("theorems", self.theorems), ("imperative_equivalence", self.equivalence)):
            if part in self.weights and not names:
                raise ValueError(f"lean.weights: {part!r} has a weight, and the task has no such theorem")
        for name in ("unproved", "equivalence"):
            if unknown := sorted(set(getattr(self, name)) - set(self.theorems)):
                raise ValueError(f"lean.{name}: {unknown[0]!r} is none of lean.theorems")
        return self


class HarborSpec(_Table):
    """A task of Harbor, whose trials run on the host."""

    task: str = ""
    """Its name in the data set; empty: the name of the task here."""


class TaskSpec(_Table):
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
    tags: _Names = ()
    source: str = ""
    licence: str = ""
    corrections: str = ""
    """What other versions of this task get wrong, or do otherwise."""
    dependencies: _Names = ()
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
    candidates: CandidateSpec | None = None
    data: DataSpec | None = None
    foreign: ForeignSpec | None = None
    kernel: KernelSpec | None = None
    lean: LeanSpec | None = None
    harbor: HarborSpec | None = None

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def raw(self) -> dict[str, Any]:
        """``task.toml`` as read."""
        return self._raw

    @property
    def repeats(self) -> bool:
        """Whether a score that was measured once can stand for the next one."""
        return self.deterministic and not self.timing_sensitive

    @property
    def is_code_task(self) -> bool:
        return self.candidates is not None

    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that ``eval_kwargs`` may hold: the task's own arguments, and the common ones of a code task."""
        own = tuple(spec.argument(name) for name, spec in self.eval_kwargs.items())
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
            return COMMON_EVAL_KWARGS if self.is_code_task else ()
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
    def _code_tasks_are_whole(self) -> TaskSpec:
        if self.candidates is not None:
            for name in ("entry", "signature"):
                if not getattr(self, name):
                    raise ValueError(f"a task with [candidates] must also say {name!r}")
        return self


@dataclass(frozen=True)
class Task:
    """A task of a run: where it lies, the suite that builds it, its spec, and the user's data files for it."""

    id: str
    suite: Suite
    folder: Path
    spec: TaskSpec
    data: tuple[tuple[str, bytes], ...] = ()

    def image_family(self, eval_kwargs: Mapping[str, Any]) -> str:
        """The image family of a job with these arguments."""
        asked = [of_value.image for _, of_value in self.spec.asked_of_sandbox(eval_kwargs) if of_value.image]
        return asked[-1] if asked else self.spec.image or self.suite.image

    @cached_property
    def content_hash(self) -> str:
        """`content_hash` of the folder and the data, read once."""
        return content_hash(self.folder, self.data)


def load_task_spec(folder: Path) -> TaskSpec:
    """Read and check ``task.toml`` of a task folder; without one, describe the foreign code that lies there. A `folder`
    that is a file of KernelBench is described too.

    Raises:
        ConfigError: it is missing, no TOML, or breaks the format; one line per problem, with the line where known.
    """
    path = folder / SPEC_FILE
    if folder.is_file():
        return _described_spec(folder, kernelbench.described_file(folder))
    if not path.exists() and (module := foreign.module_of(folder)) is not None:
        return _described_spec(folder / module, foreign.described(folder, module))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: does not exist; a task folder needs a {SPEC_FILE}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(syntax_error(path, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply to be a task spec") from None
    if harbor.is_harbor_task(folder):
        return _described_spec(folder, harbor.described_folder(folder, raw, _instruction(folder)))
    _look_for_execution(folder, raw)
    for table, described in _DESCRIBED.items():
        if isinstance(raw.get(table), dict):
            raw = described(raw)
    try:
        spec = TaskSpec.model_validate(raw)
    except ValidationError as error:
        problems = [_spec_sentence(path, text, dict(e)) for e in error.errors(include_url=False)]
        raise ConfigError("\n".join(problems)) from None
    spec._raw = raw
    _check_files(folder, text, spec)
    return spec


def _instruction(folder: Path) -> str:
    path = folder / harbor.INSTRUCTION
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8: {error}") from None


def _described_spec(path: Path, raw: dict[str, Any]) -> TaskSpec:
    try:
        spec = TaskSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None
    spec._raw = raw
    return spec


def _look_for_execution(folder: Path, raw: dict[str, Any]) -> None:
    """Whatever a ``task.toml`` says of the foreign code beside it: what executes source is found in the source."""
    table = raw.get("foreign")
    if isinstance(table, dict) and "package" not in table and (signs := list(foreign.signs_of_execution(folder))):
        table |= {"executes_candidates": True, "signs": signs[:8]}


def resolve_eval_kwargs(spec: TaskSpec, given: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The arguments that the task is built with: checked, defaults filled in.

    The common arguments of a code task are in it only if they were given: the spec's splits and limits hold otherwise.

    Raises:
        ConfigError: one line for each argument that is unknown, of the wrong type or out of bounds.
    """
    known = spec.arguments()
    free = {k.replace("-", "_"): v for k, v in given.items() if find(known, k) is None and spec.takes(k)}
    values = resolve(known, {k: v for k, v in given.items() if k.replace("-", "_") not in free}, where, "the task")
    optional = {a.name for a in (*COMMON_EVAL_KWARGS, *FOREIGN_EVAL_KWARGS)} - set(spec.eval_kwargs)
    return {name: value for name, value in values.items() if value is not None or name not in optional} | free


def _check_files(folder: Path, text: str, spec: TaskSpec) -> None:
    problems: list[str] = []
    names: list[str] = []
    if spec.harbor is not None:
        needed = []
    elif spec.foreign is not None:
        needed = [] if spec.foreign.package else [spec.foreign.module]
    elif spec.candidates is None:
        needed = ["problem.py"] if not (folder / "evaluator.py").is_file() else []
    else:
        needed = [] if spec.lean is not None else ["problem.py" if spec.kernel is not None else "evaluator.py"]
        needed += ["program.py", "cases.toml"] if spec.lean is not None else []
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
    tables: Mapping[str, type[_Table]] = {
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
