"""Every command that looks at runs, on every kind of run: right numbers or one sentence, an exit code that is
documented, no traceback, and nothing in the folder is changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.analysis.kinds import KINDS, jobs, make, tree
from tests.console import here
from tests.integration.cli import Done
from trace_bench.artifacts.folder_lock import open_folder
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ExitCode
from trace_bench.execution.result import RunResult

NO_RUNS = ("empty", "no_run", "file")
Command = Callable[[str, Path], tuple[str, ...]]
COMMANDS: dict[str, Command] = {
    "show": lambda run, out: ("show", run),
    "results": lambda run, out: ("results", run, "--unprotected", "--json"),
    "compare": lambda run, out: ("compare", run, "--by", "trainer,variant", "--unprotected", "--json"),
    "report": lambda run, out: ("report", run, "-o", str(out / "report.md"), "--no-audit"),
    "audit": lambda run, out: ("audit", run, "--json"),
    "export": lambda run, out: ("export", run, "-o", str(out / "run.tar.gz")),
    "table": lambda run, out: ("export", run, "-o", str(out / "scores.csv")),
    "rebuild": lambda run, out: ("rebuild", run, "--check"),
    "reproduce": lambda run, out: ("reproduce", run, "--score-only", "--job", "ffffffffffff", "-o", str(out / "again")),
}
READ = dict.fromkeys(COMMANDS, 0) | {"reproduce": 2}  # there is no such job
"""Exit codes on a run that nothing is wrong with."""
REFUSED = dict.fromkeys(COMMANDS, 2)
DIFFERS = {"audit": int(ExitCode.CONTRADICTED), "rebuild": 1}
CODES: dict[str, dict[str, int]] = {
    "whole": READ,
    "version_1": {**READ, "rebuild": 1},  # it has no leaderboard.md
    "going_on": {**READ, "export": 2, "rebuild": 2},
    "killed": {**READ, "export": 2, "rebuild": 1},
    "mixed": {**READ, **DIFFERS, "export": 2},
    "planned": {**READ, "export": 2, "rebuild": 1},
    "without_manifest": {**READ, **DIFFERS, "show": 2, "export": 2},
    "damaged_manifest": {**dict.fromkeys(COMMANDS, 1), **DIFFERS, "export": 2, "reproduce": 2},
    "damaged_lock": {**READ, **DIFFERS, "compare": 1, "export": 2},
    "damaged_row": {**dict.fromkeys(COMMANDS, 1), **DIFFERS, "export": 0, "reproduce": 2},
    "damaged_record": {**READ, **DIFFERS},
    "damaged_snapshot": {**READ, **DIFFERS},
    "damaged_index": {**READ, **DIFFERS, "export": 1},
    "damaged_summary": {**READ, **DIFFERS, "export": 2},
    "damaged_journal": {**READ, **DIFFERS, "show": 1},
    "damaged_calls": {**READ, **DIFFERS},
    "damaged_history": {**READ, **DIFFERS},
    "newer": {**dict.fromkeys(COMMANDS, 3), "reproduce": 2},
    **dict.fromkeys(NO_RUNS, REFUSED),
}
ALWAYS = {"whole", "version_1", "going_on", "mixed", "damaged_row"}
"""Kinds that every command meets in every run of the tests; the others under --full."""
Make = Callable[[str], RunLayout]


@pytest.fixture(scope="module")
def kinds(recorded: RunLayout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Runs by kind, each made once; nobody may change one. In the one that is going on a controller is at work."""
    folder, made, locks = tmp_path_factory.mktemp("kinds"), dict[str, RunLayout](), list[int]()

    def of(kind: str) -> RunLayout:
        if kind not in made:
            made[kind] = make(kind, recorded, folder / kind)
            if kind == "going_on":
                locks.append(open_folder(made[kind]))
                fcntl.flock(locks[0], fcntl.LOCK_EX)
        return made[kind]

    yield of
    for lock in locks:
        os.close(lock)


