"""Rows of public data sets as questions, texts, options and right answers."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trace_bench.resources import data_dir
from trace_bench.suites.hf import rows
from trace_bench.suites.hf.rows import Item, Unusable, annotated, item_of
from trace_bench.suites.hf.wrong_answers import wrong_spans, wrong_target

ARC = {"id": "A1", "question": "Which?", "choices": {"text": ["x", "y", "z"], "label": ["1", "2", "3"]}}
MBPP = {
    "task_id": 7,
    "prompt": "Write a function to find shared elements.",
    "code": "def shared(a, b):\n    return tuple(set(a) & set(b))\n",
    "test_imports": [],
    "test_list": ["assert set(shared((3, 4), (4, 5))) == set((4,))"],
}
HUMANEVAL = {
    "task_id": "HumanEval/900",
    "prompt": "def helper(x):\n    return x + 1\n\n\ndef twice(x):\n    '''Twice x.'''\n",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "twice",
}


def qa(task: str, **changes: object) -> dict[str, Any]:
    path = Path(str(data_dir("benchmarks"))) / "hf" / task / "task.toml"
    return {**tomllib.loads(path.read_text(encoding="utf-8"))["qa"], **changes}


def read(task: str, row: dict[str, Any], **arguments: bool) -> Item:
    return item_of(row, qa(task), **arguments)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(rows).failed == 0
    assert doctest.testmod(rows).attempted > 0


def test_hotpot_qa_joins_the_sentences_of_a_paragraph() -> None:
    context = {"title": ["Ado", "Bex Hall"], "sentences": [["Ado is a town.", " It is old."], ["Bex Hall is new."]]}
    item = read("hotpot_qa", {"id": "h1", "question": "What is old?", "answer": "Ado", "context": context})
    assert item.paragraphs == (("Ado", "Ado is a town. It is old."), ("Bex Hall", "Bex Hall is new."))
    assert (item.gold, item.answer, item.wrong[0]) == ({"answers": ["Ado"]}, "Ado", "Bex Hall")


def test_yes_has_the_wrong_answer_no() -> None:
    assert wrong_spans(["yes"], [("Ado", "Ado is a Town.")]) == ("no",)


@pytest.mark.parametrize("answer", ["Ado", "the Red House", "12", "14,400", "$3.50"])
def test_wrong_spans_share_no_word_with_the_answer(answer: str) -> None:
    texts = [("Ado", "In Ado stands the Red House of Max Orr."), ("Orr Lane", "Orr Lane has 12 houses.")]
    wrong = wrong_spans([answer], texts)
    words = set(answer.lower().split()) - {"the"}
    assert wrong and all(not words & set(one.lower().split()) for one in wrong)


def test_musique_has_aliases_beside_the_answer() -> None:
    paragraph = {"idx": 0, "title": "Ado", "paragraph_text": "Ado lies on the Sele.", "is_supporting": True}
    row = {
        "id": "2hop__1_2", "question": "Where?", "answer": "Ado", "answer_aliases": ["Ado Town", "Ado"],
        "answerable": True, "paragraphs": [paragraph],
    }  # fmt: skip
    item = read("musique", row)
    assert item.gold == {"answers": ["Ado", "Ado Town"]}
    assert item.paragraphs == (("Ado", "Ado lies on the Sele."),)
    assert read("musique", {**row, "answer_aliases": []}).gold == {"answers": ["Ado"]}
    with pytest.raises(ValueError, match=r"'2hop__1_2'.*'answerable'"):
        read("musique", {**row, "answerable": False})


@pytest.mark.parametrize(
    ("written", "number"), [("18", "18"), ("14,400", "14400"), ("-7", "-7"), ("2.5", "2.5"), ("$1,200", "1200")]
)
def test_gsm8k_takes_the_number_after_the_mark(written: str, number: str) -> None:
    item = read("gsm8k", {"question": "How many?", "answer": f"2*9=<<2*9=18>>18\n#### {written}"})
    assert (item.gold, item.answer) == ({"answer": number}, number)
    assert number not in item.wrong and item.wrong


def test_labels_of_options_become_letters() -> None:
    item = read("arc_challenge", {**ARC, "answerKey": "2"})
    assert item.options == (("A", "x"), ("B", "y"), ("C", "z"))
    assert item.gold == {"label": "B", "options": [["A", "x"], ["B", "y"], ["C", "z"]]}
    assert (item.answer, item.wrong) == ("(B)", ("(C)", "(A)"))


def test_labels_before_the_texts_of_options_are_taken_off() -> None:
    item = read("aqua_rat", {"question": "?", "options": ["A)21", "B)$5, or more", "C)A)"], "correct": "B"})
    assert item.options == (("A", "21"), ("B", "$5, or more"), ("C", "A)"))
    plain = read("aqua_rat", {"question": "?", "options": ["A)21", "22", "B)23"], "correct": "B"})
    assert [text for _, text in plain.options] == ["A)21", "22", "B)23"]


@pytest.mark.parametrize(("base", "answer", "label"), [(0, 0, "A"), (0, 2, "C"), (1, 1, "A"), (1, 3, "C")])
def test_the_answer_may_be_the_number_of_an_option(base: int, answer: int, label: str) -> None:
    row = {"article": "A text.", "question": "?", "options": ["x", "y", "z"], "answer": answer, "hard": False}
    item = item_of(row, qa("quality", answer_index_base=base))
    assert item.gold["label"] == label
    assert item.paragraphs == (("", "A text."),)


@pytest.mark.parametrize(("base", "answer"), [(0, 3), (1, 0), (0, -1), (1, 4)])
def test_a_number_beyond_the_options_is_an_error(base: int, answer: int) -> None:
    row = {"article": "A text.", "question": "?", "options": ["x", "y", "z"], "answer": answer}
    with pytest.raises(ValueError, match=r"row '\?': column 'answer' is .*answer_index_base"):
        item_of(row, qa("quality", answer_index_base=base))


def test_the_fact_of_qasc_is_shown_on_demand() -> None:
    row = {**ARC, "answerKey": "1", "combinedfact": "x is right"}
    assert read("qasc", row).paragraphs == ()
    assert read("qasc", row, with_facts=True).paragraphs == (("", "x is right"),)


def drop(spans: list[str], types: list[str], **arguments: bool) -> list[list[str]]:
    row = {
        "section_id": "s", "query_id": "q", "passage": "Ado beat Bex by 3.", "question": "Who?",
        "answers_spans": {"spans": spans, "types": types},
    }  # fmt: skip
    found: list[list[str]] = read("drop", row, **arguments).gold["answers"]
    return found


def test_drop_has_one_answer_of_several_spans_in_training() -> None:
    assert drop(["Ado", "Bex"], ["span", "span"]) == [["Ado", "Bex"]]


def test_drop_has_the_answers_of_several_annotators_in_validation() -> None:
    assert drop(["3", "3", "4"], ["number"] * 3, held_out=True) == [["3"], ["4"]]
    assert drop(["3 May 1901", "1901"], ["date"] * 2, held_out=True) == [["3 May 1901"], ["1901"]]
    assert drop(["Ado", "Bex", "ado", "Bex"], ["span"] * 4, held_out=True) == [["Ado", "Bex"], ["ado", "Bex"]]
    assert drop(["Ado", "Bex", "Ado"], ["span"] * 3, held_out=True) == [["Ado", "Bex"], ["Ado"]]
    assert drop(["Ado", "Bex"], ["span"] * 2, held_out=True) == [["Ado"], ["Bex"]]
    assert annotated(["3", "Ado", "Bex"], ["number", "span", "span"], several=True) == [["3"], ["Ado", "Bex"]]


def test_converted_qasper_has_the_question_before_the_paper() -> None:
    row = {"id": "1", "pid": "1_0", "input": "Q: What is used?\nText: A paper.\nIt uses corpora.", "output": "corpora"}
    item = read("qasper", row)
    assert (item.question, item.paragraphs) == ("What is used?", (("", "A paper.\nIt uses corpora."),))
    assert item.gold == {"answers": [{"text": "corpora", "type": "extractive"}]}
    kinds = {"Yes": "boolean", "Unanswerable": "none", "texts": "abstractive", "A paper, corpora": "extractive"}
    for answer, kind in kinds.items():
        assert read("qasper", {**row, "output": answer}).gold["answers"][0]["type"] == kind


def test_the_first_question_on_a_paper_of_qasper_is_asked() -> None:
    nothing = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": "", "evidence": []}
    answers = [
        {**nothing, "extractive_spans": ["a", "b"]},
        {**nothing, "free_form_answer": "letters"},
        {**nothing, "yes_no": False},
        {**nothing, "unanswerable": True},
    ]
    row = {
        "id": "p", "title": "A paper", "abstract": "On letters.",
        "full_text": {"section_name": ["Intro", None], "paragraphs": [["One.", "Two."], ["a b"]]},
        "qas": {"question": ["Which?", "Is it?"], "question_id": ["q1", "q2"], "answers": [{"answer": answers}] * 2},
    }  # fmt: skip
    item = item_of(row, {"task_type": "qasper"})
    assert item.question == "Which?"
    assert item.paragraphs == (("Abstract", "On letters."), ("Intro", "One.\nTwo."), ("", "a b"))
    assert item.gold["answers"] == [
        {"text": "a, b", "type": "extractive"},
        {"text": "letters", "type": "abstractive"},
        {"text": "No", "type": "boolean"},
        {"text": "Unanswerable", "type": "none"},
    ]
    with pytest.raises(ValueError, match="row 'p': column 'qas' has an answer that says nothing"):
        item_of({**row, "qas": {"question": ["?"], "answers": [{"answer": [nothing]}]}}, {"task_type": "qasper"})


@pytest.mark.parametrize(("answer", "right"), [(True, "yes"), (False, "no"), ("Yes", "yes"), ("false", "no")])
def test_strategy_qa_says_yes_or_no(answer: object, right: str) -> None:
    item = read("strategy_qa", {"qid": "s", "question": "Is it?", "answer": answer, "facts": "It is."})
    assert item.gold == {"answer": right}
    assert {item.answer, *item.wrong} == {"yes", "no"}
    assert item.paragraphs == ()


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("(A)", "(B)"), ("(C)", "(A)"), ("404.0", "405.0"), ("-52", "-51"), ("150, 2", "150, 3"),
        ("23 Dec, 2020", "23 Dec, 2021"), ("same_day, 00:47", "same_day, 00:48"),
        ("1,1,0", "0,1,0"),
        ("Yes", "No"), ("Ambiguous", "Yes"), ("proved", "disproved"), ("yes, no, unknown", "no, no, unknown"),
        ("BCE", "ACE"), ("A, CD, B", "B, CD, B"), ("unanswerable", "[]"), ("[emma, lily]", "[]"), ("[]", "[unknown]"),
        ("pear, plum, quince", "plum, pear, quince"), ("els llaços", "unknown"), ("unknown", "yes"),
    ],
)  # fmt: skip
def test_wrong_targets_of_big_bench_extra_hard_have_the_shape_of_the_right_one(target: str, wrong: str) -> None:
    item = item_of({"input": "Which?", "target": target}, qa("bbeh/linguini"))
    assert (item.gold, item.answer, item.wrong) == ({"answer": target}, target, (wrong,))
    assert wrong_target(target) == (wrong,)


def test_humaneval_gives_the_beginning_of_a_program() -> None:
    item = read("humaneval", HUMANEVAL)
    assert item.question == HUMANEVAL["prompt"]
    assert item.gold == {
        "style": "humaneval", "entry": "twice", "prompt": HUMANEVAL["prompt"], "tests": [HUMANEVAL["test"]],
        "setup": "", "solution": HUMANEVAL["prompt"] + HUMANEVAL["canonical_solution"],
    }  # fmt: skip
    assert item.answer == item.gold["solution"]


def test_mbpp_says_the_name_of_the_function_and_hides_the_tests() -> None:
    item = read("mbpp", MBPP)
    assert item.question == f"{MBPP['prompt']}\n\nThe function is called shared and takes 2 arguments."
    assert item.gold["entry"] == "shared"
    assert item.gold["tests"] == MBPP["test_list"]
    assert item.answer == item.gold["solution"] == MBPP["code"]


@pytest.mark.parametrize(
    ("code", "tests", "said"),
    [
        ("def f(a, b=1): ...", ["assert f(1) == 1", "assert f(1, 2) == 3"], "f and takes 1 or 2 arguments."),
        ("def f(a): ...", ["assert not f(5)"], "f and takes 1 argument."),
        ("def f(a, base): ...", ["assert f(5, base=2) == '101'"], "f and takes 2 arguments (base by name)."),
        ("f = lambda x: x", ["assert f(1) == 1"], "f and takes 1 argument."),
        ("def f(*a): ...", ["assert f(*range(3)) == 3"], "f."),
    ],
)  # fmt: skip
def test_mbpp_counts_the_arguments_of_calls(code: str, tests: list[str], said: str) -> None:
    item = read("mbpp", {**MBPP, "code": code, "test_list": tests})
    assert item.question == f"{MBPP['prompt']}\n\nThe function is called {said}"


@pytest.mark.parametrize(
    ("code", "test", "name"),
    [
        ("def f(a): ...\ndef g(a): ...", "assert math.isclose(f(g(1)), 2.5)", "g"),
        ("class Pair: ...\ndef f(x): ...", "assert f([Pair(1, 2)])", "Pair"),
    ],
)
def test_mbpp_rows_whose_tests_use_more_than_one_function_are_unusable(code: str, test: str, name: str) -> None:
    with pytest.raises(Unusable, match=f"the tests of f use {name} of the program"):
        read("mbpp", {**MBPP, "code": code, "test_list": [test]})


def test_mbpp_imports_come_from_either_column() -> None:
    assert (
        read("mbpp", {**MBPP, "test_imports": ["import math", "import re"]}).gold["setup"] == "import math\nimport re"
    )
    full = {**MBPP, "test_setup_code": "import cmath"}
    del full["test_imports"]
    assert item_of(full, qa("mbpp", setup_field="test_setup_code")).gold["setup"] == "import cmath"


def test_the_wrong_program_fails_the_tests() -> None:
    item = read("mbpp", MBPP)
    namespace: dict[str, Any] = {}
    exec(item.wrong[0], namespace)
    assert namespace["shared"]((3, 4), (4, 5)) is None


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        ("gsm8k", {"question": "?"}, "row '?': column 'answer' is missing"),
        ("gsm8k", {"question": "?", "answer": "#### many"}, "row '?': column 'answer' must end with a number"),
        ("gsm8k", {"question": ["?"], "answer": "#### 1"}, "column 'question' must have text, not list"),
        ("gsm8k", {"question": "  ", "answer": "#### 1"}, "column 'question' is empty"),
        ("arc_challenge", {**ARC, "answerKey": "D"}, "row 'A1': column 'answerKey' names the option 'D', which is not"),
        ("arc_challenge", {**ARC, "answerKey": ""}, "row 'A1': column 'answerKey' is empty: test labels may"),
        ("arc_challenge", {**ARC, "choices": {"text": ["x"], "label": ["A", "B"]}, "answerKey": "A"},
         "row 'A1': column 'choices' has lists of different lengths"),
        ("arc_challenge", {**ARC, "choices": {"text": ["x", "y"], "label": ["A", "A"]}, "answerKey": "A"},
         "row 'A1': column 'choices' has the labels A, A"),
        ("arc_challenge", {**ARC, "choices": {"text": ["x"], "label": ["A"]}, "answerKey": "A"}, "has 1 options"),
        ("arc_challenge", {**ARC, "choices": "x y", "answerKey": "A"}, "column 'choices' must have a list, not str"),
        ("hotpot_qa", {"id": 5, "question": "?", "answer": "x", "context": {"title": ["x"]}},
         "row '5': column 'context' has no key 'sentences'"),
        ("hotpot_qa", {"id": 5, "question": "?", "answer": "x", "context": "text"},
         "column 'context' must have a mapping, not str"),
        ("musique", {"id": "m", "question": "?", "answer": "x", "paragraphs": [{"title": "x"}]},
         "row 'm': column 'paragraphs' must have paragraphs with the keys"),
        ("drop", {"query_id": "q9", "question": "?", "passage": "x", "answers_spans": {"spans": [], "types": []}},
         "row 'q9': column 'answers_spans' has an empty list"),
        ("qasper", {"pid": "p", "input": "What?", "output": "x"}, "row 'p': column 'input' must have the form"),
        ("strategy_qa", {"qid": "s", "question": "?", "answer": "maybe"}, "row 's': column 'answer' must be true or"),
        ("bbeh/nycc", {"input": "?", "target": None}, "column 'target' is null"),
        ("humaneval", {**HUMANEVAL, "entry_point": "thrice"}, "row 'HumanEval/900': column 'prompt' does not begin"),
        ("humaneval", {**HUMANEVAL, "test": "assert True"}, "column 'test' does not define 'check"),
        ("mbpp", {**MBPP, "test_list": ["assert ("]}, "row '7': column 'test_list' has the test 'assert (', which"),
        ("mbpp", {**MBPP, "test_list": ["assert 1 == 1"]}, "column 'test_list' calls no function of the program"),
    ],
)  # fmt: skip
def test_an_error_names_the_column_and_the_row(task: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read(task, row)
