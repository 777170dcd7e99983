"""What may happen to a run on backend modal, and the oracle of `tests.integration.faults` for all of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.cli import cli
from tests.integration.faults import SEARCH, Undisturbed, attempts_of, phase_of, run_of, run_undisturbed
from tests.integration.files import paid_calls
from tests.integration.modal_runs import ModalTrial, Pushed, job_of, modal_config, of_job, running
from tests.integration.test_interruption import wait_for

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer
    from tests.modal_server.service import Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.slow]

FAULTS: tuple[tuple[str, tuple[str, ...], int, int], ...] = (
    ("the answer is lost", ("cut off in train", "cut off in score"), 0, 1),
    ("it is refused as unavailable", ("vanished in train",), 1, 1),
    ("it fails inside the service for long", ("ended by somebody in train",), 2, 2),
    ("it is too much for the moment", ("vanished in score",), 1, 1),
)
"""What each job meets: when its sandbox is created, and later; how many attempts that costs; and how many sandboxes the
server knows of in the end: it forgets those that vanish."""


def phased(folder: Path, **config: Any) -> Path:
    task = {"id": "internal:phased", "eval_kwargs": {"training": 0.2, "scoring": 0.5}}
    seeds = [seed + 1 for seed in range(len(FAULTS))]
    given: dict[str, Any] = {"trainers": [SEARCH], "max_workers": 4, "retries": 2, **config}
    return modal_config(folder, tasks=[task], seeds=seeds, **given)


@pytest.fixture(scope="module")
def undisturbed(pushed: Pushed, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The same jobs, on Docker."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = phased(folder)
    config.write_text(json.dumps({**json.loads(config.read_text()), "backend": "docker"}))
    return run_undisturbed(folder, pushed.home, config)


@pytest.fixture
def trial(pushed: Pushed, quick_server: ModalServer, tmp_path: Path) -> ModalTrial:
    return ModalTrial(tmp_path, pushed.home, phased(tmp_path), server=quick_server)


def at_creation(server: ModalServer, job_id: str, fault: str) -> None:
    from tests.modal_server.trouble import Action, LoseReply, Refuse

    rules: dict[str, tuple[Action, int]] = {
        "the answer is lost": (LoseReply(), 1),
        "it is refused as unavailable": (Refuse("UNAVAILABLE"), 2),
        "it fails inside the service for long": (Refuse("INTERNAL"), 5),  # more often than the client asks
        "it is too much for the moment": (Refuse("RESOURCE_EXHAUSTED"), 2),
    }
    do, times = rules[fault]
    server.trouble.add(rpc="SandboxCreateV2", do=do, times=times, when=of_job(job_id))


def meet(trial: ModalTrial, server: ModalServer, by_job: dict[str, tuple[str, ...]], alive: Callable[[], bool]) -> None:
    """Let each job meet its faults, one after the other, each in the phase that it is for."""
    deeds: dict[str, Callable[[str], None]] = {
        "vanished": server.vanish,
        "ended by somebody": server.terminate,
        "cut off": server.cut,
    }
    left = {job_id: list(faults) for job_id, faults in by_job.items()}
    under_way: list[Any] = []

    def all_met() -> bool:
        for job_id, faults in left.items():
            deed, _, phase = faults[0].rpartition(" in ") if faults else ("", "", "none")
            if phase_of(trial.folder, job_id) == phase and (found := running(server, job_id)) is not None:
                under_way.append(hands.submit(deeds[deed], found.id))
                del faults[0]
        return not any(left.values()) or not alive()

    with ThreadPoolExecutor(4) as hands:
        wait_for(all_met, 180)
    for deed in under_way:
        deed.result()
    assert not any(left.values()), "the run ended before all faults were met"


def begun(folder: Path) -> bool:
    return (folder / "runs").is_dir() and any((folder / "runs").iterdir())


def made(server: ModalServer) -> Counter[str]:
    """Sandboxes that were made, by job."""
    return Counter(map(job_of, server.sandboxes()))


def at_work(trial: ModalTrial, server: ModalServer, calls: int = 1) -> list[Sandbox]:
    """The sandboxes that run, once all jobs have a few calls behind them."""
    paid = Counter(job for job, _, _ in paid_calls(run_of(trial.folder))) if begun(trial.folder) else Counter()
    found = server.running()
    return found if len(found) == len(FAULTS) and all(paid[job_of(sandbox)] >= calls for sandbox in found) else []


def test_whatever_happens_to_a_sandbox_costs_its_job_an_attempt_at_most(
    undisturbed: Undisturbed, trial: ModalTrial, quick_server: ModalServer
) -> None:
    by_job = dict(zip(undisturbed.rows, FAULTS, strict=True))
    for job_id, (at_first, *_) in by_job.items():
        at_creation(quick_server, job_id, at_first)
    with trial.controller() as process:
        later = {job_id: faults for job_id, (_, faults, *_) in by_job.items()}
        meet(trial, quick_server, later, lambda: process.poll() is None)
        said = trial.ended(process)
        assert process.returncode == 0, said
    for job_id, (at_first, faults, costs, known) in by_job.items():
        *first, last = attempts_of(trial.folder, job_id)
        assert last["status"] == "ok", faults
        assert [attempt["failure"]["boundary"] for attempt in first] == ["sandbox"] * costs, (at_first, faults)
        assert made(quick_server)[job_id] == known, (at_first, faults)
    trial.check(undisturbed)


def test_a_controller_that_is_killed_is_followed_by_one_that_adopts_its_sandboxes(
    undisturbed: Undisturbed, trial: ModalTrial, quick_server: ModalServer
) -> None:
    with trial.controller() as process:
        ids = {sandbox.id for sandbox in wait_for(lambda: at_work(trial, quick_server))}
        process.kill()
    paid = paid_calls(run_of(trial.folder))
    assert len(ids) == 4 and paid and not trial.is_recorded
    trial.finish()
    assert {sandbox.id for sandbox in quick_server.sandboxes()} == ids, "no sandbox was made anew"
    for job_id in undisturbed.rows:
        (attempt,) = [a for a in attempts_of(trial.folder, job_id) if a["status"] == "ok"]
        assert attempt["sandbox_id"] in ids
    trial.check(undisturbed)


@pytest.mark.slow
def test_a_service_that_goes_and_comes_back_with_its_sandboxes(
    undisturbed: Undisturbed, trial: ModalTrial, quick_server: ModalServer
) -> None:
    with trial.controller() as process:
        wait_for(lambda: at_work(trial, quick_server))
        quick_server.stop()
        time.sleep(4)
        assert process.poll() is None, "it waits"
        quick_server.start()
        said = trial.ended(process)
        assert process.returncode == 0, said
    trial.check(undisturbed)


def test_clean_ends_what_a_dead_controller_left(trial: ModalTrial, quick_server: ModalServer) -> None:
    trial.config.write_text(json.dumps({**json.loads(trial.config.read_text()), "modal": {
        "image_registry": json.loads(trial.config.read_text())["modal"]["image_registry"]}}))  # fmt: skip
    with trial.controller() as process:
        wait_for(quick_server.running)
        process.kill()
    run_id = run_of(trial.folder).name
    done = cli("clean", "--backend", "modal", "--run", run_id, home=trial.home, cwd=trial.folder)
    assert done.returncode == 0 and "removed trace-bench-" in done.stdout, done.stderr
    assert quick_server.running() == []


@pytest.mark.slow
def test_what_nobody_comes_back_for_ends_by_itself(pushed: Pushed, quick_server: ModalServer, tmp_path: Path) -> None:
    """The supervisor gives up after its lease, and the sandbox after as long as it would wait to be collected."""
    config = phased(tmp_path, modal={"idle_timeout": 30})
    trial = ModalTrial(tmp_path, pushed.home, config, server=quick_server)
    with trial.controller() as process:
        wait_for(lambda: at_work(trial, quick_server))
        process.kill()
    wait_for(lambda: quick_server.running() == [], 180)
