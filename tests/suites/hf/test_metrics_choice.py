"""Which option, and whether yes or no, a response says: responses labelled by hand."""

from __future__ import annotations

import pytest

from trace_bench.suites.hf.metrics import judge

OPTIONS = [["A", "dog"], ["B", "cat"], ["C", "blue whale"], ["D", "A red-tailed hawk"]]
CHOICES: list[tuple[str, str | None]] = [
    # a label, and nothing else
    ("B", "B"), ("(B)", "B"), ("B.", "B"), ("B)", "B"), ("[B]", "B"), ("b", "B"), ("a", "A"), ("**B**", "B"),
    ("  B \n", "B"), ('"B"', "B"), ("\\boxed{C}", "C"), ("$\\boxed{\\text{C}}$.", "C"), ("E", None), ("I", None),
    # the text of an option
    ("cat", "B"), ("The cat.", "B"), ("A dog", "A"), ("blue  Whale", "C"), ("A red-tailed hawk", "D"), ("cats", None),
    ("blue", None), ("cat and other things", None), ("the blue whale and the cat", None),
    # explicit choices
    ("The answer is B", "B"), ("Answer: B", "B"), ("answer: b.", "B"), ("The answer is (B) cat.", "B"),
    ("**Answer:** **D**", "D"), ("Final answer: D) A red-tailed hawk", "D"), ("## Answer\nC", "C"),
    ("Answer:\n\nC", "C"), ("The final answer is $\\boxed{C}$.", "C"), ("The answer is A because it barks.", "A"),
    ("The answer is A dog.", "A"), ("The answer is a dog", "A"), ("The answer is A cat.", "B"),
    ("The answer is cat, since it purrs.", "B"), ("The correct option is C.", "C"), ("C is correct.", "C"),
    ("(C) blue whale is the best answer.", "C"), ("I choose (B).", "B"), ("Between (A) and (B), I choose (B)", "B"),
    ("I'd go with C", "C"), ("My choice: D", "D"), ("The answer is option B", "B"), ("A is the right answer", "A"),
    ("Answer: B\nAnswer: C", "C"), ("The answer is B. No, wait: the answer is C.", "C"),
    ("(A) is tempting, and (B) too. The answer is (D).", "D"), ("Answer: B, not A", "B"),
    ("Answer: A. I know that I am right", "A"), ("Answer: none of these", None), ("Answer: B or C", None),
    ("The answer is B and C.", None), ("The answer is not B.", None), ("The answer is a matter of taste", None),
    ("The answer is in the text.", None), ("The answer to the question is B. (A) barks.", "B"),
    ("(B) is correct. No, the answer is C.", "C"), ("The answer is C. No, B is correct.", "B"),
    ("Answer: A big dog", None), ("The answer is B, A is wrong.", "B"), ("The answer is B, and I am sure.", "B"),
    ("<answer>C</answer>", "C"), ("A. dog barks.\nB. cat purrs.\n\nTherefore, the correct answer is **B. cat**.", "B"),
    # lines and sentences
    ("B. I am sure", "B"), ("B: because it purrs", "B"), ("B - cat", "B"), ("(C) blue whale", "C"),
    ("C\n\nIt is large. I like it.", "C"), ("It is large.\n\nC", "C"), ("It is large.\nblue whale", "C"),
    ("A dog is the best pet.", None), ("I am sure.", None), ("I think B.", "B"), ("I think that it must be A.", "A"),
    ("(A) is wrong, (C) is right", "C"), ("(A) is wrong. It must be (C).", "C"), ("It can't be B, so C.", "C"),
    ("Option C", "C"), ("Not B.", None), ("B-cells do it", None), ("It has vitamin C.", None), ("B or C", None),
    ("A. dog\nB. cat\nC. blue whale\nD. A red-tailed hawk", None), ("A. dog\nB. cat\nC. blue whale\n\nC", "C"),
    ("B. blue whale", None), ("Maybe (A), maybe (B)", None), ("", None), ("I do not know.", None),
]  # fmt: skip


@pytest.mark.parametrize(("response", "label"), CHOICES)
def test_the_option_that_a_response_chooses(response: str, label: str | None) -> None:
    for right, _ in OPTIONS:
        judgement = judge("choice", response, {"label": right, "options": OPTIONS})
        assert judgement.score == judgement.metrics["exact"] == float(right == label), judgement
        assert judgement.remark.startswith("The answer was read as" if label else ("No option", "Several options"))


