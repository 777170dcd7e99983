"""Ways of tampering that an audit cannot see, as every file that could tell was changed with the others. What finds
them is in docs/how-to/audit.md: the digest, or running it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.audit.forged_jobs import better_claims, better_examples, gaps_anew
from tests.audit.forger import Forger
from trace_bench.artifacts.layout import RunLayout

Change = Callable[[Forger], RunLayout | None]
"""Returns the run, if it is elsewhere now."""


@dataclass(frozen=True)
class Untraceable:
    """A forgery, and what finds it, but for the digest."""

    change: Change
    found_by: str

    @property
    def name(self) -> str:
        return self.change.__name__


UNTRACEABLE: list[Untraceable] = []


def found_by(what: str) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        UNTRACEABLE.append(Untraceable(change, what))
        return change

    return add


def _in_events(forger: Forger, split: str, mean: float) -> None:
    with forger.lines(forger.good.events) as events:
        for event in events:
            if event["event"] == "score" and event["state"] in ("best", "final"):
                event[split] = mean


@found_by("reproduce --score-only")
def a_better_score_in_each_file_that_has_it(forger: Forger) -> None:
    mean = better_examples(forger, 1.0)
    better_claims(forger, mean)
    _in_events(forger, "validate", mean)
    with forger.json(forger.states) as states:
        best = states["best"]
    with forger.lines(forger.good.state_history) as lines:
        for line in lines:
            if line["parameters"] == best:
                line["score"] = line["metrics"]["score"] = mean
        for number, line in enumerate(lines, start=1):
            line["best_score"] = max(earlier["score"] for earlier in lines[:number])
    forger.front()
    forger.tables()


@found_by("reproduce --score-only")
def a_better_score_on_held_out_data_in_each_file_that_has_it(forger: Forger) -> None:
    """Training never saw it, so that no history can tell."""
    _in_events(forger, "test", better_examples(forger, 1.0, split="test"))
    forger.tables()


@found_by("evaluate, with the reference program and the seed")
def a_worse_reference_program(forger: Forger) -> None:
    with forger.json(forger.run.yardsticks) as found:
        for yardstick in found["yardsticks"]:
            for scores in yardstick["reference"].values():
                scores |= {name: 0.99 * score for name, score in scores.items()}
    gaps_anew(forger)


@found_by("reproduce")
def another_answer_of_the_model(forger: Forger) -> None:
    """What it was made into is in the history; whether it follows from the answer, only running it can tell."""
    with forger.lines(forger.good.cassette) as calls:
        text = calls[0]["response"]["choices"][0]["message"]["content"]
        calls[0]["response"]["choices"][0]["message"]["content"] = text.replace("heaviest", "lightest")


@found_by("nothing: no number follows from it")
def other_words_of_the_guide(forger: Forger) -> None:
    with forger.json(forger.result) as result:
        for example in result["scores"]["best"]["examples"]:
            example["feedback"] = "Perfect."
    forger.row(feedback="Perfect.")
    forger.tables()


@found_by("nothing: clocks are not repeated")
def a_faster_job(forger: Forger) -> None:
    """All its durations, and so also what a score costs in seconds."""
    with forger.json(forger.result) as result:
        result["train_seconds"] /= 2
    with forger.json(forger.good.results) as row:
        row["train_seconds"] /= 2
    forger.tables()


@found_by("nothing: what a process printed is not repeated")
def other_output_of_a_job(forger: Forger) -> None:
    forger.good.stdout.write_text("all is well\n")


@found_by("nothing: a machine is not asked twice")
def another_machine(forger: Forger) -> None:
    for job in forger.run.job_dirs():
        forger.meta(job, cpu_model="Another CPU")
    with forger.json(forger.run.env) as env:
        env["cpu_model"] = "Another CPU"


@found_by("whoever has the repository")
def another_commit(forger: Forger) -> None:
    with forger.json(forger.run.git) as git:
        git |= {"commit": "0" * 40, "branch": "main", "dirty": False}


@found_by("nothing: nobody knows what else was run")
def a_run_under_another_id_altogether(forger: Forger) -> RunLayout:
    """As if it had been the only one, or the first one."""
    old, new = forger.run.run_id, "20250102-030405-tampered"
    for path in forger.run.root.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".jsonl", ".yaml", ".csv"):
            path.write_text(path.read_text().replace(old, new))
    moved = RunLayout(forger.run.root.rename(forger.run.root.with_name(new)))
    Forger.of(moved).tables()
    return moved
