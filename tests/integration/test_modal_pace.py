"""As many jobs at once as a service allows, whose sandboxes are created no faster than it allows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.cli import run
from tests.integration.modal_runs import VARIABLES, Pushed, found_by_controllers, on_modal, served

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def creations(server: ModalServer) -> list[float]:
    return [call.at for call in server.calls("SandboxCreateV2")]


def within_a_second(times: list[float]) -> int:
    """The most of them within any second."""
    return max(sum(at <= other < at + 1.0 for other in times) for at in times)


@pytest.mark.parametrize(("jobs", "limit"), [(6, 2), pytest.param(20, 5, marks=pytest.mark.slow)])
def test_jobs_wait_for_their_turn_instead_of_being_refused(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jobs: int, limit: int
) -> None:
    """The image takes its time too, for which all of them wait."""
    from tests.modal_server.trouble import Delay, Starts

    starts = Starts(per_second=limit)
    with served(pushed, "process", variables=VARIABLES, starts=starts) as server:
        found_by_controllers(server, monkeypatch)
        server.trouble.add(rpc="ImageJoinStreaming", do=Delay(3.0))
        result = run(
            tmp_path,
            pushed.home,
            tasks=[{"id": "internal:slow", "eval_kwargs": {"seconds": 0}}],
            trainers=["NoOp"],
            seeds=list(range(1, jobs + 1)),
            max_workers=jobs,
            retries=0,
            **on_modal(creations_per_second=limit),
        )
        assert [row["status"] for row in result["jobs"]] == ["ok"] * jobs, result["stderr"]
        times = creations(server)
        assert len(times) - starts.refused == jobs
        assert within_a_second(times) <= 1.5 * limit + 1, "those that waited for the image did not come at once"
        assert starts.refused <= jobs // 3, "a machine that is busy sends some of them late"


def test_refusals_slow_all_down_and_cost_no_attempt(pushed: Pushed, quick_server: ModalServer, tmp_path: Path) -> None:
    from tests.modal_server.trouble import Refuse

    rule = quick_server.trouble.add(rpc="SandboxCreateV2", do=Refuse("RESOURCE_EXHAUSTED"), after=1, times=2)
    config = on_modal(creations_per_second=2)
    result = run(
        tmp_path,
        pushed.home,
        tasks=[{"id": "internal:slow", "eval_kwargs": {"seconds": 0}}],
        trainers=["NoOp"],
        seeds=[1, 2, 3],
        max_workers=3,
        retries=0,
        **config,
    )
    assert [row["status"] for row in result["jobs"]] == ["ok"] * 3, result["stderr"]
    times = creations(quick_server)
    assert rule.hits == 2 and len(times) == 5
    assert max(b - a for a, b in pairwise(times)) > 0.7, "after the second refusal, nobody asked for longer"
