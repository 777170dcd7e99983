"""Attacks on supervisor, spawner, relay and scorer end in a failure of the one who attacked, or in none.

Nobody survives into the score phase, and the next honest candidate is scored right (``tests/tasks/siege/problem.py``).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine import RUNTIME
from tests.integration.test_hostile import misbehave

pytestmark = pytest.mark.docker
SMALL = {"memory": "512m" if RUNTIME else "256m", "disk": "16m", "tmp": "16m", "pids": 128}


@pytest.mark.parametrize(
    ("deed", "boundary", "kind"),
    [
        ("report_evaluations", "trainer", "bad_report"),
        ("report_boundary", "trainer", "provider_error"),
        ("report_reason", "trainer", "bad_report"),
        ("report_odd_state", "trainer", "bad_report"),
        ("report_score", "trainer", "bad_report"),
        ("report_big_event", "trainer", "bad_report"),
        ("report_surrogate", None, None),
        ("report_nan_state", "trainer", "bad_report"),
        ("report_train_end", "trainer", "bad_report"),
        ("report_lists", "trainer", "bad_report"),
        ("report_flood", "trainer", "bad_report"),
        ("spawner_words", "task", "train_error"),
        ("spawner_never_read", "trainer", "job_timeout"),
        ("connections", None, None),
        ("superscript_length", None, None),
        ("pipelining", None, None),
        ("endless_chunk", None, None),
        ("large_bodies", None, None),
        ("request_flood", None, None),
        ("deep_requests", None, None),
        ("crumbs", None, None),
        ("pipelined_answers", None, None),
        ("unreadable_folder", "trainer", "disk_limit"),
        ("odd_signal", "trainer", "train_died"),
        ("sleeping_bomb", "trainer", "train_died"),
        ("deep_tree", None, None),
        ("headless_daemon", None, None),
        ("headless_stopper", "trainer", "job_timeout"),
        ("c_odd_signal", None, None),
        ("c_headless", None, None),
        ("c_stopper", None, None),
        ("c_visible_stopper", None, None),
        ("c_killer", None, None),
        ("c_surrogate", None, None),
        ("c_array_error", None, None),
        ("c_collisions", None, None),
        ("c_slow_reader", None, None),
        ("c_memory", None, None),
        ("c_bomb", None, None),
        ("c_import_main", None, None),
        ("c_import_many", None, None),
        ("c_import_more", None, None),
    ],
)
def test_an_attack_hurts_nobody_else(
    images: Path, tmp_path: Path, deed: str, boundary: str | None, kind: str | None
) -> None:
    limits = {"job_timeout": 5.0} if kind == "job_timeout" else {}
    got = misbehave(tmp_path, images, deed, deed_of="internal:siege", sandbox=SMALL, **limits)
    found = (got["failure_boundary"], got["failure_kind"])
    if RUNTIME and deed == "sleeping_bomb" and found == ("sandbox", "out_of_memory"):
        return  # a trainer's processes may cost gVisor more memory than there is, sooner than the spawner looks
    assert found == (boundary, kind), got["feedback"]
    assert "Traceback" not in got["stderr"]
    # Whatever happened in training, the initial state has its honest score.
    result = json.loads((got["folder"] / "results.json").read_text())
    assert result["score_initial"] == -2.0
