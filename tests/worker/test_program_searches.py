"""Searches over one program in real processes: they go on from a checkpoint, and refuse what is no program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.host import Outcome
from tests.worker.support import run
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.gateway.base import LlmRequest
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.trainers.registry import entry_of, load_trainer, resolve_params

TASK = """
def build(context):
    def guide(query, response, reference):
        print("evaluated", flush=True)
        return -abs(float(response.split()[-1]) - reference), "off by some"
    sources = ["def f():\\n    return " + str(number) for number in range(60)]
    code = Parameter("code", sources[0], "code", entry="f", alternatives=tuple(sources[1:]))
    validate = tuple(Example(str(i), reference=float(i)) for i in (20, 30))
    return problem(guide, parameters=(code,), train=examples(["a"]), validate=validate)
"""
PARAMS: dict[str, dict[str, Any]] = {
    "FunSearch": {"num_steps": 6, "samples_per_prompt": 2, "num_islands": 3, "reset_period": 4},
    "MCTS-AHD": {"num_steps": 3, "init_size": 2, "mutations": 1},
    "EoH": {"num_steps": 3, "population_size": 3},
    "ReEvo": {"num_steps": 3, "init_size": 4, "population_size": 3},
}


def searched(folder: Path, name: str, checkpoint: Any = ()) -> Outcome:
    folder.mkdir()
    params = resolve_params(load_trainer(name), PARAMS[name], str)
    gateway = Gateway({"stub": StubProvider()})
    with gateway.open("0" * 12, 1, ModelRef(id="stub"), folder / "llm.jsonl", Budget()) as scope:

        def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
            fields = {key: header[key] for key in ("id", "method", "path", "headers", "phase")}
            said = scope.handle(LlmRequest(**fields, body=body))
            return said.status, said.body, {"usage": dict(said.usage), "inert": said.inert}

        trainer = {"id": name, "entry": entry_of(name), "params": params}
        outcome = run(folder, TASK, trainer=trainer, answer=answer, checkpoint=list(checkpoint))
    assert outcome.result is not None and outcome.result["status"] == "ok", outcome.stderr
    return outcome


@pytest.mark.parametrize("name", PARAMS)
def test_a_search_that_lost_its_sandbox_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    whole = searched(tmp_path / "whole", name)
    again = searched(tmp_path / "again", name, whole.checkpoint[:4])
    histories = [[{k: v for k, v in line.items() if k != "seconds"} for line in o.history] for o in (whole, again)]
    assert histories[0] == histories[1] and len(histories[0]) > 6
    assert len(again.checkpoint) == len(whole.checkpoint) - 4, "what was known is not evaluated again"
    assert whole.log.count("evaluated") - again.log.count("evaluated") == 4 * 2


@pytest.mark.parametrize("name", PARAMS)
def test_a_problem_without_one_program_fails_the_job_with_one_sentence(tmp_path: Path, name: str) -> None:
    params = resolve_params(load_trainer(name), PARAMS[name], str)
    outcome = run(tmp_path, trainer={"id": name, "entry": entry_of(name), "params": params})
    assert outcome.result is not None and outcome.result["status"] != "ok"
    failure = outcome.result["failure"]
    assert failure["boundary"] == "trainer" and "trainable parameters of this problem are x (float)" in str(failure)
    assert "Traceback" not in str(failure)
