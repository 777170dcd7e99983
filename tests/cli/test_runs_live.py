"""``logs -f``, ``ps``, ``cancel`` and ``clean`` beside a controller that is at work, on the local backend."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import RUN, job_id, make_run, row
from tests.cli.conftest import refused
from tests.integration.cli import TASKS, cli, start, write_config
from trace_bench.artifacts.folder_lock import has_controller, lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.follow import GrowingFile
from trace_bench.cli.sandboxes import controller_is_alive
from trace_bench.sandbox.base import SandboxRequest
from trace_bench.sandbox.labels import job_labels
from trace_bench.sandbox.local import LocalBackend
from trace_bench.sandbox.uids import UidBlocks


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes and locks of this test alone."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("TRACE_BENCH_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("TRACE_BENCH_STATE_DIR", str(tmp_path / "sandboxes"))


def wait_for(condition: Callable[[], Any], timeout: float = 60) -> Any:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    path = folder / "runs" / "mine" / "events.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [found for line in lines if line.endswith("}") and (found := json.loads(line))["event"] == kind]


@contextlib.contextmanager
def controller(
    folder: Path, seconds: float, seeds: int = 1, wait: Callable[[], Any] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A run ``mine`` whose first job is in the middle of its training (or further than `wait`); one evaluation takes
    `seconds`."""
    begun = wait or (lambda: has_calls(folder))
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": seconds}}
    search = {"id": "PrioritySearch", "params": {"num_steps": 100, "num_candidates": 1, "num_proposals": 1}}
    config = write_config(
        folder, tasks=[task], trainers=[search], seeds=list(range(seeds)), run_id="mine", max_workers=1
    )
    process = start("run", "--config", str(config), "--backend", "local", "--root", str(TASKS), home=folder / "home")
    try:
        wait_for(lambda: process.poll() is not None or (events(folder, "job.start") and begun()))
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()
        for sandbox in LocalBackend().find({}):
            sandbox.remove()


def has_calls(folder: Path) -> bool:
    return any(path.stat().st_size for path in (folder / "runs" / "mine" / "jobs").glob("*/llm.jsonl"))


def the_row(folder: Path, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / "mine" / "jobs" / job / "results.json").read_text())
    return found


# -------------------------------------------------------------------------------------------------------- cancel


def test_cancel_ends_a_run_in_order_and_waits_for_it(tmp_path: Path) -> None:
    with controller(tmp_path, 0.2, seeds=2) as process:
        (first,) = events(tmp_path, "job.start")
        done = cli("cancel", "mine", "--json", cwd=tmp_path, timeout=60)
        assert (done.returncode, json.loads(done.stdout)["over"]) == (0, True), done.stderr
        assert not has_controller(RunLayout(tmp_path / "runs" / "mine"))
        process.communicate(timeout=10)
        assert process.returncode == 130
        ended = the_row(tmp_path, first["job_id"])
        assert ended["stop_reason"] == "interrupted" and ended["score_best"] is not None
        assert len(events(tmp_path, "job.start")) == 1, "the second job was not started"
        assert LocalBackend().find({}) == []
        assert "unfinished" in cli("ls", cwd=tmp_path).stdout


def test_cancel_of_a_job_leaves_the_others(tmp_path: Path) -> None:
    with controller(tmp_path, 0.2, seeds=2):
        (first,) = events(tmp_path, "job.start")
        done = cli("cancel", "mine", first["job_id"][:8], cwd=tmp_path, timeout=60)
        assert done.returncode == 0 and f"cancelled {first['job_id']} of run mine" in done.stdout, done.stderr
        assert the_row(tmp_path, first["job_id"])["stop_reason"] == "interrupted"
        wait_for(lambda: len(events(tmp_path, "job.start")) == 2)
        assert has_controller(RunLayout(tmp_path / "runs" / "mine")), "the run goes on"


