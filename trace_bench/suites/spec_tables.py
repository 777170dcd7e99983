"""The tables of a ``task.toml``: what each key means, and what is checked of it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from trace_bench.arguments import Argument, resolve
from trace_bench.suites.former import OTHER_NAMES

LeanPart = Literal["compiles", "tests", "theorems", "imperative_equivalence"]
Interaction = Literal["solve", "policy", "fit", "agent", "value", "kernel", "lean", "trial"]
Direction = Literal["maximize", "minimize"]
Names = Annotated[tuple[str, ...], Strict(False)]
_TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "list": list,
                               "pairs": list}  # fmt: skip


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ScoreSpec(Table):
    """The direction and reference values of a score. Numbers are in the task's natural units."""

    direction: Direction
    failure: float
    """What a candidate that fails gets for an example."""
    function: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*\.py:[A-Za-z_]\w*$")] | None = None
    """``FILE.py:NAME`` of a function that scores a program, in place of ``evaluator.py``
    (`trace_bench.suites.score_function`)."""
    best_known: float | None = None
    range: Annotated[tuple[float, float], Strict(False)] | None = None
    normalised: Literal["ratio", "linear"] = "ratio"
    """How the metric ``normalised`` (0 is a failure, 1 the target) comes from the score, if the spec declares it: see
    `trace_bench.suites.judge`."""


class MetricSpec(Table):
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


class SplitSpec(Table):
    """Number of examples of each split, unless ``eval_kwargs`` say otherwise."""

    train: Annotated[int, Field(ge=1)] = 1
    validate_: Annotated[int, Field(ge=0, alias="validate")] = 0
    test: Annotated[int, Field(ge=0)] = 0


class LimitSpec(Table):
    """Limits of one candidate process."""

    wall_seconds: Annotated[float, Field(gt=0)] = 30.0
    cpu_seconds: Annotated[float, Field(gt=0)] = 30.0
    memory_mb: Annotated[int, Field(ge=1)] = 1024
    needs: Annotated[tuple[Literal["files", "processes", "machine_code"], ...], Strict(False)] = ()


class SandboxOfValue(Table):
    """The requirements on the sandbox that a value of an argument has."""

    image: str | None = None
    """Image family, in place of the task's."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs that it has at least."""


class EvalKwargSpec(Table):
    """One argument that a config may give."""

    type: Literal["int", "float", "str", "bool", "list", "pairs"]
    """A value of ``pairs`` is a list of ``NAME=VALUE`` texts, or a mapping."""
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    choices: Annotated[tuple[Any, ...], Strict(False)] | None = None
    sandbox: dict[str, SandboxOfValue] = Field(default_factory=dict)
    """By value."""
    doc: str = ""

    def argument(self, name: str) -> Argument:
        return Argument(
            name, _TYPES[self.type], self.default, self.minimum, self.maximum, self.choices,
            aliases=OTHER_NAMES.get(name, ()), pairs=self.type == "pairs",
        )  # fmt: skip

    @model_validator(mode="after")
    def _default_fits(self) -> EvalKwargSpec:
        resolve([Argument("value", _TYPES[self.type], None, self.minimum, self.maximum, self.choices)],
                {"value": self.default}, lambda _: "its default", "the argument")  # fmt: skip
        return self


class CandidateSpec(Table):
    """The programs that come with a code task, as paths in its folder."""

    template: str
    """What the search starts from."""
    reference: str | None = None
    """A decent known heuristic, cited in its docstring."""
    stateless: str | None = None
    """The reference of the stateless form (`trace_bench.suites.forms`); it may be the reference itself. A task that
    names it takes the argument ``form``."""
    worse: Names = ()
    broken: Names = ()
    """Programs that fail: each breaks a rule, or raises."""
    alternatives: Names = ()
    """Further programs. All of these but the template are what the stub model may propose."""
    levels: Annotated[int, Field(ge=2, le=9)] | None = None
    """The number in the line ``LEVEL = N`` of the reference: with 1 … N-1 there it is a weaker program. With levels,
    the stub model moves one program up or down in broken, worse, template, level 1 … N."""

    def proposals(self) -> tuple[str, ...]:
        """All programs but the template, in this order: worse, others, references, broken. A stub model proposes them,
        of the references that of its form."""
        references = dict.fromkeys(name for name in (self.reference, self.stateless) if name is not None)
        return (*self.worse, *self.alternatives, *references, *self.broken)

    @model_validator(mode="after")
    def _levels_are_of_the_reference(self) -> CandidateSpec:
        if self.levels is not None and self.reference is None:
            raise ValueError("candidates.levels: they are levels of the reference; name one")
        return self


