"""Trials of agents in the report: what each came to, and what the agent did in those that scores are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trace_bench.artifacts.writers import read_journal
from trace_bench.display.table import Table, number
from trace_bench.errors import HarnessError
from trace_bench.report.content import Report

MOST_TIMELINES = 12
"""Trials whose steps are shown."""
_TEXT = 600
"""Characters of a message, of keystrokes, or of what the terminal showed."""
_HEADER = ("task", "trainer", "seed", "phase", "trial", "reward", "agent s", "trial s", "model calls", "tokens")


class Trial(NamedTuple):
    """A trial: its job in words, the line of ``services.jsonl``, and its number in the job."""

    task: str
    trainer: str
    seed: int
    number: int
    line: Mapping[str, Any]

    @property
    def answer(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.line["answer"]
        return found


def trials(report: Report) -> list[Trial]:
    """All trials of the jobs of `report` that were run, in their order; lines that cannot be read are left out."""
    return list(_trials(report))


def table(found: list[Trial]) -> Table:
    """One row a trial."""
    return Table.of(_HEADER, map(_row, found), _HEADER[4:])


def timelines(found: list[Trial]) -> list[tuple[str, Table]]:
    """A title and the agent's last steps, of each trial that a score is of, the first ones."""
    scored = [trial for trial in found if trial.line["phase"] == "score" and trial.answer.get("steps")]
    return [
        (
            f"{trial.task}, {trial.trainer}, seed {trial.seed}, trial {trial.number}: reward {_rewards(trial.answer)}",
            Table.of(("step", "who", "says", "types or calls", "sees"), map(_step, trial.answer["steps"]), limit=_TEXT),
        )
        for trial in scored[:MOST_TIMELINES]
    ]


def _trials(report: Report) -> Iterator[Trial]:
    for source in report.sources:
        for row in source.rows:
            try:
                lines = read_journal(source.layout.job(row.job_id).services).lines
            except HarnessError:
                continue
            for count, line in enumerate(lines, start=1):
                if line.get("status") == 200 and isinstance(line.get("answer"), dict) and _is_trial(line["answer"]):
                    yield Trial(row.task_id, row.trainer_id, row.seed, count, line)


def _row(trial: Trial) -> tuple[str, ...]:
    tokens = _usage(trial, "prompt_tokens") + _usage(trial, "completion_tokens")
    seconds = _seconds(trial.answer, "agent"), _seconds(trial.answer, "trial")
    spent = number(_usage(trial, "llm_calls")), number(tokens)
    phase = str(trial.line["phase"])[:20]
    return (
        trial.task,
        trial.trainer,
        str(trial.seed),
        phase,
        str(trial.number),
        _rewards(trial.answer),
        *seconds,
        *spent,
    )


def _is_trial(answer: Mapping[str, Any]) -> bool:
    return isinstance(answer.get("rewards"), dict) and isinstance(answer.get("steps"), list)


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    calls = " | ".join(map(str, step.get("calls", ())))
    texts = (step.get("step"), step.get("source"), step.get("message"), calls, step.get("observation"))
    return tuple(str("" if text is None else text).strip() for text in texts)


def _rewards(answer: Mapping[str, Any]) -> str:
    rewards = answer["rewards"]
    if set(rewards) == {"reward"}:
        return number(rewards["reward"])
    return ", ".join(f"{name} {number(value)}" for name, value in rewards.items())


def _seconds(answer: Mapping[str, Any], phase: str) -> str:
    found = answer.get("seconds", {}).get(phase)
    return number(round(found, 1)) if isinstance(found, int | float) else ""


def _usage(trial: Trial, name: str) -> int:
    return int(trial.line.get("usage", {}).get(name, 0))