@pytest.mark.slow
def test_a_kill_of_a_job_leaves_the_others(tmp_path: Path) -> None:
    with controller(tmp_path, 30.0, seeds=2, wait=lambda: LocalBackend().find({})) as process:
        (first,) = events(tmp_path, "job.start")
        assert cli("cancel", "mine", first["job_id"], "--kill", cwd=tmp_path, timeout=60).returncode == 0
        wait_for(lambda: process.poll() is not None or len(events(tmp_path, "job.start")) == 2)
        assert process.poll() is None, process.communicate()


@pytest.mark.slow
def test_cancel_without_waiting_returns_at_once(tmp_path: Path) -> None:
    with controller(tmp_path, 0.2) as process:
        done = cli("cancel", "mine", "--no-wait", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "asked to cancel run mine\n")
        process.communicate(timeout=60)
        assert process.returncode == 130


def test_waiting_for_a_cancelled_run_can_be_interrupted(tmp_path: Path) -> None:
    """The controller is this test, which obeys nobody."""
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)])
    with lock_run(run):
        process = start("cancel", "mine", home=tmp_path / "home", cwd=tmp_path)
        wait_for(run.cancel.exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err and out == ""
    assert run.cancel.exists(), "the wish stays"


def test_a_job_that_has_ended_cannot_be_cancelled(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)])
    with lock_run(run):
        done = cli("cancel", "mine", job_id(0), cwd=tmp_path)
        assert done.returncode == 2 and f"no job to cancel: {job_id(0)} is ok" in done.stderr
        assert not run.cancel.exists()
        done = cli("cancel", "mine", job_id(0), job_id(1), "--no-wait", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["jobs"] == list(json.loads(run.cancel.read_text())["jobs"]) == [job_id(1)]


@pytest.mark.parametrize(
    ("rows", "started", "said"),
    [
        ([row(0), row(1)], "2026-01-02T03:04:05Z", "is not running: it is finished"),
        (
            [row(0)],
            "2026-01-02T03:04:05Z",
            "is not running: it is unfinished, and no sandbox is left; trace-bench run --config FILE --run-id",
        ),
        ([], None, "is not running: it is planned"),
    ],
)
def test_what_does_not_run_cannot_be_cancelled(tmp_path: Path, rows: Any, started: str | None, said: str) -> None:
    run = make_run(tmp_path / "runs", "mine", planned=2, rows=rows, started=started)
    assert said in refused("cancel", "mine", cwd=tmp_path)
    assert not run.cancel.exists()


# --------------------------------------------------------------------------------------- sandboxes without a controller


def sandbox(run_id: str, number: int) -> Any:
    """A sandbox whose controller is dead."""
    return LocalBackend().create(
        SandboxRequest(
            name=f"{run_id}-{number}",
            image="",
            command=("true",),
            labels=job_labels(run_id, job_id(number), 60),
            uid_base=UidBlocks().base + 16 * number,
        )
    )


def names() -> list[str]:
    return [found.name for found in LocalBackend().find({})]


def test_cancel_without_a_controller_removes_its_sandboxes_and_no_others(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "mine", rows=[row(0)])
    for run_id, number in (("mine", 1), ("mine", 2), ("other", 3)):
        sandbox(run_id, number)
    done = cli("cancel", "mine", job_id(1), cwd=tmp_path)
    assert done.returncode == 0 and "is lost" in done.stderr and names() == ["mine-2", "other-3"]
    done = cli("cancel", "mine", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"run_id": "mine", "jobs": [], "over": True, "removed": ["mine-2"]}
    assert names() == ["other-3"]
    assert "no sandbox is left" in refused("cancel", "mine", cwd=tmp_path)


def test_cancel_leaves_a_sandbox_whose_controller_lives(tmp_path: Path) -> None:
    """As where the run's folder cannot be locked."""
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)])
    made = sandbox("mine", 1)
    with UidBlocks().adopt(UidBlocks().base + 16):
        assert controller_is_alive(LocalBackend(), made)
        done = cli("cancel", "mine", cwd=tmp_path)
        assert done.returncode == 0 and "asked to cancel" in done.stdout and names() == ["mine-1"]
        assert run.cancel.exists()
    assert not controller_is_alive(LocalBackend(), made)


