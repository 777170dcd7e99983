"""Every search ends in order where its budget of tokens, dollars or seconds ends: in real processes, behind the real
gateway. Evaluations and calls: `tests/trainers/test_equal_terms.py`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.searches import SEARCHES, endless, only_programs
from tests.worker.support import run
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.gateway.base import LlmRequest, ProviderReply, ProviderRequest
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.trainers.registry import entry_of, resolve_params

TASK = """
def build(context):
    def guide(query, response, reference):
        time.sleep({pause})
        return -abs(float(response) - 3.0), "off by some"
    return problem(guide, train=examples(["a", "b", "c"]), validate=examples(["d"]))
"""
PROGRAMS = """
def build(context):
    def guide(query, response, reference):
        time.sleep({pause})
        return -abs(float(response.split()[-1]) - 3.0), "off by some"
    sources = ["def f():\\n    return " + str(number) for number in range(300)]
    code = Parameter("code", sources[0], "code", entry="f", alternatives=tuple(sources[1:]))
    return problem(guide, parameters=(code,), train=examples(["a", "b", "c"]), validate=examples(["d"]))
"""
"""The same for searches over one program."""
TOKENS, PRICE = 100, 0.25
"""Of each answer."""


class Priced(StubProvider):
    """The stub, for money."""

    def complete(self, request: ProviderRequest) -> ProviderReply:
        reply = super().complete(request)
        return dataclasses.replace(reply, prompt_tokens=TOKENS - 10, completion_tokens=10, cost_usd=PRICE)


def trained(folder: Path, name: str, pause: float = 0.0, **budget: Any) -> tuple[dict[str, Any], Any]:
    """What a job with `budget` came to, and what the gateway metered."""
    trainer = SEARCHES[name]
    params = resolve_params(trainer, endless(name), str)
    model = ModelRef(id="stub")
    gateway = Gateway({"stub": Priced()})
    with gateway.open("0" * 12, 1, model, folder / "llm.jsonl", Budget(**budget)) as scope:

        def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
            fields = {key: header[key] for key in ("id", "method", "path", "headers", "phase")}
            said = scope.handle(LlmRequest(**fields, body=body))
            return said.status, said.body, {"usage": dict(said.usage), "inert": said.inert}

        given = {"id": name, "entry": entry_of(name), "params": params}
        task = PROGRAMS if only_programs(name) else TASK
        outcome = run(folder, task.format(pause=pause), trainer=given, over={"budget": budget}, answer=answer)
        assert outcome.result is not None, outcome.stderr
        assert (outcome.result["status"], outcome.result["stop_reason"]) == ("ok", "budget"), (
            outcome.result["failure"],
            outcome.log,
        )
        assert not outcome.result["stop_point"]["killed"], "it ends by itself"
        assert outcome.history[0]["candidate"] == "seed" and outcome.result["scores"]["best"] is not None
        return outcome.result, scope.usage()


LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    "tokens": ({"tokens": 2 * TOKENS + 1}, 3),
    "usd": ({"usd": 3 * PRICE}, 3),
}
"""A budget, and how many answers it holds: the last one may pass it."""


@pytest.mark.parametrize("limit", ["tokens", pytest.param("usd", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name, trainer in SEARCHES.items() if trainer.uses_llm])
def test_what_answers_cost_ends_every_search_at_the_same_place(tmp_path: Path, name: str, limit: str) -> None:
    budget, answers = LIMITS[limit]
    _, usage = trained(tmp_path, name, **budget)
    assert usage.calls == answers and usage.total_tokens == answers * TOKENS and usage.cost_usd == answers * PRICE
    assert usage.refused >= 1


@pytest.mark.parametrize("name", list(SEARCHES))
def test_time_ends_every_search(tmp_path: Path, name: str) -> None:
    result, _ = trained(tmp_path, name, pause=0.1, seconds=0.5)
    assert result["train_seconds"] >= 0.5
