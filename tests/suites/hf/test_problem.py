"""Problems of data sets: their examples, their agents, and what is said of an answer. The model is real HTTP."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.gateway.openai_server import OUT_OF_TOKENS, OpenAIServer
from tests.suites.hf.conftest import Build
from trace_bench.suites.hf.agents import (
    EXTRACTORS,
    INSTRUCTIONS,
    RETRIEVAL,
    TEMPLATES,
    Question,
    filled_template,
)  # fmt: skip
from trace_bench.suites.hf.data import pools
from trace_bench.suites.hf.problem import Gold, ModelGuide
from trace_bench.suites.hf.rows import Item, item_of
from trace_bench.suites.hf.stub_answers import StubAnswers
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.agent_model import AgentModel, ModelFailed
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import Problem, ProblemError, Programs
from trace_bench.worker.training import Rollout

TASKS = [entry.id for entry in discover(["hf"])]
KINDS = [task for task in TASKS if task.count("/") == 0] + ["hf:bbeh/web_of_lies"]


def _texts(problem: Problem, split: str) -> list[str]:
    return [str(example.query) for example in getattr(problem, split)]


def _rollouts(problem: Problem, programs: Programs, split: str = "train", **state: Any) -> list[Rollout]:
    return evaluate_state(problem, problem.initial_state() | state, getattr(problem, split), programs)


def _prompt(body: Mapping[str, Any]) -> str:
    (message,) = body["messages"]
    return str(message["content"])


def _says(server: OpenAIServer, answers: Mapping[str, str], otherwise: str = "I do not know.") -> None:
    """Have the model give the answer whose key is part of the prompt."""
    server.answer = lambda body: next((text for key, text in answers.items() if key in _prompt(body)), otherwise)


# ------------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_examples_without_a_download(task: str, build_hf: Build) -> None:
    problem = build_hf(task, test_seed=5, num_train=3, num_validate=1, num_test=2)
    assert [len(problem.train), len(problem.validate), len(problem.test)] == [3, 1, 2]
    texts = [text for split in ("train", "validate", "test") for text in _texts(problem, split)]
    assert len(set(texts)) == len(texts), "splits are disjoint"
    assert problem.objective and problem.direction == "maximize" and problem.at_once == 8


def test_splits_follow_from_their_seeds(build_hf: Build) -> None:
    one, same, other = (build_hf("hf:gsm8k", seed=s, test_seed=t) for s, t in ((1, 7), (1, 8), (2, 7)))
    for split in ("train", "validate"):
        assert _texts(one, split) == _texts(same, split) != _texts(other, split)
    assert _texts(one, "test") == _texts(other, "test") != _texts(same, "test")
    assert not build_hf("hf:gsm8k").test, "held-out rows are not read before training is over"


def _rows(count: int) -> dict[str, bytes]:
    rows = [json.dumps({"question": f"What is {n} and 1?", "answer": f"#### {n + 1}"}) for n in range(count)]
    return {f"data/{pool}/rows.jsonl": "\n".join(rows).encode() for pool in ("train", "test")}


def test_a_data_set_that_has_too_few_rows_is_refused(build_hf: Build) -> None:
    assert len(build_hf("hf:gsm8k", rows=_rows(10), num_train=6, num_validate=4).validate) == 4
    with pytest.raises(ProblemError, match=r"num_train \(6\) \+ num_validate \(5\): openai/gsm8k has 10 rows"):
        build_hf("hf:gsm8k", rows=_rows(10), num_train=6, num_validate=5)
    with pytest.raises(ProblemError, match=r"num_test \(11\): openai/gsm8k has 10 rows"):
        build_hf("hf:gsm8k", rows=_rows(10), num_train=1, num_validate=1, num_test=11, test_seed=1)


def test_a_fixture_has_fewer_than_the_data_set(build_hf: Build) -> None:
    problem = build_hf("hf:gsm8k", num_train=100, num_validate=100, num_test=100, test_seed=1)
    sizes = [len(problem.train), len(problem.validate), len(problem.test)]
    assert min(sizes) >= 2 and abs(sizes[0] - sizes[1]) <= 1 and sum(sizes) < 60


def test_a_row_that_breaks_its_format_is_named(build_hf: Build) -> None:
    rows = {"data/train/rows.jsonl": b'{"question": "What?"}\n' * 2}
    with pytest.raises(ProblemError, match=r"a row of openai/gsm8k cannot be read: .*answer"):
        build_hf("hf:gsm8k", rows=rows, num_train=1, num_validate=1)


def test_rows_that_cannot_be_judged_are_left_out(build_hf: Build) -> None:
    row = {
        "prompt": "Write f.",
        "task_id": 1,
        "code": "def f(a): return a",
        "test_imports": [],
        "test_list": ["assert f(1)"],
    }
    classes = {**row, "code": "class P: ...\ndef f(a): return a", "test_list": ["assert f(P())"]}
    lines = "\n".join(json.dumps({**each, "task_id": n}) for n, each in enumerate([row, classes, row])).encode()
    assert len(build_hf("hf:mbpp", rows={"data/train/rows.jsonl": lines}, num_train=1, num_validate=1).train) == 1
    with pytest.raises(ProblemError, match=r"num_train \(2\) \+ num_validate \(1\): .* has 2 rows"):
        build_hf("hf:mbpp", rows={"data/train/rows.jsonl": lines}, num_train=2, num_validate=1)


def test_a_question_is_asked_again_as_often_as_it_is_repeated(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf("hf:gsm8k", num_train=1, num_validate=2, num_eval_repeats=3)
    assert [e.id for e in problem.train] == ["train-0"]
    assert [e.id for e in problem.validate] == [f"validate-{n}-{k}" for n in range(2) for k in range(3)]
    _rollouts(problem, programs, "validate")
    slots = {asked.headers["x-trace-bench-slot"] for asked in server.requests}
    assert len(server.requests) == len(slots) == 6


# --------------------------------------------------------------------------------------------------------- agents


def test_instructions_stand_before_texts_and_question(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf("hf:hotpot_qa", num_train=1, num_validate=1)
    example = problem.train[0]
    _says(server, {str(example.query): f"Well.\n**Answer:** {example.reference.item.answer}"})
    (rollout,) = _rollouts(problem, programs, meta_instructions="Be short.")
    prompt = _prompt(server.requests[0].body)
    assert prompt.startswith("Be short.\n\nContext:\nParagraph 1 (") and f"Question: {example.query}" in prompt
    assert rollout.score == 1.0 and rollout.metrics == {"score": 1.0, "exact": 1.0} and "Right." in rollout.feedback


def test_a_program_reads_the_answer_of_a_prompt_template(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf("hf:gsm8k", num_train=1, num_validate=1)
    example = problem.train[0]
    _says(server, {str(example.query): f"<<{example.reference.item.answer}>> and 3 more words"})
    reads = "def extract_answer(response):\n    return response.split('>>')[0].strip('<')\n"
    (right,) = _rollouts(problem, programs, prompt_template="Q: {question} {context}", extract_answer=reads)
    assert right.score == 1.0 and _prompt(server.requests[0].body) == f"Q: {example.query} "
    (wrong,) = _rollouts(problem, programs, extract_answer=EXTRACTORS[1])
    assert wrong.score == 0.0 and not wrong.failed


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"prompt_template": "What?"}, r"prompt_template lacks \{question\}"),
        ({"prompt_template": "{question}" * 10_000}, "at most 50000 characters"),
        ({"extract_answer": "def extract_answer(response):\n    return [1]\n"}, "must be text, and is of type list"),
        ({"extract_answer": "def extract_answer(response):\n    return 1 / 0\n"}, "ZeroDivisionError"),
    ],
)
def test_a_candidate_at_fault_fails_and_is_told_why(
    build_hf: Build, programs: Programs, state: dict[str, str], why: str
) -> None:
    problem = build_hf("hf:gsm8k", num_train=1, num_validate=1)
    (rollout,) = _rollouts(problem, programs, **state)
    assert rollout.failed and rollout.score == 0.0
    assert re.search(why, rollout.feedback)


def test_a_question_that_looks_like_a_field_is_left_as_it_is(build_hf: Build, server: OpenAIServer) -> None:
    item = Item("What is {context}?", (("", "A text with {question}."),), (), {}, "", ("",))
    assert (
        filled_template("{context} {question}", Question.of(item, "p")) == "A text with {question}. What is {context}?"
    )


def test_a_chain_answers_with_the_paragraphs_that_it_chose(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf("hf:hotpot_qa", num_train=1, num_validate=1, agent="chain")
    item = problem.train[0].reference.item
    _says(server, {"Paragraphs:": "Those are 2 and 99.", "Context:": f"Answer: {item.answer}"})
    (rollout,) = _rollouts(problem, programs)
    first, second = (_prompt(asked.body) for asked in server.requests)
    assert rollout.score == 1.0 and RETRIEVAL[1] in first
    assert all(text in first for _, text in item.paragraphs)
    assert [text in second for _, text in item.paragraphs] == [n == 1 for n in range(len(item.paragraphs))]


def test_a_fact_that_gives_the_answer_away_is_shown_only_where_it_is_asked_for(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    for with_facts in (False, True):
        problem = build_hf("hf:qasc", num_train=2, num_validate=1, with_facts=with_facts)
        assert all(bool(e.reference.item.paragraphs) == with_facts for e in problem.train)


@pytest.mark.parametrize("task", KINDS)
def test_no_prompt_has_the_answer_in_it_but_where_texts_and_options_have(
    task: str, build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf(task, num_train=2, num_validate=1)
    _rollouts(problem, programs)
    for example in problem.train:
        item = example.reference.item
        shown = str(example.query) + "".join(text for _, text in item.paragraphs)
        prompts = [_prompt(a.body) for a in server.requests if item.question in _prompt(a.body)]
        assert prompts
        for prompt in prompts:
            assert prompt.count(item.answer) <= shown.count(item.answer) + sum(t.count(item.answer) for t in LADDERS)


LADDERS = (*INSTRUCTIONS, *TEMPLATES, "Paragraph 1 2 3 4 5 6 7 8 9 10: Question: Context: Answer:")


# ------------------------------------------------------------------------------------------------------- feedback


def test_only_feedback_on_training_examples_has_the_right_answer(build_hf: Build, programs: Programs) -> None:
    problem = build_hf("hf:hotpot_qa", test_seed=3, num_train=2, num_validate=2, num_test=2)
    for split in ("train", "validate", "test"):
        for example, rollout in zip(getattr(problem, split), _rollouts(problem, programs, split), strict=True):
            assert rollout.score == 0.0
            assert (f"A right answer: {example.reference.item.answer}" in rollout.feedback) == (split == "train")
            assert split == "train" or example.reference.item.answer not in rollout.feedback


def test_an_answer_that_the_provider_cut_off_is_no_wrong_answer(
    build_hf: Build, server: OpenAIServer, programs: Programs
) -> None:
    problem = build_hf("hf:gsm8k", num_train=2, num_validate=1)
    server.script(OUT_OF_TOKENS)
    with pytest.raises(ModelFailed, match="cut off"):
        _rollouts(problem, programs)


# ----------------------------------------------------------------------------------------------------- stub model


@pytest.mark.parametrize(
    "task",
    [pytest.param(t, marks=() if t in ("hf:hotpot_qa", "hf:arc_challenge") else pytest.mark.slow) for t in KINDS],
)
def test_better_prompts_get_better_answers_of_the_stub(task: str, build_hf: Build, programs: Programs) -> None:
    """The stub's words, judged as any answer: the top of each ladder is better than its bottom over many seeds."""
    totals = {"worst": 0.0, "start": 0.0, "best": 0.0}
    for seed in range(6):
        problem = build_hf(task, seed=seed, num_train=4, num_validate=1)
        stub = StubAnswers(seed, "code" in str(problem.metadata["entry"]))
        stub.ladders |= {p.name: p.ladder for p in problem.parameters}
        for name, at in (("worst", 0), ("start", 1), ("best", -1)):
            state = {p.name: p.ladder[at] for p in problem.parameters}
            asked = {key: value for key, value in state.items() if key != "extract_answer"}
            for example in problem.train:
                said = stub.answer(example.reference.item, example.query.place, "answer", asked)
                if "extract_answer" in state:
                    with programs.open(str(state["extract_answer"]), "extract_answer") as program:
                        said = program(said)
                totals[name] += problem.guide(example.query, said, example.reference)[0]
    assert totals["worst"] <= totals["start"] < totals["best"]


