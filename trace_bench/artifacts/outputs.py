"""The output of a sandbox as models: the other half of the job contract (`trace_bench.artifacts.contract`)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from trace_bench.artifacts.contract import (
    CONTRACT,
    ContractVersion,
    Count,
    Direction,
    Json,
    Metrics,
    Model,
    Name,
    Seconds,
    Split,
    State,
    StopPoint,
    StopReason,
    Usd,
    UtcTime,
)
from trace_bench.errors import Boundary


class Event(BaseModel):
    """A line of ``events.jsonl``: when, what, and any further JSON fields.

    `t` is seconds since the job started (a sandbox has no trusted clock) or, in the host's own events, a UTC
    time.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    t: Seconds | UtcTime
    event: Annotated[str, Field(min_length=1, max_length=100)]


class ParameterReport(Model):
    """A parameter of a problem; `kind` is ``code``, ``text``, ``int`` or ``float``."""

    name: str
    kind: Name
    trainable: bool


class ProgramReport(Model):
    """The score of a program that comes with a task, or with a job, on the training examples.

    Attributes:
        role: ``template``, ``level``, ``reference``, ``stateless`` (the reference of that form), ``worse``,
            ``alternatives`` or ``broken``; ``given`` with the job.
        score: mean over `examples`, natural units; `scores` has that of each, in order.
        failed: number of examples on which it failed.
        feedback: of the first of these, else of the first example.
    """

    role: Name
    name: Name
    score: float
    scores: tuple[float, ...] = ()
    metrics: dict[Name, float] = Field(default_factory=dict)
    failed: Count
    examples: Count
    seconds: Seconds
    feedback: str


class BuildReport(Model):
    """The problem in event ``build.end``. Held-out examples are counted, and programs run, only if the job ends there.

    Attributes:
        bound: mean over the training examples of what no answer can beat, natural units; None where one has no bound.
        best_known: mean over the training examples of the best known scores, natural units; None where one has none.
    """

    direction: Direction
    parameters: tuple[ParameterReport, ...]
    examples: dict[Split, Count]
    bound: float | None = None
    best_known: float | None = None
    programs: tuple[ProgramReport, ...] = ()


class HistoryLine(Model):
    """A line of ``state_history.jsonl``: one evaluated candidate, as the trainer saw it (no official score).

    `score` is the mean over this line's rollouts on `split`; `best_score` that of the best so far, this line included,
    of those on all examples of the selection split. `seconds` is since training started; calls, tokens, cost and
    evaluations are cumulative.

    Attributes:
        parents: ids of the candidates it was made from: none for the start, several for a merged one.
        accepted: whether the search goes on with it; None where it keeps every candidate.
        reason: why it was accepted or not.
        metrics: means over the same rollouts, natural units; of tasks that declare metrics.
        comparable: it is of all examples of the selection split, so that it could become the best.
    """

    step: Count
    candidate: Name
    parents: tuple[Name, ...] = ()
    split: Split
    score: float
    best_score: float
    accepted: bool | None = None
    reason: str = ""
    seconds: Seconds
    llm_calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cost_usd: Usd = 0.0
    evaluations: Count
    metrics: Metrics = {}
    comparable: bool = False
    parameters: State
    extra: Json = {}


class CheckpointHead(Model):
    """The first line of ``checkpoint.jsonl``: the job of the others."""

    fingerprint: str


class CheckpointLine(Model):
    """A further line of ``checkpoint.jsonl``: the result of one evaluation of a search, as the trainer reports it.

    Attributes:
        key: SHA-256 (hex) of what was evaluated, and on which examples.
        nth: how often the search had asked the same before.
        seconds: of training by then, over all attempts.
        rollouts: one for each example.
        signs: of sources that were started for it first, by their SHA-256.
    """

    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    nth: Count
    seconds: Seconds
    rollouts: tuple[Json, ...]
    signs: dict[str, tuple[Json, ...]] = {}


class States(Model):
    """``states.json``. `best` and `final` are None when training ended before there was one."""

    initial: State
    best: State | None = None
    final: State | None = None


class Failure(Model):
    """A failure and its boundary. `kind` is a short word (``no_trainable_parameters``, ``oom``
    …)."""

    boundary: Boundary
    kind: Name
    message: str


class ExampleScore(Model):
    """One example in an official score; `failed` marks the failure score of a candidate that failed. `best_known` is
    the best known score of this very instance, natural units."""

    split: Split
    id: str
    score: float
    failed: bool = False
    feedback: str = ""
    metrics: Metrics = {}
    best_known: float | None = None


class StateScores(Model):
    """Official scores of one state: the mean per split, None where the split is empty or was not reached; likewise the
    means of `metrics`, by split."""

    train: float | None = None
    validate_: Annotated[float | None, Field(alias="validate")] = None
    test: float | None = None
    metrics: dict[Split, Metrics] = {}
    examples: tuple[ExampleScore, ...] = ()

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )

    @property
    def selection(self) -> float | None:
        """The score that states are compared by: on validation data where there is any, else on training
        data."""
        return self.train if self.validate_ is None else self.validate_

    @property
    def selection_split(self) -> Split:
        """The split of `selection`."""
        return "train" if self.validate_ is None else "validate"

    @property
    def selection_metrics(self) -> Metrics:
        """The metrics of the same split."""
        return self.metrics.get(self.selection_split, {})


class Scores(Model):
    """Official scores from the score phase, per saved state."""

    initial: StateScores | None = None
    final: StateScores | None = None
    best: StateScores | None = None


StateKind = Literal["initial", "best", "final"]


