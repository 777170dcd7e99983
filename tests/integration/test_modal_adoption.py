"""A controller on Modal that dies is followed by one that adopts its sandbox, which is a tree of processes here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli import TASKS, cli, result_of, start
from tests.integration.files import paid_calls
from tests.integration.modal_runs import REGISTRY, VARIABLES, found_by_controllers, modal_config
from tests.integration.test_interruption import wait_for
from trace_bench.images.lock import ImagePin, record

if TYPE_CHECKING:
    from pytest import MonkeyPatch

pytest.importorskip("modal")
DIGEST = f"{REGISTRY}/trace-bench/core@sha256:{'1' * 64}"
PIN = ImagePin("core", DIGEST, "1" * 64, "sha256:" + "1" * 64, "base", "2026-01-01T00:00:00Z", DIGEST)


def test_a_killed_controller_is_followed_by_one_that_adopts_its_sandbox(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    from tests.modal_server.server import ModalServer

    home = tmp_path / "home"
    home.mkdir()
    record(PIN, home=home)
    task = {"id": "internal:phased", "eval_kwargs": {"training": 1.0, "scoring": 0.5}}
    search = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
    config = modal_config(tmp_path, tasks=[task], trainers=[search], seeds=[1], retries=0)
    command = ("run", "--config", str(config), "--root", str(TASKS), "--json", "--accept-drift")
    with ModalServer(variables=VARIABLES) as server:
        if not server.private:
            pytest.skip("needs root: sandboxes of processes are not kept apart here")
        found_by_controllers(server, monkeypatch)
        process = start(*command, home=home, cwd=tmp_path)
        try:
            wait_for(lambda: [call for run in tmp_path.glob("runs/*") for call in paid_calls(run)])
        finally:
            process.kill()
            process.communicate()
        (sandbox,) = server.running()
        done = cli(*command, home=home, cwd=tmp_path)
        (row,) = result_of(done.stdout)["jobs"]
        assert (done.returncode, row["status"]) == (0, "ok"), done.stderr
        assert [one.id for one in server.sandboxes()] == [sandbox.id] and server.running() == []
