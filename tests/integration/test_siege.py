"""Attacks on supervisor, spawner, relay and scorer end in a failure of the one who attacked, or in none.

Nobody survives into the score phase, and the next honest candidate is scored right (``tests/tasks/siege/problem.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine import RUNTIME
from tests.integration.cli import run
from tests.integration.test_hostile import checked

pytestmark = pytest.mark.docker
SMALL = {"memory": "512m" if RUNTIME else "256m", "disk": "16m", "tmp": "16m", "pids": 128}


@pytest.fixture(scope="module")
def besieged(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """By deed, the job that does it, with ``stderr`` of its run and its ``folder``.

    One run does all deeds that collected tests are about, and another those whose training runs into its time limit.
    """
    asked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    params = [each for each in asked if {"deed", "boundary", "kind"} <= each.keys()]
    found = {}
    for limits, late in (({}, False), ({"job_timeout": 5.0}, True)):
        deeds = [each["deed"] for each in params if (each["kind"] == "job_timeout") == late]
        if deeds:
            tasks = [{"id": "internal:siege", "eval_kwargs": {"deed": deed}} for deed in deeds]
            folder = tmp_path_factory.mktemp("siege")
            got = run(folder, images, tasks=tasks, trainers=["NoOp"], sandbox=SMALL, score_timeout=60, max_workers=2,
                      **limits)  # fmt: skip
            found |= {row["eval_kwargs"]["deed"]: checked(got, row) for row in got["jobs"]}
    return found


def slow(deed: str, boundary: str | None, kind: str | None) -> Any:
    """One that others stand for."""
    return pytest.param(deed, boundary, kind, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("deed", "boundary", "kind"),
    [
        slow("report_evaluations", "trainer", "bad_report"),
        ("report_boundary", "trainer", "provider_error"),
        slow("report_reason", "trainer", "bad_report"),
        slow("report_odd_state", "trainer", "bad_report"),
        slow("report_score", "trainer", "bad_report"),
        slow("report_big_event", "trainer", "bad_report"),
        ("report_surrogate", None, None),
        slow("report_nan_state", "trainer", "bad_report"),
        slow("report_train_end", "trainer", "bad_report"),
        slow("report_lists", "trainer", "bad_report"),
        slow("report_flood", "trainer", "bad_report"),
        ("spawner_words", "task", "train_error"),
        slow("spawner_never_read", "trainer", "job_timeout"),
        slow("connections", None, None),
        slow("superscript_length", None, None),
        ("pipelining", None, None),
        slow("endless_chunk", None, None),
        slow("large_bodies", None, None),
        slow("request_flood", None, None),
        slow("deep_requests", None, None),
        slow("crumbs", None, None),
        slow("pipelined_answers", None, None),
        ("unreadable_folder", "trainer", "disk_limit"),
        slow("odd_signal", "trainer", "train_died"),
        ("sleeping_bomb", "trainer", "train_died"),
        slow("deep_tree", None, None),
        ("headless_daemon", None, None),
        slow("headless_stopper", "trainer", "job_timeout"),
        slow("c_odd_signal", None, None),
        ("c_headless", None, None),
        slow("c_stopper", None, None),
        slow("c_visible_stopper", None, None),
        ("c_killer", None, None),
        ("c_surrogate", None, None),
        slow("c_array_error", None, None),
        slow("c_collisions", None, None),
        slow("c_slow_reader", None, None),
        slow("c_memory", None, None),
        ("c_bomb", None, None),
        slow("c_import_main", None, None),
        slow("c_import_many", None, None),
        slow("c_import_more", None, None),
    ],
)
def test_an_attack_hurts_nobody_else(
    besieged: dict[str, dict[str, Any]], deed: str, boundary: str | None, kind: str | None
) -> None:
    got = besieged[deed]
    found = (got["failure_boundary"], got["failure_kind"])
    if RUNTIME and deed == "sleeping_bomb" and found == ("sandbox", "out_of_memory"):
        return  # a trainer's processes may cost gVisor more memory than there is, sooner than the spawner looks
    assert found == (boundary, kind), got["feedback"]
    assert "Traceback" not in got["stderr"]
    # Whatever happened in training, the initial state has its honest score.
    result = json.loads((got["folder"] / "results.json").read_text())
    assert result["score_initial"] == -2.0