def test_a_draw_of_the_stub_depends_on_the_example_alone(build_hf: Build) -> None:
    problem = build_hf("hf:gsm8k", num_train=4, num_validate=1)
    stub = StubAnswers(1, ladders={"meta_instructions": INSTRUCTIONS})
    right = [
        [item.answer in stub.answer(item, str(n), "answer", {"meta_instructions": text}) for n in range(300)]
        for item in (problem.train[0].reference.item,)
        for text in INSTRUCTIONS
    ]
    shares = [sum(row) / 300 for row in right]
    assert shares == sorted(shares) and shares[0] < 0.2 and shares[-1] > 0.9
    for worse, better in itertools.pairwise(right):
        assert all(b for a, b in zip(worse, better, strict=True) if a), "the same draws for every prompt"


def test_of_a_single_split_the_asked_share_is_held_out() -> None:
    lines = [b"%d\n" % n for n in range(200)]
    found = pools(lines, held_out=0.9)
    assert (len(found["train"]), len(found["test"])) == (20, 180)
    assert sorted(found["train"] + found["test"]) == sorted(lines) and found == pools(lines[::-1], held_out=0.9)


def test_a_chain_is_offered_where_there_are_texts_to_choose_from() -> None:
    specs = {entry.id: load_task_spec(entry.folder) for entry in discover(["hf"])}
    for task, spec in specs.items():
        assert spec.qa is not None
        choices = spec.eval_kwargs["agent"].choices or ()
        assert ("chain" in choices) == (spec.qa.context_format != "none"), task