class Claim(Model):
    """The score that training claims for a state: mean over `examples` (ids, in order) of `split`, natural units."""

    score: float
    split: Split
    examples: tuple[str, ...]


class Sign(Model):
    """Something in a candidate's source that honest programs seldom need. It is no proof, and changes no score.

    Attributes:
        kind: a word of `trace_bench.worker.signs.KINDS`.
        line: 1-based line of the source.
        text: that line, cut.
    """

    kind: Name
    line: Annotated[int, Field(ge=1)] | None = None
    text: Annotated[str, Field(max_length=200)] = ""


class CandidateTally(Model):
    """The candidate processes of one phase, as the one who forks and kills them saw them.

    Attributes:
        opened: how many there were.
        left_processes: processes that candidates left behind, in runs of versions that let every candidate fork.
        unswept: uids that could not be emptied; they are not used again.
        over_cpu: candidates that were ended because they had used up their CPU time.
        cpu_seconds: of all of them.
        needs: what their task declares that they need beyond computing.
    """

    opened: Count = 0
    left_processes: Count = 0
    unswept: Count = 0
    over_cpu: Count = 0
    cpu_seconds: Seconds = 0.0
    needs: tuple[Literal["files", "processes", "machine_code", "gpu", "compiler"], ...] = ()


class ScorerFiles(Model):
    """The files that scoring depends on (the task's and the worker's own), hashed before scoring and after it.

    Attributes:
        sha256: over paths and contents, before.
        unchanged: the hash after scoring is the same.
    """

    files: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    unchanged: bool


class WorkerIntegrity(Model):
    """The sandbox's evidence about the trust in its scores.

    Attributes:
        claims: by state.
        signs: by state, of its source.
        candidates: by phase.
        scorer_files: None if nothing was scored.
    """

    claims: dict[StateKind, Claim] = {}
    signs: dict[StateKind, tuple[Sign, ...]] = {}
    candidates: dict[Name, CandidateTally] = {}
    scorer_files: ScorerFiles | None = None


class MemoryAccount(Model):
    """The kernel's account of a sandbox's memory, read inside at the end.

    Attributes:
        peak_bytes: None from kernels that do not say.
        oom_kills: processes that it has killed for want of memory, whichever.
    """

    limit_bytes: Count
    peak_bytes: Count | None = None
    oom_kills: Count


class PhaseEnd(Model):
    """How the process of a phase ended: its exit code, or the signal that killed it.

    Attributes:
        oom_kills: processes of the sandbox that were killed for want of memory while it lasted; None if unknown.
    """

    code: int | None = None
    signal: int | None = None
    oom_kills: Count | None = None


class WorkerEvidence(Model):
    """The supervisor's evidence about the ends of phases. `memory` is None where it is not known."""

    phases: dict[Name, PhaseEnd] = {}
    memory: MemoryAccount | None = None


class Hardware(Model):
    """The hardware of a sandbox, as its supervisor read it from the kernel. An empty text, or 0, is unknown.

    Attributes:
        cpu: model name of the first processor.
        cpus: that the job may use; a quota can make it a fraction.
        gpus: model names, one a device, and `driver` its version.
        torch: version of PyTorch in the image.
    """

    cpu: Annotated[str, Field(max_length=200)] = ""
    cpus: Annotated[float, Field(ge=0)] = 0.0
    gpus: tuple[Name, ...] = ()
    driver: Annotated[str, Field(max_length=200)] = ""
    torch: Annotated[str, Field(max_length=200)] = ""

    @property
    def name(self) -> str:
        """All of it in one line; times are comparable only where it is equal. Empty if nothing is known.

        >>> Hardware(cpu="Xeon", cpus=2, torch="2.13.0+cpu").name
        'Xeon · 2 CPUs · torch 2.13.0+cpu'
        """
        gpus = [f"{count} × {name}" if count > 1 else name for name, count in Counter(self.gpus).items()]
        parts = [
            *gpus,
            f"driver {self.driver}" if self.driver else "",
            self.cpu,
            f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}" if self.cpus else "",
            f"torch {self.torch}" if self.torch else "",
        ]
        return " · ".join(part for part in parts if part)


class WorkerResult(Model):
    """``result.json``, written by the supervisor.

    Attributes:
        stop_reason: why training ended; None if it never began.
        stop_point: where training was ended; None if it came to its end.
        evaluations: in training, over all attempts; what the budget is of. `score_evaluations` are the scorer's.
        evaluations_saved: asked for in training and known already; None where none are remembered.
        search_answers: answers of the model to the search of the last attempt, reused ones included; calls of a program
            that it improves are no part. None where it asked for nothing.
        unusable_answers: those of them that the search could not use, by their kind (`trace_bench.worker.unusable`).
        train_seconds: of training, over all attempts, as far as what came of them is known.
        seconds: wall time per phase (``build``, ``train``, ``score``) of the last attempt.
        stub_inert: the stub model got only requests that it could not change anything for.
    """

    contract: ContractVersion = CONTRACT
    status: Literal["ok", "failed"]
    failure: Failure | None = None
    stop_reason: StopReason | None = None
    stop_point: StopPoint | None = None
    scores: Scores = Scores()
    evaluations: Count = 0
    evaluations_saved: Count | None = None
    search_answers: Count | None = None
    unusable_answers: dict[Name, Count] | None = None
    score_evaluations: Count = 0
    train_seconds: Seconds | None = None
    llm_calls: Count = 0
    seconds: dict[Name, Seconds] = {}
    warnings: tuple[str, ...] = ()
    stub_inert: bool = False
    integrity: WorkerIntegrity = WorkerIntegrity()
    evidence: WorkerEvidence = WorkerEvidence()
    hardware: Hardware = Hardware()
