"""The output of a sandbox as models: the other half of the job contract (`trace_bench.artifacts.contract`)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from trace_bench.artifacts.contract import (
    CONTRACT,
    Bytes,
    Calls,
    ContractVersion,
    Count,
    Direction,
    Evaluations,
    Fingerprint,
    Json,
    Metrics,
    Model,
    Name,
    Score,
    Seconds,
    Split,
    State,
    StopPoint,
    StopReason,
    Tokens,
    Usd,
    UtcTime,
)
from trace_bench.errors import Boundary


class Event(BaseModel):
    """A line of ``events.jsonl``: time, name, and any further JSON fields."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    t: Seconds | UtcTime
    """Seconds since the job started (a sandbox has no trusted clock); in the host's own events a UTC time."""
    event: Annotated[str, Field(min_length=1, max_length=100)]
    """Name of the event, such as `build.end`."""


class ParameterReport(Model):
    """A parameter of a problem."""

    name: str
    """Name of the parameter."""
    kind: Name
    """`code`, `text`, `int` or `float`."""
    trainable: bool
    """A search may change it."""


class ProgramReport(Model):
    """The score of a program that comes with a task, or with a job, on the training examples."""

    role: Name
    """`template`, `level`, `reference`, `stateless` (the reference of that form), `worse`, `alternatives` or `broken`;
    `given` for a program of the job."""
    name: Name
    """Name of the program's file."""
    score: Score
    """Mean score over the examples."""
    scores: tuple[Score, ...] = ()
    """Score of each example, in order."""
    metrics: Metrics = Field(default_factory=dict)
    """Mean of each metric over the examples."""
    failed: Count
    """Number of examples on which the program failed."""
    examples: Count
    """Number of examples."""
    seconds: Seconds
    """Wall time of all evaluations."""
    feedback: str
    """Feedback on the first failed example, else on the first example."""


class BuildReport(Model):
    """The problem in event ``build.end``. Held-out examples are counted, and programs run, only if the job ends
    there."""

    direction: Direction
    """Direction of the task's score: `maximize` or `minimize`."""
    parameters: tuple[ParameterReport, ...]
    """Parameters of the problem."""
    examples: dict[Split, Count]
    """Number of examples by split."""
    bound: Score | None = None
    """Mean over the training examples of a bound that no answer can beat; null where an example has no bound."""
    best_known: Score | None = None
    """Mean over the training examples of the best known scores; null where an example has none."""
    programs: tuple[ProgramReport, ...] = ()
    """Scores of the programs that come with the task."""


class HistoryLine(Model):
    """A line of ``state_history.jsonl``: one evaluated candidate, as the trainer saw it (no official score)."""

    step: Count
    """Number of the search step, from 0, the start."""
    candidate: Name
    """Id of the candidate."""
    parents: tuple[Name, ...] = ()
    """Ids of the candidates from which it was made: none for the start, several for a merged one."""
    split: Split
    """Split of the evaluated examples."""
    score: Score
    """Mean score over this line's evaluations."""
    best_score: Score
    """Best score so far, this line included, of the candidates that were evaluated on all examples of the selection
    split."""
    accepted: bool | None = None
    """The search continues from the candidate; null where it keeps every candidate."""
    reason: str = ""
    """Reason that the candidate was accepted or refused."""
    seconds: Seconds
    """Training time so far."""
    llm_calls: Calls = 0
    """Calls to the model so far."""
    prompt_tokens: Tokens = 0
    """Tokens of prompts so far."""
    completion_tokens: Tokens = 0
    """Tokens of answers so far."""
    cost_usd: Usd = 0.0
    """Cost of calls so far."""
    evaluations: Evaluations
    """Evaluations so far."""
    metrics: Metrics = {}
    """Mean of each metric over the same evaluations; empty for a task without metrics."""
    comparable: bool = False
    """The line covers all examples of the selection split, so the candidate can become the best."""
    parameters: State
    """Values of the candidate's parameters."""
    extra: Json = {}
    """Further values that the trainer records."""


