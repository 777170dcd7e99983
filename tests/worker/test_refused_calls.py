"""A request that the provider does not take costs its proposal, as long as it takes others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.worker.support import run

CODE = """
class Trainer(Trainer):
    def train(self, problem, params, context):
        for number in range(%d):
            reply = context.chat([{"role": "user", "content": str(number)}], slot=Slot(number, "a"))
            context.event("reply", text=reply["choices"][0]["message"]["content"], refused=reply.get("refused"))
        return {"x": 5.0}
"""


def answers(*statuses: int) -> Any:
    left = list(statuses)

    def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
        status = left.pop(0)
        if status != 200:
            return status, json.dumps({"error": {"message": "too long"}}).encode(), {}
        return 200, json.dumps({"choices": [{"message": {"content": "fine"}}]}).encode(), {}

    return answer


def test_one_among_others_is_an_answer_without_a_word(tmp_path: Path) -> None:
    got = run(tmp_path, CODE % 3, answer=answers(200, 400, 200))
    assert got.result is not None and got.result["status"] == "ok"
    replies = [(e["text"], e["refused"]) for e in got.events if e["event"] == "reply"]
    assert replies == [("fine", None), ("", "HTTP 400: too long"), ("fine", None)]


def test_the_first_one_and_the_sixth_in_a_row_end_the_job(tmp_path: Path) -> None:
    for statuses in ((400,), (200, *[413] * 6)):
        got = run(tmp_path, CODE % len(statuses), answer=answers(*statuses))
        assert got.result is not None and got.result["failure"]["kind"] == "provider_error"
        assert got.result["llm_calls"] == len(statuses)