def untouched(run: RunLayout, *arguments: str) -> Done:
    """Run a command that may change nothing."""
    before = tree(run.root)
    done = here(*arguments)
    assert tree(run.root) == before
    return done


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ALWAYS else pytest.mark.slow) for kind in CODES]
)
def test_every_command_on_a_run_that_is(kinds: Make, kind: str, tmp_path: Path) -> None:
    run, codes = kinds(kind), {}
    # A report takes longer than all others together.
    left_out = {"report"} if kind.startswith("damaged") and kind != "damaged_manifest" else set[str]()
    for name, command in COMMANDS.items():
        if name in left_out:
            continue
        done = untouched(run, *command(str(run.root), tmp_path))
        codes[name] = done.returncode
        assert "Traceback" not in done.stdout + done.stderr
        if done.returncode not in (0, ExitCode.CONTRADICTED) and not (name == "rebuild" and done.stdout):
            assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, (name, done)
            assert done.stdout == ""
    assert codes == {name: code for name, code in CODES[kind].items() if name not in left_out}


def test_every_kind_is_looked_at() -> None:
    assert CODES.keys() == {*KINDS, *NO_RUNS, "version_1"}


@pytest.mark.parametrize(
    ("kind", "counted", "aside"),
    [
        ("whole", 18, {}),
        ("going_on", 14, {"pending": 4}),
        ("killed", 14, {"pending": 4}),
        ("planned", 0, {"pending": 18}),
        ("mixed", 13, {"failed": 2, "interrupted": 1, "infrastructure": 1, "skipped": 1}),
        ("version_1", 2, {}),
    ],
)
def test_only_jobs_that_say_something_are_counted(kinds: Make, kind: str, counted: int, aside: dict[str, int]) -> None:
    said = json.loads(untouched(kinds(kind), "results", str(kinds(kind).root), "--unprotected", "--json").stdout)
    found: dict[str, int] = {}
    for group in said["groups"]:
        for word, number in group["aside"].items():
            found[word] = found.get(word, 0) + number
    assert sum(group["counted"] for group in said["groups"]) == counted
    assert {word: number for word, number in found.items() if number} == aside


def test_a_job_that_was_killed_is_cut_off_and_no_failure_of_the_harness(kinds: Make) -> None:
    frame = RunResult.read(kinds("mixed")).jobs()
    assert frame["outcome"].value_counts().to_dict() == {
        "ok": 13, "failed": 2, "interrupted": 1, "infrastructure": 1, "skipped": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["damaged_manifest", "damaged_lock", "damaged_row"])
def test_what_is_damaged_is_named(kinds: Make, kind: str, tmp_path: Path) -> None:
    run = kinds(kind)
    file = {"damaged_manifest": run.manifest, "damaged_lock": run.lock}.get(kind)
    if file is None:
        file = jobs(run)[1].results
    done = here(*COMMANDS["compare"](str(run.root), tmp_path))
    assert str(file) in done.stderr


@pytest.mark.parametrize("kind", ["killed", "damaged_summary"])
def test_tables_that_are_old_or_damaged_can_be_rebuilt(recorded: RunLayout, kind: str, tmp_path: Path) -> None:
    run = make(kind, recorded, tmp_path / "runs")
    rows = {job.results: job.results.read_bytes() for job in run.job_dirs() if job.results.is_file()}
    assert here("rebuild", str(run.root)).returncode == 0
    assert here("rebuild", str(run.root), "--check").returncode == 0
    assert {job.results: job.results.read_bytes() for job in run.job_dirs() if job.results.is_file()} == rows


def test_an_unfinished_run_can_be_exported_and_taken_in_elsewhere(kinds: Make, tmp_path: Path) -> None:
    run, archive = kinds("killed"), str(tmp_path / "run.tar.gz")
    assert untouched(run, "export", str(run.root), "-o", archive, "--unfinished").returncode == 0
    assert here("import", archive, "--runs-dir", str(tmp_path / "runs")).returncode == 0
    taken = RunLayout(tmp_path / "runs" / run.run_id)
    assert RunResult.read(taken).jobs()["job_id"].tolist() == RunResult.read(run).jobs()["job_id"].tolist()
    assert not taken.salt.exists()


def test_a_run_of_the_first_version_scores_the_same_again(kinds: Make, tmp_path: Path) -> None:
    run = kinds("version_1")
    done = untouched(
        run, "reproduce", str(run.root), "--score-only", "--backend", "local", "-o", str(tmp_path / "again")
    )
    assert done.returncode == 0, done