def test_ps_says_whose_controller_lives(tmp_path: Path) -> None:
    for number in (1, 2):
        sandbox("mine", number)
    with UidBlocks().adopt(UidBlocks().base + 16):
        done = cli("ps", "--backend", "local", "--json")
        found = json.loads(done.stdout)
        text = cli("ps", "--backend", "local").stdout
    assert [(row["run_id"], row["job_id"], row["controller"], row["state"]) for row in found] == [
        ("mine", job_id(1), "alive", "created"),
        ("mine", job_id(2), "dead", "created"),
    ]
    header, first, _ = (line.split() for line in text.splitlines())
    assert header == ["run", "job", "host", "state", "controller", "age", "cost", "name"] and first[-1] == "mine-1"
    assert all(0 <= row["age_seconds"] < 60 and (row["host"], row["cost_usd"]) == (None, None) for row in found)


def test_ps_of_nothing_and_of_no_engine(tmp_path: Path) -> None:
    done = cli("ps", "--backend", "local")
    assert (done.returncode, done.stdout) == (0, "") and "no sandboxes" in done.stderr
    assert json.loads(cli("ps", "--backend", "local", "--json").stdout) == []
    said = refused("ps", code=3, DOCKER_HOST="unix:///nonexistent/trace-bench.sock")
    assert "nonexistent" in said
    assert "no backend is called 'nope'" in refused("ps", "--backend", "nope")


@pytest.mark.parametrize("text", ["mine", "runs/mine", "./runs/mine/", "min", "latest"])
def test_clean_takes_a_run_by_id_folder_beginning_and_latest(tmp_path: Path, text: str) -> None:
    make_run(tmp_path / "runs", "mine", rows=[row(0)])
    for run_id, number in (("mine", 1), ("other", 3)):
        sandbox(run_id, number)
    done = cli("clean", "--run", text, "--backend", "local", cwd=tmp_path)
    assert (done.returncode, done.stdout, names()) == (0, "removed mine-1\n", ["other-3"]), done.stderr


def test_clean_knows_a_run_whose_folder_is_gone(tmp_path: Path) -> None:
    """Also one that another run's id begins with."""
    make_run(tmp_path / "runs", "gone-2", rows=[row(0)])
    for run_id, number in (("gone", 1), ("gone-2", 3)):
        sandbox(run_id, number)
    assert cli("clean", "--run", "gone", "--backend", "local", cwd=tmp_path).stdout == "removed gone-1\n"
    assert names() == ["gone-2-3"]
    assert "nothing to clean" in cli("clean", "--run", "gone-2", "--backend", "local", "--expired", cwd=tmp_path).stderr
    said = refused("clean", "--run", "never", "--backend", "local", cwd=tmp_path)
    assert said == "error: no sandbox belongs to a run 'never', and there is no run 'never' in runs; there are gone-2"


def test_clean_expired_keeps_what_has_not_ended(tmp_path: Path) -> None:
    ended, waiting = sandbox("mine", 1), sandbox("mine", 2)
    (tmp_path / "sandboxes" / "mine-1" / "exit.json").write_text('{"code": 0, "error": ""}')
    assert (ended.status(), waiting.status()) == ("exited", "created")
    done = cli("clean", "--expired", "--backend", "local")
    assert done.stdout == "removed mine-1\n" and "mine-2 has not ended" in done.stderr
    assert names() == ["mine-2"]
    done = cli("clean", "--backend", "local", "--json")
    assert json.loads(done.stdout) == [{"run_id": "mine", "job_id": job_id(2), "name": "mine-2"}]


