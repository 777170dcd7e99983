"""Task specs: ``task.toml`` checked, hashed and packed without importing anything of the task.

The format is in ``docs/design/job-contract.md`` ("Task folders").
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import tarfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
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
from trace_bench.suites.terminal_bench import described as harbor
from trace_bench.suites.veribench import described as veribench

SPEC_FILE = "task.toml"
MAX_TASK_BYTES = 64 << 20
"""Of all files of a task folder together."""

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
    """How a score reads. Numbers are in the task's natural units."""

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
    """What a value of an argument asks of the sandbox of a job."""

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
    """Whether it takes arguments that nobody knows the names of."""
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
    def is_code_task(self) -> bool:
        return self.candidates is not None

    def arguments(self) -> tuple[Argument, ...]:
        """What ``eval_kwargs`` may hold: the task's own arguments, and the common ones of a code task."""
        own = tuple(spec.argument(name) for name, spec in self.eval_kwargs.items())
        return own + tuple(a for a in self._common() if a.name not in self.eval_kwargs)

    def takes(self, name: str) -> bool:
        """Whether `name` may be an argument, known or not."""
        return find(self.arguments(), name) is not None or (self._free and name.replace("-", "_").isidentifier())

    def asked_of_sandbox(self, eval_kwargs: Mapping[str, Any]) -> Iterator[tuple[str, SandboxOfValue]]:
        """What the values of arguments ask of the sandbox, by name of the argument."""
        for name, argument in self.eval_kwargs.items():
            if (found := argument.sandbox.get(str(eval_kwargs.get(name)))) is not None:
                yield name, found

    def executes_candidates(self, eval_kwargs: Mapping[str, Any]) -> bool:
        """Whether a job with these arguments may run a candidate's source in the process that scores it."""
        return bool(self.execution(eval_kwargs))

    def execution(self, eval_kwargs: Mapping[str, Any]) -> str:
        """How that comes, in words; empty if a candidate's source runs in processes of its own alone."""
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
        raise ConfigError(_toml_sentence(path, text, str(error))) from None
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


def task_files(folder: Path) -> list[tuple[str, Path]]:
    """``(relative path, path)`` of every file of a task folder, sorted by relative path.

    Hidden files, ``__pycache__`` and ``*.pyc`` are not part of a task.

    Raises:
        ConfigError: the folder holds a link, a device, a name that is not UTF-8, or more than `MAX_TASK_BYTES`.
    """
    files = sorted(_walk(folder, ""))
    total = sum(path.stat().st_size for _, path in files)
    if total > MAX_TASK_BYTES:
        raise ConfigError(
            f"{folder}: holds {total / 2**20:.0f} MiB; a task folder may hold {MAX_TASK_BYTES >> 20} MiB, "
            "so fetch large data when the image is built"
        )
    return files


def content_hash(folder: Path, data: Sequence[tuple[str, bytes]] = ()) -> str:
    """SHA-256 over relative paths and bytes of a task folder and its data: what a job's result depends on."""
    digest = hashlib.sha256(b"trace-bench/task/1\n")
    for name, source in _members(folder, data):
        content = _content(source)
        # Lengths keep two different folders from having one stream of bytes.
        digest.update(f"{len(name.encode())}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


def pack_task(folder: Path, data: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """The task folder with its data as a tar that depends on nothing but its content: sorted, uid 0, mtime 0, modes
    0644 and 0755.

    No file is executable: task code is imported, never executed.
    """
    files = _members(folder, data)
    if harbor.is_harbor_task(folder):
        files = [(name, source) for name, source in files if name in harbor.SENT]
    folders = {str(parent) for name, _ in files for parent in Path(name).parents if str(parent) != "."}
    members: list[tuple[str, Path | bytes | None]] = [*((name, None) for name in folders), *files]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, source in sorted(members, key=lambda m: m[0]):
            info = tarfile.TarInfo(name)
            if source is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                content = _content(source)
                info.mode, info.size = 0o644, len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _members(folder: Path, data: Sequence[tuple[str, bytes]]) -> list[tuple[str, Path | bytes]]:
    files = kernelbench.members(folder) if folder.is_file() else task_files(folder)
    return [*files, *data]


def _content(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    try:
        children = sorted(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be listed: {error.strerror or error}") from None
    for child in children:
        if child.name.startswith(".") or child.name == "__pycache__" or child.suffix == ".pyc":
            continue
        name = prefix + child.name
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{folder}: holds a file whose name is not UTF-8; rename it") from None
        mode = child.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(child, f"{name}/")
        elif stat.S_ISREG(mode):
            yield name, child
        else:
            kind = "a link" if stat.S_ISLNK(mode) else "not a plain file"
            raise ConfigError(f"{child}: is {kind}; a task folder holds plain files and folders only, so copy the file")


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
        place = _place(folder / SPEC_FILE, _find_line(text, ("candidates", "template")))
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


def _toml_sentence(path: Path, text: str, message: str) -> str:
    match = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if match:
        return f"{path}, line {match[1]}: is not valid TOML: {message[: match.start()]} (column {match[2]})"
    message = message.removesuffix(" (at end of document)")
    return f"{path}, line {max(1, len(text.splitlines()))}: is not valid TOML: {message} at the end of the file"


def _spec_sentence(path: Path, text: str, error: Mapping[str, Any]) -> str:
    location = tuple(str(part) for part in error["loc"])
    shown = ".".join(location)
    place = _place(path, _find_line(text, location))
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


def _place(path: Path, line: int | None) -> str:
    return f"{path}, line {line}" if line else str(path)


def _find_line(text: str, location: tuple[str, ...]) -> int | None:
    """The line that `location` is written on, as far as plain ``[table]`` headers and ``key =`` lines show it."""
    keys = [part for part in location if not part.isdigit()]
    if not keys:
        return None
    table, best, in_string = "", None, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if in_string:
            in_string = "" if in_string in line else in_string
            continue
        if header := re.match(r"^\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header[1].replace(" ", "").replace('"', "")
            if table == ".".join(keys) or (best is None and table == ".".join(keys[:-1])):
                best = number
        elif key := re.match(r"""^\s*["']?([A-Za-z0-9_.-]+)["']?\s*=""", line):
            full = f"{table}.{key[1]}" if table else key[1]
            if full == ".".join(keys) or (full == ".".join(keys[:-1]) and best is None):
                best = number
            for quote in ('"""', "'''"):
                if line.count(quote) == 1:
                    in_string = quote
    return best