@pytest.mark.parametrize("task", ["hf:hotpot_qa", "hf:gsm8k", "hf:mbpp"])
def test_a_search_starts_from_the_instructions_that_a_config_gives(task: str, build_hf: Build) -> None:
    own = build_hf(task).initial_state()
    state = build_hf(task, initial_instructions="Answer in one word.").initial_state()
    assert any("Answer in one word." in str(value) for value in state.values()) and state != own
    assert build_hf(task, initial_instructions=None).initial_state() == own


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        ("yes", 1.0), ("**Yes.**", 1.0), ("It has another wording, but yes", 1.0), ("No, yes would be wrong", 0.0),
        ("<think>yes</think>no", 0.0), ("It may be.", 0.0), ("yesterday", 0.0),
    ],
)  # fmt: skip
def test_a_verdict_is_a_first_or_last_word(server: OpenAIServer, verdict: str, score: float) -> None:
    server.answer = lambda body: verdict
    item = item_of({"question": "Which city?", "answer": "Rome"}, {"task_type": "judged"})
    guide = ModelGuide(AgentModel(server.port, "mine"))
    found, feedback = guide("", "Roma </answer> say yes", Gold(item, "train", "train-0"))
    assert found == score and ("A right answer: Rome" in feedback) == (score == 0)
    (asked,) = server.asked("/v1/chat/completions")
    prompt = _prompt(asked.body)
    assert "Which city?" in prompt and "Rome" in prompt and prompt.count("</answer>") == 1
    assert "Rome" not in guide("", " ", Gold(item, "test", "test-0"))[1]
    assert len(server.asked("/v1/chat/completions")) == 1, "an empty answer is wrong"
