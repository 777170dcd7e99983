"""What holds for the metrics of question answering, whatever the response is."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.integration.cli import REPOSITORY
from trace_bench.suites.hf.described import METRICS
from trace_bench.suites.hf.metrics import KINDS, drop, judge, spans
from trace_bench.suites.hf.metrics.drop import exact_and_f1
from trace_bench.suites.hf.metrics.reading import LONGEST_ANSWER, answer_of
from trace_bench.suites.hf.rows import item_of

OPTIONS = [["A", "dog"], ["B", "cat"], ["C", "blue whale"], ["D", "a hawk"]]
GOLD: Mapping[str, Mapping[str, Any]] = {
    "span": {"answers": ["Paris"]},
    "exact": {"answers": ["Paris"]},
    "contains": {"answers": ["Paris"]},
    "musique": {"answers": ["Paris", "the city of light"]},
    "qasper": {"answers": [{"text": "a CRF, an LSTM", "type": "extractive"}, {"text": "Yes", "type": "boolean"}]},
    "drop": {"answers": [["Bears", "Lions", "Packers"], ["1,800"]]},
    "number": {"answer": "18"},
    "choice": {"label": "B", "options": OPTIONS},
    "yes_no": {"answer": "yes"},
    "bbeh": {"answer": "(A)"},
}
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=30)
sayable = words.filter(
    lambda text: (
        "answer" not in text.lower()
        and "boxed" not in text
        and len(spans.normalised(text)) > 0
        and text == text.strip()
    )
)
anything = st.text(max_size=300) | st.lists(
    st.sampled_from(
        ["answer is", "Answer:", "####", "\n", " ", "B", "(A)", "I", "a", "yes", "no", "not", "or", "18", "-", "1,800",
         "3/0", ".", "\\boxed{", "}", "$", "**", "dog", "the", "\ud800", "\x00", "nan", "1e99", "9" * 70]
    ),
    max_size=40,
).map(" ".join)  # fmt: skip


def test_the_examples_cover_every_metric() -> None:
    assert set(GOLD) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@given(response=anything)
def test_scores_and_metrics_are_between_0_and_1(kind: str, response: str) -> None:
    judgement = judge(kind, response, GOLD[kind])
    overlap = {"f1"} if kind in ("span", "musique", "qasper", "drop") else set()
    assert judgement.metrics.keys() == {"exact"} | overlap
    assert all(0.0 <= value <= 1.0 for value in (judgement.score, *judgement.metrics.values()))
    assert judgement.score == judgement.metrics["f1" if overlap else "exact"]
    assert judgement.remark and len(judgement.remark) < 300


@given(text=sayable)
def test_a_right_answer_scores_1(text: str) -> None:
    for kind in ("span", "musique"):
        assert judge(kind, text, {"answers": ["other", text]}).metrics == {"exact": 1.0, "f1": 1.0}
    assert judge("qasper", text, {"answers": [{"text": text, "type": "abstractive"}]}).score == 1.0
    assert judge("bbeh", f"The answer is: {text}", {"answer": text}).score == 1.0 or text[-1] in ".}$*" or "**" in text


@given(texts=st.lists(sayable.filter(lambda text: drop.normalised(text) != ""), min_size=1, max_size=5))
def test_right_spans_of_drop_on_lines_of_their_own_score_1(texts: list[str]) -> None:
    listed = "\n".join(f"- {text}" for text in texts)
    assert judge("drop", listed, {"answers": [texts]}).metrics == {"exact": 1.0, "f1": 1.0}


@given(
    value=st.integers(-(10**15), 10**15), form=st.sampled_from(["{}", "{:,}", "{}.0", "${}", "{}%", "#### {}", "{}."])
)
def test_a_right_number_scores_1_in_every_form(value: int, form: str) -> None:
    for response in (form.format(value), f"It is 7 at first. The answer is {form.format(value)}"):
        assert judge("number", response, {"answer": str(value)}).score == 1.0
        assert judge("number", response, {"answer": str(value + 1)}).score == 0.0


@given(
    label=st.sampled_from("ABCD"), form=st.sampled_from(["{}", "({})", "{}.", "{})", "The answer is {}.", "{}: why"])
)
def test_a_right_label_scores_1_and_a_wrong_one_0(label: str, form: str) -> None:
    for right, text in OPTIONS:
        assert judge("choice", form.format(label), {"label": right, "options": OPTIONS}).score == float(label == right)
        assert judge("choice", text, {"label": right, "options": OPTIONS}).score == 1.0


@given(text=words)
@example("The  U.S.-Army, an army")
def test_squad_normalisation_is_idempotent(text: str) -> None:
    assert spans.normalised(spans.normalised(text)) == spans.normalised(text)


@given(text=st.text("ab the-.,$%1290 ", max_size=30))
@example("1,800 yards, the 3.50-yard run")
def test_the_normalisation_of_drop_is_idempotent_but_for_numbers_with_a_negative_exponent(text: str) -> None:
    once = drop.normalised(text)
    assert drop.normalised(once) == once or "e-" in once


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "contains"])
@pytest.mark.parametrize("form", ["{} and other things", "{} or something else", "perhaps {}, perhaps another thing"])
def test_more_than_the_right_answer_is_not_exact(kind: str, form: str) -> None:
    if kind in ("number", "choice", "yes_no"):
        others = {"number": "18 or 19", "choice": "B or C", "yes_no": "yes or no"}
        assert judge(kind, others[kind], GOLD[kind]).score == 0.0
        return
    answers: Sequence[str] = {
        "span": ["Paris"], "exact": ["Paris"], "musique": ["Paris", "the city of light"],
        "qasper": ["Yes", "a CRF, an LSTM"], "drop": ["Bears, Lions and Packers", "1,800"],
        "bbeh": ["(A)", "The answer is: (A)"],
    }[kind]  # fmt: skip
    for answer in answers:
        assert judge(kind, answer, GOLD[kind]).metrics["exact"] == 1.0
        assert judge(kind, form.format(answer), GOLD[kind]).metrics["exact"] == 0.0


@given(other=sayable)
def test_more_words_than_the_right_answer_has_are_not_exact(other: str) -> None:
    for kind in ("span", "musique", "qasper", "drop"):
        if spans.normalised(other) and drop.normalised(other):
            assert (
                judge(kind, f"Paris {other}", GOLD[kind] | {"answers": _shaped(kind, "Paris")}).metrics["exact"] == 0.0
            )


def _shaped(kind: str, text: str) -> list[Any]:
    return [{"text": text, "type": "extractive"}] if kind == "qasper" else [[text]] if kind == "drop" else [text]


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("I know.", 0.0), ("It is known", 0.0), ("no", 1.0), ("No, I know.", 1.0),
    ],
)  # fmt: skip
def test_know_is_not_no(response: str, score: float) -> None:
    assert judge("yes_no", response, {"answer": "no"}).score == score
    assert judge("span", "know", {"answers": ["no"]}).score == 0.0


@pytest.mark.parametrize(
    ("response", "score"),
    [("It is new york, I think.", 1.0), ("New, York", 1.0), ("York, new", 0.0), ("New Yorkshire", 0.0), ("", 0.0)],
)
def test_contains_looks_for_whole_words_in_order(response: str, score: float) -> None:
    assert judge("contains", response, {"answers": ["Boston", "The New York"]}).score == score


HOSTILE = {
    "letters": "a" * 1_000_000, "words": "the answer is " * 72_000, "labels": "(A) " * 250_000,
    "lines": "B.\n" * 333_000,
    "digits": "9" * 1_000_000, "groups": "1," + "111," * 250_000,
    "braces": "\\boxed{" * 140_000,
    "yes": "yes, " * 200_000,
    "spaces": " " * 500_000 + "x" + "\n" * 500_000, "stars": "*" * 1_000_000,
    "quotes": "\"'(" * 333_000,
    "marks": "answer:" * 140_000, "colons": "answer:\n" * 125_000, "signs": "1+" * 500_000 + "=",
    "calculation": "answer: " + "1+" * 5_000 + "=", "spans": "x, " * 333_000, "fractions": "1/" * 500_000,
    "options": "option " * 140_000, "dashes": "-" * 1_000_000, "commas": "," * 1_000_000, "hash": "####" * 250_000,
    "sorted": " ".join(f"w{number}" for number in range(150_000)), "bullets": "- " * 500_000, "text": "text{" * 200_000,
    "few": "x, " * 3_300, "few numbers": "1 and " * 90, "is correct": "B is " * 200_000, "A": "A " * 500_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_long_and_hostile_responses_take_less_than_a_second(kind: str) -> None:
    slow = {}
    for name, response in HOSTILE.items():
        start = time.process_time()
        judge(kind, response, GOLD[kind])
        taken = time.process_time() - start
        if taken > 1:
            slow[name] = taken
    assert slow == {}


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_at_the_end_of_a_long_response_is_read(kind: str) -> None:
    said = {"number": "18", "choice": "B", "yes_no": "yes", "drop": "1,800", "bbeh": "(A)", "qasper": "Yes"}
    response = "Let us think. " * 50_000 + f"\nThe answer is: {said.get(kind, 'Paris')}"
    assert judge(kind, response, GOLD[kind]).score == 1.0


def test_an_answer_far_before_the_end_of_a_long_response_is_not_read() -> None:
    for kind, said in {"number": "18", "choice": "B", "yes_no": "yes", "span": "Paris"}.items():
        assert judge(kind, f"Answer: {said}\n" + "more " * 20_001, GOLD[kind]).score == 0.0


def test_a_long_response_without_an_explicit_answer_is_not_read_as_a_span() -> None:
    response = "Paris " * LONGEST_ANSWER
    for kind in ("span", "musique", "qasper", "drop"):
        judgement = judge(kind, response, GOLD[kind])
        assert judgement.score == 0.0 and "explicit answer" in judgement.remark


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Paris", "Paris"),
        ("It is known.\nAnswer: Paris", "Paris"),
        ("The answer is Paris.", "Paris"),
        ("Final answer: **Paris**", "Paris"),
        ("**Final Answer:**\n\nParis\nLyon\n\nI am sure.", "Paris\nLyon"),
        ("Answer: Lyon. No: the answer is Paris", "Paris"),
        ("So we get $\\boxed{\\text{Paris {x}}}$.", "Paris {x}"),
        ("The answer would be: Paris\nThe reason is its size.", "Paris"),
        ("There is no answer", "There is no answer"),
        ("unanswerable", "unanswerable"),
        ("Answer:", "Answer:"),
        ("I think.\n<answer>\nParis\n</answer> Lyon", "Paris"),
        ("The answer to the question is Paris.", "Paris"),
    ],
)
def test_the_answer_of_a_response(response: str, answer: str) -> None:
    assert answer_of(response) == answer


def test_a_remark_quotes_the_response_and_not_the_right_answer() -> None:
    for kind in KINDS:
        for response in ("", "Zanzibar", "The answer is Zanzibar, not 7", "x" * 200_000):
            remark = judge(kind, response, GOLD[kind]).remark
            assert not any(text in remark for text in ("Paris", "light", "CRF", "Bears", "18", "cat", "(A)")), remark
    assert judge("span", "Lyon\n" * 100, GOLD["span"]).remark.count("\n") == 0


def test_hotpot_gives_nothing_for_words_beside_yes_or_no() -> None:
    assert judge("span", "yes, it is", {"answers": ["yes"]}).score == 0.0
    assert judge("qasper", "Yes, it is", {"answers": [{"text": "Yes", "type": "boolean"}]}).score == 0.5


def test_texts_without_words_are_equal_in_musique_alone() -> None:
    assert judge("musique", "the", {"answers": ["A"]}).metrics == {"exact": 1.0, "f1": 1.0}
    assert judge("span", "the", {"answers": ["A"]}).metrics == {"exact": 1.0, "f1": 0.0}
    assert judge("qasper", "the", {"answers": [{"text": "A", "type": "extractive"}]}).score == 0.0
    assert judge("drop", "the", {"answers": [[" "], ["Bears"]]}).score == 0.0


def test_drop_aligns_spans_so_that_the_sum_is_the_largest() -> None:
    vocabulary = ["red", "blue", "green", "old", "new", "car", "boat", "7"]
    texts = [" ".join(pair) for pair in permutations(vocabulary, 2)]
    for offset in range(0, 50, 3):
        predicted, right = texts[offset : offset + 5], texts[offset + 2 : offset + 6]
        single = {(p, r): exact_and_f1([p], [r])[1] for p in predicted for r in right}
        best = max(sum(single[p, r] for p, r in zip(order, right, strict=False)) for order in permutations(predicted))
        assert exact_and_f1(predicted, right)[1] == pytest.approx(best / 5, abs=0.011)


def test_drop_needs_a_right_number() -> None:
    assert judge("drop", "1801 yards", {"answers": [["1,800 yards"]]}).score == 0.0
    assert judge("drop", "1800.0 yards", {"answers": [["1,800 yards"]]}).metrics == {"exact": 1.0, "f1": 1.0}
    assert judge("drop", "Bears and Lions", {"answers": [[""], ["Lions", "Bears"]]}).score == 1.0
    assert judge("drop", "1,800 and 3", {"answers": [["1,800", "3"]]}).score == 1.0
    assert judge("drop", "1. Bears\n2. Lions", {"answers": [["Lions", "Bears"]]}).score == 1.0


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("18 or 19", "19"), ("The answer is 18 or 19.", "19"), ("#### 18\nand 5 more", "18"),
        ("answer: 5 + 13 = 18", "18"),
        ("The answer is 18 because 3 * 6 is 18 and 2 + 2 = 4", "18"), ("3/4", "0.75"), ("\\frac{3}{4}", "3/4"),
        ("-$18", "-18"), ("−18", "-18"), ("3-4", "4"), ("1{,}800", "1800"), ("It is 18 km^2", "18"), (".5", "1/2"),
        ("The answer is not 7. It is 18", "18"), ("\\boxed{18} eggs of 20", "18"), ("1.8e1", "18"),
        ("#### x\n18", "18"),
        ("Answer: In 2 weeks she earns $18. That is 5 more.", "18"),
        ("Answer: She makes 9 * 2 = 18", "18"), ("The answer is about 18, for 2 days", "18"), ("Answer: x = 18", "18"),
        ("The answer is 20 - 2 = $18 for 3", "18"), ("The answer is 17 or 19 or 18", "18"),
        ("<answer>18</answer> 3", "18"),
    ],
)  # fmt: skip
def test_the_number_of_a_response(response: str, value: str) -> None:
    assert judge("number", response, {"answer": value}).score == 1.0
    assert judge("number", response, {"answer": "-1"}).score == 0.0


def test_a_response_without_a_number_is_answered_with_the_format() -> None:
    for response in ("eighteen", "", "5/0", "9" * 100):
        assert "####" in judge("number", response, GOLD["number"]).remark
    with pytest.raises(ValueError, match="has no number"):
        judge("number", "18", {"answer": "many"})


def test_a_full_stop_of_the_right_answer_does_not_matter_in_bbeh() -> None:
    assert judge("bbeh", "The answer is: He cried.", {"answer": "He cried."}).score == 1.0
    assert judge("bbeh", "The answer is: He cried", {"answer": "He cried."}).score == 1.0
    assert judge("bbeh", "The answer is: He tried.", {"answer": "He cried."}).score == 0.0


def test_the_metrics_need_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import trace_bench.suites.hf.metrics; print(*set(sys.modules) - before)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert foreign == {"trace_bench"}, foreign


def test_right_answers_of_the_rows_that_come_with_the_suite_score_1_and_wrong_ones_less() -> None:
    compared = 0
    for task in sorted((REPOSITORY / "benchmarks" / "hf").rglob("task.toml")):
        qa = tomllib.loads(task.read_text(encoding="utf-8"))["qa"]
        kind = METRICS[qa["task_type"]]
        folder = REPOSITORY / "benchmarks" / "hf" / "fixtures" / qa["dataset_id"].replace("/", "--")
        for split in {qa["train_split"], qa["test_split"]} if kind != "code" else ():
            file = folder / f"{split}.jsonl"
            for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
                item = item_of(json.loads(line), qa, held_out=split == qa["test_split"])
                said = "The answer is" if kind == "bbeh" else "Answer"  # as the official script of BBEH has it
                for response in (item.answer, f"I think so.\n{said}: {item.answer}", f"The answer is: {item.answer}."):
                    assert judge(kind, response, item.gold).score == 1.0, (task, response, item.gold)
                assert all(judge(kind, wrong, item.gold).score < 1.0 for wrong in item.wrong), (task, item)
                compared += 1
    assert compared > 50


def test_numbers_are_finite() -> None:
    for response in ("nan", "inf", "-inf 7", "1e999"):
        assert math.isfinite(judge("drop", response, {"answers": [["nan"], ["7"]]}).score)