def test_options_with_numbers_as_labels_or_texts() -> None:
    options = [["1", "3.5"], ["2", "35"], ["3", "-5"], ["4", "5"]]
    said = {"2": "2", "(2)": "2", "35": "2", "3.5": "1", "-5": "3", "The answer is 4.": "4", "It weighs 2.5 kg": None}
    for response, label in said.items():
        for right, _ in options:
            assert judge("choice", response, {"label": right, "options": options}).score == float(right == label), (
                response
            )


def test_a_number_without_its_point_is_another_number() -> None:
    assert judge("choice", "35", {"label": "A", "options": [["A", "3.5"], ["B", "7"]]}).score == 0.0
    assert judge("choice", "3.5", {"label": "A", "options": [["A", "3.5"], ["B", "7"]]}).score == 1.0


def test_an_option_may_be_that_none_is_right() -> None:
    options = [["A", "21"], ["B", "42"], ["C", "None of these"], ["D", "Not enough information"]]
    said = {"The answer is none of these.": "C", "Answer: not enough information": "D", "Answer: not B": None}
    for response, label in said.items():
        for right, _ in options:
            assert judge("choice", response, {"label": right, "options": options}).score == float(right == label), (
                response
            )


def test_the_pronoun_is_no_label_where_there_are_nine_options() -> None:
    options = [[letter, f"word {letter.lower()}"] for letter in "ABCDEFGHI"]
    for response, label in {
        "I am sure": None,
        "I think H.": "H",
        "Answer: I think so": None,
        "I.": "I",
        "The answer is (I)": "I",
    }.items():
        scores = {right: judge("choice", response, {"label": right, "options": options}).score for right, _ in options}
        assert [right for right, score in scores.items() if score] == ([label] if label else []), response


YES_NO: list[tuple[str, str | None]] = [
    ("Yes", "yes"), ("no.", "no"), ("**Yes**", "yes"), ("(yes)", "yes"), ("'No'", "no"), ("\nno\n", "no"),
    ("YES!", "yes"),
    ("True", "yes"), ("False.", "no"), ("Yes, it is.", "yes"), ("No, it is not.", "no"), ("Yes — definitely", "yes"),
    # yes and no as parts of something else
    ("no doubt: Yes", "yes"), ("Yes, no doubt", "yes"), ("No doubt.", None), ("I know.", None), ("No one knows.", None),
    ("No. 5 is alive", None), ("Yes-men", None), ("There is no evidence.", None), ("Nope", None), ("yesterday", None),
    ("There is no evidence. Yes.", "yes"), ("Yes, there is no such thing.", "yes"), ("There is now a yes vote", None),
    # explicit answers
    ("The answer is yes", "yes"), ("Answer: No", "no"), ("**Answer:** no, since it sinks", "no"),
    ("Yes, one might think. The answer is no.", "no"), ("Answer: yes\n\nNo, really.", "yes"),
    ("The answer is a clear no.", "no"), ("The answer is most likely yes.", "yes"), ("\\boxed{\\text{No}}", "no"),
    ("Answer: False", "no"), ("Answer: yes\nAnswer: no", "no"), ("The answer is not yes", None),
    ("The answer is no doubt yes", None), ("Answer: yes or no", None), ("the answer is no, yes", None),
    # the last statement
    ("No, wait. Yes.", "yes"), ("It sinks. So no", "no"), ("It would be no.", "no"), ("I say yes!", "yes"),
    ("It floats. Therefore, yes.", "yes"), ("Does it float? Yes.", "yes"), ("Reasoning: it sinks\nno", "no"),
    ("Yes and no.", None), ("yes/no", None), ("", None), ("It depends.", None),
]  # fmt: skip


@pytest.mark.parametrize(("response", "said"), YES_NO)
def test_whether_a_response_says_yes_or_no(response: str, said: str | None) -> None:
    for right in ("yes", "no"):
        judgement = judge("yes_no", response, {"answer": right})
        assert judgement.score == judgement.metrics["exact"] == float(right == said), judgement
        assert judgement.remark.startswith("The answer was read as" if said else "Neither yes nor no")


def test_there_are_enough_labelled_responses() -> None:
    assert len(CHOICES) >= 60 and len(CHOICES) + len(YES_NO) >= 120