def test_one_that_resists_does_not_keep_the_others(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        sandbox("mine", number)
    state = tmp_path / "sandboxes" / "mine-2" / "state.json"
    content = json.loads(state.read_text())
    content["labels"]["trace-bench.uid-base"] = "x\x1b"
    state.write_text(json.dumps(content))
    done = cli("clean", "--backend", "local")
    assert done.returncode == 3 and done.stdout == "removed mine-1\nremoved mine-3\n"
    assert "1 of 3 sandboxes could not be removed" in done.stderr and "mine-2: its label" in done.stderr
    assert "\x1b" not in done.stderr and names() == ["mine-2"]


# ---------------------------------------------------------------------------------------------------------- logs


def test_following_a_run_ends_with_its_controller(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)], ended=False)
    with lock_run(run):
        process = start("logs", "mine", "--follow", "-n", "1", home=tmp_path, cwd=tmp_path)
        assert process.stdout is not None
        assert "job.end" in process.stdout.readline()
        with run.events.open("a") as file:
            file.write('{"t":"2026-01-02T03:04:06Z","event":"job.retry","attempt":2}\n{"t":"2026-01-02T03:04:07Z",')
            file.flush()
            assert process.stdout.readline() == "2026-01-02T03:04:06Z  job.retry    attempt=2\n"
            file.write('"event":"run.end"}\n')
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "2026-01-02T03:04:07Z  run.end\n", "")


def test_following_a_job_survives_the_replacement_of_its_output(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "mine", planned=2, rows=[row(0)], ended=False)
    job = run.job(job_id(1)).make()

    def journal(event: str) -> None:
        with run.events.open("a") as file:
            file.write(json.dumps({"t": "2026-01-02T03:04:06Z", "event": event, "job_id": job_id(1)}) + "\n")

    with lock_run(run):
        process = start("logs", "mine", job_id(1), "-f", home=tmp_path, cwd=tmp_path)
        assert process.stdout is not None and process.stderr is not None
        assert "no output yet" in process.stderr.readline(), "it waits for a job whose turn has not come"
        journal("job.start")
        job.stdout.write_bytes(b"one\ntwo\n")
        assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        collected = job.root / "collected"
        collected.write_bytes(b"one\ntwo\nthree\n")
        collected.replace(job.stdout)
        assert process.stdout.readline() == "three\n"
        job.stdout.write_bytes(b"new\n")
        assert process.stdout.readline() == "new\n"
        assert "has become shorter" in process.stderr.readline()
        with job.stdout.open("ab") as file:
            file.write(b"last")
        journal("job.end")
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "last\n", "")


def test_ctrl_c_ends_following_with_130_and_no_traceback(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)], ended=False)
    with lock_run(run):
        process = start("logs", "mine", "-f", home=tmp_path, cwd=tmp_path)
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "error: interrupted\n")


def test_following_ends_when_nobody_reads(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "mine", rows=[row(0)], ended=False)
    with lock_run(run):
        process = start("logs", "mine", "-f", home=tmp_path, cwd=tmp_path)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == ""
        process.stderr.close()


def test_a_running_jobs_output_can_be_followed_from_a_real_controller(tmp_path: Path) -> None:
    with controller(tmp_path, 0.05) as process:
        (first,) = events(tmp_path, "job.start")
        follower = start("logs", "mine", first["job_id"], "--events", "-f", home=tmp_path, cwd=tmp_path)
        assert cli("cancel", "mine", cwd=tmp_path, timeout=60).returncode == 0
        out, err = follower.communicate(timeout=30)
        process.communicate(timeout=30)
    assert follower.returncode == 0 and "phase.end" in out, err


def test_a_growing_file_gives_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = GrowingFile(path)
    assert list(file.lines()) == []
    path.write_bytes(b"a\nb")
    assert list(file.lines()) == [b"a"]
    with path.open("ab") as more:
        more.write(b"c\n\nd")
    assert list(file.lines()) == [b"bc", b""]
    assert (file.rest(), file.rest(), file.began_again) == (b"d", b"", 0)
    path.write_bytes(b"x\n")
    assert list(file.lines()) == [b"x"] and file.began_again == 1
    path.unlink()
    assert list(file.lines()) == []


def test_the_run_ids_of_a_renamed_folder_still_find_its_sandboxes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", RUN, rows=[row(0)])
    run.root.rename(tmp_path / "copy")
    sandbox(RUN, 1)
    assert cli("cancel", "./copy", cwd=tmp_path).returncode == 0
    assert names() == []