class DataSpec(Table):
    """Published data that a user may have: files that the evaluator's ``read`` understands."""

    folder: str = Field(min_length=1)
    """Name of the task's folder in CO-Bench's layout."""
    files: Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]
    """Patterns of file names (``airland*.txt``), in that folder or right in the folder that the user names."""
    tested: bool = True
    """Whether the evaluator's ``read`` was run on true files, and not only on files of the tests."""
    whole: bool = False
    """All files are there in all phases, in a folder of that name: foreign code reads them, and knows no splits."""


class ForeignSpec(Table):
    """Code that was not written for this package: how it runs, `trace_bench.suites.llm4ad.compat` knows."""

    module: str = Field(min_length=1)
    """A file of the folder, whose name says the shape; or, of a `package`, its module below ``task``."""
    package: Literal["llm4ad"] | None = None
    evaluation: str | None = None
    """The class, of a package or of a file ``evaluation.py``."""
    free: bool = True
    """Whether it takes arguments whose names are not known."""
    executes_candidates: bool = False
    """Whether it executes a candidate's source in the process that scores it: its jobs are unprotected."""
    signs: Names = ()
    """Why: places in its source."""
    in_place: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Strict(False)] = ()
    """Positions of the arguments that a program is to change in place."""


class KernelSpec(Table):
    """A file of KernelBench, ``problem.py``."""

    sizes: dict[str, dict[str, int | float | str | bool]] = Field(default_factory=dict)
    """By name (``cpu``, ``gpu``): constants of ``problem.py`` that take other values."""
    precision: Literal["float32", "float16", "bfloat16"] = "float32"


class LeanSpec(Table):
    """A Python program to translate to Lean: ``program.py``, with hidden tests in ``cases.toml``."""

    defines: Names = ()
    """Functions that a candidate has to implement."""
    theorems: Names = ()
    """Theorems whose statements are frozen, as the template has them."""
    unproved: Names = ()
    """Those of them that the reference does not prove."""
    equivalence: Names = ()
    """Those that equate an imperative and a functional version."""
    imports: Names = ("Init",)
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


class HarborSpec(Table):
    """A task of Harbor, whose trials run on the host."""

    task: str = ""
    """Its name in the data set; empty: the name of the task here."""


class QaSpec(Table):
    """Questions, or programs to write: a public data set on the Hugging Face hub, or rows in the task's own folder."""

    dataset_id: str = Field(min_length=1)
    """Name of the data set on the hub; of rows in the folder, the file that they were made of."""
    rows: Literal["hub", "folder"] = "hub"
    """Place of the rows. In the task's folder they are ``data/<split>/rows.jsonl``, for each split a file."""
    dataset_config: str = ""
    train_split: str = "train"
    """Split of the data set that training and validation examples come from."""
    test_split: str = "test"
    """That of held-out examples. If it is the same, its rows are dealt out."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the rows of one split that are held out. A fixture has half of them held out."""
    task_type: Literal[
        "hfqa", "exact", "contains", "judged", "bbeh", "drop", "gsm8k", "mcqa", "musique", "qasper", "strategy_qa",
        "code_exec",
    ]  # fmt: skip
    """How rows are read, and which metric judges."""
    agent: Literal["instructions", "extractor", "chain", "code", "system_prompt"] = "instructions"
    """Agent of the task, where the config names none."""
    tokens: bool = False
    """Measure the error and the tokens of each answer as metrics. The agent is then ``system_prompt``."""
    question_field: str = "question"
    answer_field: str = "answer"
    context_field: str = "context"
    context_format: Literal["none", "plain", "hotpot_qa", "musique"] = "none"
    options_field: str = ""
    answer_index_base: Annotated[int, Field(ge=0, le=1)] = 0
    """Of an answer that is the number of an option."""
    fact_field: str = ""
    """Of a text that supports the answer: part of the context only where the config asks for it."""
    test_field: str = ""
    entry_field: str = ""
    setup_field: str = ""
    timeout: Annotated[float, Field(gt=0, strict=False)] = 10.0
    """Seconds for the tests of one program."""
    initial_instructions: str = ""
    licence: str = ""
    """Of the data set."""
    cite: str = ""
