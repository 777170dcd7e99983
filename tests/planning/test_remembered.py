"""Whether known evaluations are made again in a replay: as the record says, or as its version did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.artifacts.samples import META
from trace_bench.artifacts.records import JobMeta
from trace_bench.planning.prepare import _remembered


@pytest.mark.parametrize(
    ("trainer", "memo", "remembered"),
    [
        ("OpenEvolveTrainer", {"memo": False}, False),
        ("OpenEvolveTrainer", {"memo": True}, True),
        ("OpenEvolveTrainer", {}, True),  # by the adapter, in versions without the field
        ("PrioritySearch", {}, False),
    ],
)
def test_a_replay_remembers_what_the_recording_did(trainer: str, memo: dict[str, Any], remembered: bool) -> None:
    plain = {key: value for key, value in META.items() if key != "memo"}
    assert _remembered(JobMeta.model_validate({**plain, "trainer_id": trainer, **memo})) is remembered
