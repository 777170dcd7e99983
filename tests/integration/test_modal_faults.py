"""What goes wrong with a service far away: controllers that die, sandboxes that vanish, a server that restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, write_config
from tests.integration.faults import Trial, Undisturbed, attempts_of, rows_of, run_undisturbed
from tests.integration.service import Service, service
from tests.modal_server.trouble import LoseReply

pytestmark = pytest.mark.docker
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 1}}


@pytest.fixture(scope="module")
def shared(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(images, tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def there(shared: Service) -> Iterator[Service]:
    yield shared
    shared.server.trouble.clear()
    for sandbox in shared.server.running():
        shared.server.vanish(sandbox.id)


def trial_of(there: Service, folder: Path, **config: Any) -> Trial:
    """One job of some seconds."""
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 1.0}}
    path = write_config(folder, **{"tasks": [task], "trainers": [SEARCH], "seeds": [1], **there.config, **config})
    return Trial(folder, there.home, path, env=there.environment)


def when(holds: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.05)


def training(trial: Trial) -> bool:
    """Whether an evaluation of the search has come to something."""
    files = (trial.folder / "runs").glob("*/jobs/*/checkpoint.jsonl")
    return any(path.read_bytes().count(b"\n") > 1 for path in files)


def made(there: Service) -> int:
    return there.server.calls.count("SandboxCreateV2")


def test_what_a_killed_controller_left_is_taken_up_by_the_next(there: Service, tmp_path: Path) -> None:
    trial, before = trial_of(there, tmp_path), made(there)
    with trial.controller():
        when(lambda: training(trial))
    (sandbox,) = there.server.running()
    trial.finish()
    ((job_id, row),) = rows_of(tmp_path).items()
    assert (row["status"], made(there) - before, there.server.running()) == ("ok", 1, []), sandbox.id
    assert attempts_of(tmp_path, job_id) == [] or len(attempts_of(tmp_path, job_id)) == 1
    trial.stopped()


def test_what_nobody_takes_up_is_cleaned_away(there: Service, tmp_path: Path) -> None:
    trial = trial_of(there, tmp_path)
    with trial.controller():
        when(lambda: training(trial))
        done = cli("clean", "--backend", "modal", home=there.home, **there.environment)
        assert "left alone" in done.stderr and len(there.server.running()) == 1
    done = cli("clean", "--backend", "modal", "--json", home=there.home, **there.environment)
    assert done.returncode == 0 and '"job_id"' in done.stdout, done.stderr
    assert there.server.running() == []


def test_a_sandbox_that_vanishes_is_nobodys_score_and_the_job_is_done_again(there: Service, tmp_path: Path) -> None:
    trial, before = trial_of(there, tmp_path), made(there)
    with trial.controller() as process:
        when(lambda: training(trial))
        (sandbox,) = there.server.running()
        there.server.vanish(sandbox.id)
        said = trial.ended(process)
        assert process.returncode == 0, said
    ((job_id, row),) = rows_of(tmp_path).items()
    assert (row["status"], made(there) - before) == ("ok", 2)
    first = attempts_of(tmp_path, job_id)[0]
    assert first["failure"]["boundary"] == "sandbox", first
    assert there.server.running() == []


@pytest.mark.slow
def test_a_server_that_restarts_costs_nothing(there: Service, tmp_path: Path) -> None:
    trial, before = trial_of(there, tmp_path), made(there)
    with trial.controller() as process:
        when(lambda: training(trial))
        there.server.stop()
        time.sleep(2)
        there.server.start()
        said = trial.ended(process)
        assert process.returncode == 0, said
    (row,) = rows_of(tmp_path).values()
    assert (row["status"], made(there) - before, there.server.running()) == ("ok", 1, [])


@pytest.mark.slow
def test_a_matrix_with_a_create_that_lost_its_answer_and_a_kill_comes_to_the_same(
    there: Service, images: Path, tmp_path: Path
) -> None:
    tasks = [{"id": "internal:slow", "eval_kwargs": {"seconds": 0.2}}, "internal:numeric_param"]
    config = {"tasks": tasks, "seeds": [1, 2], "max_workers": 2}
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = trial_of(there, tmp_path / "here", **config, backend="docker")
    undisturbed: Undisturbed = run_undisturbed(tmp_path / "here", images, here.config)
    before = made(there)
    rule = there.server.trouble.add(rpc="SandboxCreateV2", do=LoseReply("UNAVAILABLE"), times=2)
    trial = trial_of(there, tmp_path / "there", **config)
    with trial.controller():
        when(lambda: len(rows_of(trial.folder)) >= 1)
    trial.finish()
    trial.check(undisturbed)
    assert rule.hits == 2 and there.server.running() == []
    assert made(there) - before <= 4 + 2 + 2, "two tries for each answer that was lost, and what the kill cost"
