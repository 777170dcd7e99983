"""The rows that come with the tasks: in the format of the data sets, readable, and right."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_bench.resources import data_dir
from trace_bench.suites.hf.described import METRICS
from trace_bench.suites.hf.metrics import judge
from trace_bench.suites.hf.rows import Item, item_of

HF = Path(str(data_dir("benchmarks"))) / "hf"
TASKS = {
    path.parent.relative_to(HF).as_posix(): tomllib.loads(path.read_text())["qa"] for path in HF.rglob("task.toml")
}
COLUMNS = {
    "hotpotqa/hotpot_qa": {"id", "question", "answer", "type", "level", "supporting_facts", "context"},
    "dgslibisey/MuSiQue": {
        "id", "paragraphs", "question", "question_decomposition", "answer", "answer_aliases", "answerable",
    },
    "openai/gsm8k": {"question", "answer"},
    "allenai/ai2_arc": {"id", "question", "choices", "answerKey"},
    "allenai/qasc": {
        "id", "question", "choices", "answerKey", "fact1", "fact2", "combinedfact", "formatted_question",
    },
    "ucinlp/drop": {"section_id", "query_id", "passage", "question", "answers_spans"},
    "emozilla/quality": {"article", "question", "options", "answer", "hard"},
    "abertsch/converted_qasper": {"id", "pid", "input", "output"},
    "deepmind/aqua_rat": {"question", "options", "rationale", "correct"},
    "ChilleD/StrategyQA": {"qid", "term", "description", "question", "answer", "facts", "decomposition"},
    "hubert233/BigBenchExtraHard": {"input", "target"},
    "openai/openai_humaneval": {"task_id", "prompt", "canonical_solution", "test", "entry_point"},
    "google-research-datasets/mbpp": {"source_file", "task_id", "prompt", "code", "test_imports", "test_list"},
}  # fmt: skip
"""Of each data set, as its card on the hub shows them."""


def rows(task: str, split: str) -> list[dict[str, Any]]:
    qa = TASKS[task]
    path = HF / "fixtures" / qa["dataset_id"].replace("/", "--") / f"{qa[split]}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def items(task: str) -> Iterator[Item]:
    for split in ("train_split", "test_split"):
        for row in rows(task, split):
            yield item_of(row, TASKS[task], held_out=split == "test_split")


@pytest.mark.parametrize("task", TASKS)
def test_a_fixture_has_the_columns_of_its_data_set(task: str) -> None:
    for split in ("train_split", "test_split"):
        for row in rows(task, split):
            assert set(row) == COLUMNS[TASKS[task]["dataset_id"]]


@pytest.mark.parametrize("task", TASKS)
def test_a_fixture_has_few_rows_and_no_row_twice(task: str) -> None:
    splits = {TASKS[task][split]: rows(task, split) for split in ("train_split", "test_split")}
    texts = [json.dumps(row, sort_keys=True) for found in splits.values() for row in found]
    assert len(set(texts)) == len(texts)
    for split, found in splits.items():
        enough = 10 if len(splits) == 1 else 6 if split == TASKS[task]["test_split"] else 8
        assert enough <= len(found) <= 20, split


@pytest.mark.parametrize("task", TASKS)
def test_each_row_of_a_fixture_is_read(task: str) -> None:
    for item in items(task):
        assert item.question and item.answer
        assert 1 <= len(item.wrong) <= 3
        assert item.answer not in item.wrong
        assert (TASKS[task].get("context_format", "none") == "none") or item.paragraphs


@pytest.mark.parametrize("task", [task for task, qa in TASKS.items() if METRICS[qa["task_type"]] != "code"])
def test_the_metric_gives_right_answers_1_and_wrong_ones_0(task: str) -> None:
    kind = METRICS[TASKS[task]["task_type"]]
    for item in items(task):
        for said in (item.answer, f"The answer is {item.answer}."):
            assert judge(kind, said, item.gold).score == 1, said
        for said in item.wrong:
            assert judge(kind, said, item.gold).score == 0, said


def test_paragraphs_have_the_spans_that_are_asked_for() -> None:
    for task in ("hotpot_qa", "musique"):
        for item in items(task):
            texts = " ".join(f"{title} {text}" for title, text in item.paragraphs)
            known = item.answer in ("yes", "no") or any(answer in texts for answer in item.gold["answers"])
            assert known, item.question


def test_facts_of_hotpot_qa_and_musique_point_at_paragraphs() -> None:
    for split in ("train_split", "test_split"):
        for row in rows("hotpot_qa", split):
            places = dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True))
            facts = row["supporting_facts"]
            assert all(
                len(places[title]) > number for title, number in zip(facts["title"], facts["sent_id"], strict=True)
            )
        for row in rows("musique", split):
            for step in row["question_decomposition"]:
                assert row["paragraphs"][step["paragraph_support_idx"]]["is_supporting"]
            assert row["question_decomposition"][-1]["answer"] in (row["answer"], *row["answer_aliases"])


def test_no_right_answer_of_options_is_always_the_same() -> None:
    for task in ("arc_challenge", "qasc", "quality", "aqua_rat"):
        assert len({item.gold["label"] for item in items(task)}) >= 4


def _program(item: Item, solution: str) -> str:
    """The program that the authors of the data sets run."""
    if item.gold["style"] == "humaneval":
        return f"{solution}\n{item.gold['tests'][0]}\ncheck({item.gold['entry']})\n"
    return "\n".join([item.gold["setup"], solution, *item.gold["tests"]])


def _passes(program: str) -> bool:
    return subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("task", ["humaneval", "mbpp"])
def test_solutions_pass_their_tests_and_wrong_programs_fail_them(task: str) -> None:
    found = {item.gold["entry"]: item for item in items(task)}
    assert len(found) >= 12
    for item in found.values():
        assert _passes(_program(item, item.gold["solution"])), item.gold["entry"]
        assert not any(_passes(_program(item, wrong)) for wrong in item.wrong), item.gold["entry"]


def test_the_question_of_mbpp_does_not_show_the_tests() -> None:
    for item in items("mbpp"):
        assert f"called {item.gold['entry']} " in item.question
        assert "assert" not in item.question