class CheckpointHead(Model):
    """The first line of ``checkpoint.jsonl``: the job of the others."""

    fingerprint: Fingerprint


class CheckpointLine(Model):
    """A further line of ``checkpoint.jsonl``: the result of one evaluation of a search, as the trainer reports it."""

    key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 (hexadecimal) of the evaluated values and examples."""
    nth: Count
    """Number of earlier requests of the search for the same evaluation."""
    seconds: Seconds
    """Training time at that point, over all attempts."""
    rollouts: tuple[Json, ...]
    """One result for each example."""
    signs: dict[str, tuple[Json, ...]] = {}
    """Only in files of earlier versions: signs in new sources, by SHA-256 of the source."""


class States(Model):
    """``states.json``."""

    initial: State
    """State before training."""
    best: State | None = None
    """Best state of the search; null if training ended before there was one."""
    final: State | None = None
    """State at the end of the search; null if training ended before there was one."""


class Failure(Model):
    """A failure and its boundary."""

    boundary: Boundary
    """Side at fault: config, task, trainer, candidate, provider, sandbox or harness."""
    kind: Name
    """Short word for the failure, such as `no_trainable_parameters` or `oom`."""
    message: str
    """The failure in a sentence."""


class ExampleScore(Model):
    """One example in an official score."""

    split: Split
    """Split of the example."""
    id: str
    """Id of the example in its split."""
    score: Score
    """Official score on the example."""
    failed: bool = False
    """The candidate failed, and `score` is the failure score."""
    feedback: str = ""
    """Words of the guide."""
    metrics: Metrics = {}
    """Value of each metric."""
    best_known: Score | None = None
    """Best known score of this very instance; null where none is known."""


class StateScores(Model):
    """Official scores of one state."""

    train: Score | None = None
    """Mean score on the training split; null where it is empty or was not scored."""
    validate_: Annotated[Score | None, Field(alias="validate")] = None
    """Mean score on the validation split; null where it is empty or was not scored."""
    test: Score | None = None
    """Mean score on held-out data; null where there is none or it was not scored."""
    metrics: dict[Split, Metrics] = {}
    """Mean of each metric, by split."""
    examples: tuple[ExampleScore, ...] = ()
    """Scores of single examples."""

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
    """Scores of the state before training."""
    final: StateScores | None = None
    """Scores of the state at the end of the search."""
    best: StateScores | None = None
    """Scores of the best state of the search."""


StateKind = Literal["initial", "best", "final"]


class Claim(Model):
    """The score that training claims for a state."""

    score: Score
    """Mean score over the examples."""
    split: Split
    """Split of the examples."""
    examples: tuple[str, ...]
    """Ids of the examples, in order."""


class Sign(Model):
    """Code in a candidate's source that honest programs seldom need, as recorded by earlier versions."""

    kind: Name
    """Kind of code, such as `files`, `processes`, `introspection` or `native`."""
    line: Annotated[int, Field(ge=1)] | None = None
    """Number of the line in the source, from 1; null for the whole source."""
    text: Annotated[str, Field(max_length=200)] = ""
    """Text of that line, cut."""


class CandidateTally(Model):
    """The candidate processes of one phase, as counted by the process that forks and kills them."""

    opened: Count = 0
    """Number of candidate processes."""
    left_processes: Count = 0
    """Number of processes that candidates left behind, in runs of versions that let every candidate fork."""
    unswept: Count = 0
    """Number of user ids that could not be emptied; they are not used again."""
    over_cpu: Count = 0
    """Number of candidates that were ended because their CPU time was used up."""
    cpu_seconds: Seconds = 0.0
    """CPU time of all candidates."""
    needs: tuple[Literal["files", "processes", "machine_code", "gpu", "compiler"], ...] = ()
    """Capabilities beyond computing that the task declares for its candidates."""


class ScorerFiles(Model):
    """The files that scoring depends on (the task's and the worker's own), hashed before scoring and after it."""

    files: Count
    """Number of files."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 over paths and contents before scoring."""
    unchanged: bool
    """The hash after scoring is the same."""


