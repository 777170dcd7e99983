"""A task that measures tokens: what the provider counted for each call is what its metrics say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.openai_server import Behaviour, OpenAIServer
from tests.suites.hf.conftest import Build
from trace_bench.suites.hf.agents import SYSTEM_PROMPTS
from trace_bench.suites.hf.stub_answers import StubAnswers
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.evaluate import evaluate_state, mean_metrics
from trace_bench.worker.objective import fronts, metrics_of, oriented_point
from trace_bench.worker.problem import Problem, Programs

TASK = "internal:multiobjective_gsm8k"
NAMES = ("error", "prompt_tokens", "completion_tokens")


def _measured(problem: Problem) -> Problem:
    return replace(
        problem, metrics=metrics_of(problem.score_metric, load_task_spec(resolve(TASK).folder).raw["metrics"])
    )


def test_metrics_are_the_error_and_the_tokens_that_were_counted(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = _measured(build_hf(TASK, num_train=2, num_validate=1, asked_at_once=1))
    used = {"prompt_tokens": 41, "completion_tokens": 7, "total_tokens": 48}
    right = problem.train[0].reference.item.answer
    server.script(
        Behaviour(text=f"#### {right}", usage=used), Behaviour(text="No idea.", usage={**used, "prompt_tokens": 9})
    )
    first, second = evaluate_state(problem, {"system_prompt": "Be brief."}, problem.train, programs)
    assert first.metrics == {"score": 1, "error": 0, "prompt_tokens": 41, "completion_tokens": 7}
    assert first.response == f"#### {right}" and first.feedback.endswith("41 tokens were read and 7 written.")
    assert second.metrics == {"score": 0, "error": 1, "prompt_tokens": 9, "completion_tokens": 7}
    assert "A right answer" in second.feedback
    system, user = server.requests[0].body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert user == {"role": "user", "content": str(problem.train[0].query)}


@pytest.mark.parametrize("wrong", [3, None, "x" * 60_000])
def test_what_is_no_prompt_fails_with_more_tokens_than_any_answer(
    wrong: Any, build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = _measured(build_hf(TASK, num_train=1, num_validate=1))
    (rollout,) = evaluate_state(problem, {"system_prompt": wrong}, problem.train, programs)
    assert rollout.failed and not server.requests
    assert rollout.metrics == {"score": 0, "error": 1, "prompt_tokens": 20_000, "completion_tokens": 20_000}


def test_in_stub_mode_several_prompts_are_best_by_some_metric(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = _measured(build_hf(TASK, num_train=10, num_validate=1))
    ladder = problem.trainable[0].ladder
    assert ladder == SYSTEM_PROMPTS and problem.initial_state() == {"system_prompt": ladder[1]}
    stub = StubAnswers(1, ladders={"system_prompt": ladder})
    items = {str(example.query): example for example in problem.train}

    def answer(body: Mapping[str, Any]) -> str:
        system, user = (message["content"] for message in body["messages"])
        example = items[user]
        return stub.answer(example.reference.item, example.query.place, "answer", {"system_prompt": system})

    server.answer = answer
    found = [mean_metrics(evaluate_state(problem, {"system_prompt": text}, problem.train, programs)) for text in ladder]
    assert found[2]["completion_tokens"] < 0.3 * found[1]["completion_tokens"]
    assert found[3]["error"] < found[2]["error"] < found[0]["error"]
    best = fronts([oriented_point(metrics, NAMES, problem.metrics) for metrics in found])[0]
    assert {2, 3} <= set(best) and 1 not in best


def test_the_weights_are_a_thousandth_for_a_token_and_the_agent_is_the_only_one() -> None:
    spec = load_task_spec(resolve(TASK).folder)
    assert {name: metric.weight for name, metric in spec.metrics.items()} == {
        "error": 1, "prompt_tokens": 0.001, "completion_tokens": 0.001,
    }  # fmt: skip
    assert spec.eval_kwargs["agent"].choices == ("system_prompt",) and spec.eval_kwargs["fixture"].default is True
    assert load_task_spec(resolve("hf:gsm8k").folder).metrics == {}
