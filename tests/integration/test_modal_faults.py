"""What may happen to a run on backend modal, and the oracle of `tests.integration.faults` for all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.faults import SEARCH, Undisturbed, attempts_of, finished, phase_of, run_of, run_undisturbed
from tests.integration.modal_runs import ModalTrial, Pushed, job_of, modal_config, of_job, running
from tests.integration.test_interruption import wait_for

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

pytestmark = pytest.mark.docker

AT_CREATION = {
    "the answer to its creation was lost": 0,
    "its creation was refused as unavailable": 0,
    "its creation failed inside the service": 0,
    "its creation was too much for the moment": 0,
}
LATER = {
    "vanished in train": 1,
    "ended by somebody in train": 1,
    "cut off in train": 0,
    "vanished in score": 1,
    "cut off in score": 0,
}
FAULTS = {**AT_CREATION, **LATER}
"""What happens to a job, and how many attempts that costs."""


def phased(folder: Path, jobs: int, **config: Any) -> Path:
    task = {"id": "internal:phased", "eval_kwargs": {"training": 0.2, "scoring": 0.6}}
    return modal_config(
        folder,
        tasks=[task],
        seeds=list(range(1, jobs + 1)),
        **{"trainers": [SEARCH], "max_workers": 4, "retries": 2, **config},
    )


@pytest.fixture(scope="module")
def undisturbed(pushed: Pushed, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The same jobs, on Docker."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = json.loads(phased(folder, len(FAULTS)).read_text())
    (folder / "config.json").write_text(json.dumps({**config, "backend": "docker"}))
    return run_undisturbed(folder, pushed.home, folder / "config.json")


def at_creation(server: ModalServer, job_id: str, fault: str) -> None:
    from tests.modal_server.trouble import Action, LoseReply, Refuse

    rules: dict[str, tuple[Action, int]] = {
        "the answer to its creation was lost": (LoseReply(), 1),
        "its creation was refused as unavailable": (Refuse("UNAVAILABLE"), 2),
        "its creation failed inside the service": (Refuse("INTERNAL"), 2),
        "its creation was too much for the moment": (Refuse("RESOURCE_EXHAUSTED"), 2),
    }
    do, times = rules[fault]
    server.trouble.add(rpc="SandboxCreateV2", do=do, times=times, when=of_job(job_id))


def meet(trial: ModalTrial, server: ModalServer, by_job: dict[str, str], alive: Callable[[], bool]) -> None:
    """Let each job meet its fault once, in the phase that it is for."""
    deeds: dict[str, Callable[[str], None]] = {
        "vanished": server.vanish,
        "ended by somebody": server.terminate,
        "cut off": server.cut,
    }
    left = dict(by_job)

    def all_met() -> bool:
        for job_id, fault in list(left.items()):
            deed, _, phase = fault.rpartition(" in ")
            if phase_of(trial.folder, job_id) == phase and (found := running(server, job_id)) is not None:
                under_way.append(hands.submit(deeds[deed], found.id))
                del left[job_id]
        return not left or not alive()

    under_way: list[Any] = []
    with ThreadPoolExecutor(4) as hands:
        wait_for(all_met, 180)
    for deed in under_way:
        deed.result()
    assert not left, "the run ended before all faults were met"


def test_whatever_happens_to_a_sandbox_costs_its_job_an_attempt_at_most(
    undisturbed: Undisturbed, pushed: Pushed, modal_server: ModalServer, tmp_path: Path
) -> None:
    by_job = dict(zip(undisturbed.rows, FAULTS, strict=True))
    for job_id, fault in by_job.items():
        if fault in AT_CREATION:
            at_creation(modal_server, job_id, fault)
    trial = ModalTrial(tmp_path, pushed.home, phased(tmp_path, len(FAULTS)), server=modal_server)
    with trial.controller() as process:
        wait_for(lambda: (tmp_path / "runs").is_dir() and any((tmp_path / "runs").iterdir()))
        later = {job_id: fault for job_id, fault in by_job.items() if fault in LATER}
        meet(trial, modal_server, later, lambda: process.poll() is None)
        said = trial.ended(process)
        assert process.returncode == 0, said
    costs, boundaries = {}, set()
    for job_id, fault in by_job.items():
        *first, last = attempts_of(tmp_path, job_id)
        assert last["status"] == "ok", fault
        costs[fault] = len(first)
        boundaries |= {attempt["failure"]["boundary"] for attempt in first}
    assert costs == FAULTS and boundaries == {"sandbox"}
    made = [job_of(sandbox) for sandbox in modal_server.sandboxes()]
    vanished = {fault for fault in FAULTS if "vanished" in fault}  # of which the server knows nothing
    assert {fault: made.count(job_id) for job_id, fault in by_job.items()} == {
        fault: 1 + costs[fault] - (fault in vanished) for fault in FAULTS
    }
    trial.check(undisturbed)