class WorkerIntegrity(Model):
    """The sandbox's evidence about the trust in its scores."""

    claims: dict[StateKind, Claim] = {}
    """Scores that training claimed, by state."""
    signs: dict[StateKind, tuple[Sign, ...]] = {}
    """Signs in the source of each state; empty in runs of this version."""
    candidates: dict[Name, CandidateTally] = {}
    """Candidate processes by phase."""
    scorer_files: ScorerFiles | None = None
    """Files that scoring depends on; null if nothing was scored."""


class MemoryAccount(Model):
    """The kernel's account of a sandbox's memory, read inside at the end."""

    limit_bytes: Bytes
    """Limit on memory."""
    peak_bytes: Bytes | None = None
    """Largest use of memory; null from kernels that do not report it."""
    oom_kills: Count
    """Number of processes that the kernel killed for lack of memory."""


class PhaseEnd(Model):
    """The end of the process of a phase."""

    code: int | None = None
    """Exit code; null if a signal killed the process."""
    signal: int | None = None
    """Number of the signal that killed the process; null if it exited."""
    oom_kills: Count | None = None
    """Number of the sandbox's processes that were killed for lack of memory during the phase; null if unknown."""


class WorkerEvidence(Model):
    """The supervisor's evidence about the ends of phases."""

    phases: dict[Name, PhaseEnd] = {}
    """End of each phase."""
    memory: MemoryAccount | None = None
    """The kernel's account of memory; null if unknown."""


class Hardware(Model):
    """The hardware of a sandbox, as its supervisor read it from the kernel. An empty text, or 0, is unknown."""

    cpu: Annotated[str, Field(max_length=200)] = ""
    """Model name of the first processor."""
    cpus: Annotated[float, Field(ge=0)] = 0.0
    """Number of processors that the job may use; a quota can make it a fraction."""
    gpus: tuple[Name, ...] = ()
    """Model names of the GPUs, one for each device."""
    driver: Annotated[str, Field(max_length=200)] = ""
    """Version of the GPU driver."""
    torch: Annotated[str, Field(max_length=200)] = ""
    """Version of PyTorch in the image."""

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
    """``result.json``, written by the supervisor."""

    contract: ContractVersion = CONTRACT
    status: Literal["ok", "failed"]
    """`ok` or `failed`."""
    failure: Failure | None = None
    """Failure of the job; null if there is none."""
    stop_reason: StopReason | None = None
    """Reason that training ended; null if it never began."""
    stop_point: StopPoint | None = None
    """Point where training was ended; null if it finished by itself."""
    scores: Scores = Scores()
    """Official scores."""
    evaluations: Evaluations = 0
    """Evaluations in training, over all attempts, which the budget limits."""
    evaluations_saved: Evaluations | None = None
    """Evaluations that training asked for and that were known already; null where none are remembered."""
    search_answers: Count | None = None
    """Number of answers of the model to the search of the last attempt, reused ones included. Calls of a program under
    improvement do not count. Null where the search asked for nothing."""
    unusable_answers: dict[Name, Count] | None = None
    """Number of these answers that the search could not use, by kind (`trace_bench.worker.unusable`)."""
    score_evaluations: Evaluations = 0
    """Evaluations by the scorer. No budget counts them."""
    train_seconds: Seconds | None = None
    """Training time over all attempts, as far as it is known; null if it is unknown."""
    llm_calls: Calls = 0
    """Calls to the model, as the sandbox counts them."""
    seconds: dict[Name, Seconds] = {}
    """Wall time of each phase (`build`, `train`, `score`) of the last attempt."""
    warnings: tuple[str, ...] = ()
    """Warnings of all phases."""
    stub_inert: bool = False
    """The stub model got only requests for which it could change nothing."""
    integrity: WorkerIntegrity = WorkerIntegrity()
    """Evidence about the trust in the scores."""
    evidence: WorkerEvidence = WorkerEvidence()
    """Evidence about the ends of phases."""
    hardware: Hardware = Hardware()
    """Hardware of the sandbox."""
