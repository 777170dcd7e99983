"""Reads the rows of data sets: what is asked, over which texts, among which options, and what is right.

The formats are those of the Hugging Face hub, where rows are dicts. In the sandbox: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.suites.hf.code_rows import mbpp_question, program_that_returns_none
from trace_bench.suites.hf.columns import Row
from trace_bench.suites.hf.wrong_answers import number_of, wrong_numbers, wrong_spans, wrong_target

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LABELLED = re.compile(r"\s*\(?([A-Z])\s*[).:]\s*(.*)", re.DOTALL)
"""An option with its label in front, as AQuA-RAT writes it: ``A)21``."""
_CONVERTED = re.compile(r"\s*Q:\s*(.*?)\s*\n\s*Text:\s*(.*)", re.DOTALL)
"""Question and paper in one text, as the converted Qasper has them."""
_YES_NO = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}

Pairs = tuple[tuple[str, str], ...]


class Unusable(ValueError):
    """The row is as its format says, and cannot be judged here."""


@dataclass(frozen=True)
class Item:
    """A row as agents and metrics know it.

    Attributes:
        question: what is asked; of a program to write, what is said of it.
        paragraphs: (title, text) of each text that the answer is in; a title may be empty.
        options: (label, text) of each option; labels are A, B, C and so on.
        gold: what the metric compares with (`trace_bench.suites.hf.metrics`).
        answer: a right answer, as a person would write it.
        wrong: one to three answers that are wrong and plausible.
    """

    question: str
    paragraphs: Pairs
    options: Pairs
    gold: Mapping[str, Any]
    answer: str
    wrong: tuple[str, ...]


def item_of(row: Mapping[str, Any], qa: Mapping[str, Any], *, with_facts: bool = False, held_out: bool = False) -> Item:
    """Read a row of a data set.

    Args:
        row: the row as the hub has it.
        qa: the table ``[qa]`` of the task's ``task.toml`` (`trace_bench.suites.spec_tables.QaSpec`).
        with_facts: add the text of ``fact_field``, which gives the answer away, to the paragraphs.
        held_out: the row is of ``test_split``. DROP has one annotator's answer in its training split and those of
            several in the other one, which the row itself does not say.

    Raises:
        ValueError: a column is missing, or has another shape than the format says. The message names the column and
            the row.
        Unusable: the tests of a program use more of it than one function.
    """
    columns = Row(row)
    kind = str(qa.get("task_type", "hfqa"))
    split = str(qa.get("test_split" if held_out else "train_split", ""))
    facts: Pairs = (("", columns.text(str(qa["fact_field"]))),) if with_facts and qa.get("fact_field") else ()
    if kind == "drop":
        return _drop(columns, qa, facts, several=split not in ("", "train"))
    return _READERS[kind](columns, qa, facts)


def _question(row: Row, qa: Mapping[str, Any]) -> str:
    return row.text(str(qa.get("question_field") or "question"))


def _answer_field(qa: Mapping[str, Any]) -> str:
    return str(qa.get("answer_field") or "answer")


def _paragraphs(row: Row, qa: Mapping[str, Any]) -> Pairs:
    """The texts of the context, in the format that `qa` names."""
    column, shape = str(qa.get("context_field") or "context"), qa.get("context_format", "none")
    if shape == "plain":
        value = row.value(column)
        return tuple(
            ("", text) for text in (row.texts(column) if isinstance(value, list | tuple) else [row.text(column)])
        )
    if shape == "hotpot_qa":
        titles, sentences = row.mapped(column, row.value(column), "title", "sentences")
        return tuple(
            (row.checked_text(column, title), " ".join(str(one).strip() for one in row.listed(column, some)))
            for title, some in zip(titles, sentences, strict=True)
        )
    if shape == "musique":
        found = []
        for paragraph in row.listed(column, row.value(column)):
            if not isinstance(paragraph, Mapping) or not {"title", "paragraph_text"} <= set(paragraph):
                raise row.error(column, "must have paragraphs with the keys 'title' and 'paragraph_text'")
            found.append(tuple(row.checked_text(column, paragraph[key]) for key in ("title", "paragraph_text")))
        return tuple((title, text) for title, text in found)
    return ()


def _spans(row: Row, column: str) -> list[str]:
    """The answers of a column that has one, a list of them, or a mapping with them under ``text``, as in SQuAD."""
    value = row.value(column)
    if isinstance(value, Mapping):
        (value,) = row.mapped(column, value, "text")
    if isinstance(value, list | tuple):
        return [row.checked_text(column, one) for one in row.listed(column, value)]
    return [row.checked_text(column, value)]


def _hfqa(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    paragraphs, answers = _paragraphs(row, qa) + facts, _spans(row, _answer_field(qa))
    gold = {"answers": list(dict.fromkeys(answers))}
    return Item(_question(row, qa), paragraphs, (), gold, answers[0], wrong_spans(answers, paragraphs))


def _musique(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    if row.optional("answerable", True) is False:
        raise row.error("answerable", "says that the paragraphs do not have the answer")
    paragraphs, answer = _paragraphs(row, qa) + facts, row.text(_answer_field(qa))
    aliases = row.texts("answer_aliases") if row.optional("answer_aliases") else []
    answers = list(dict.fromkeys([answer, *aliases]))
    return Item(_question(row, qa), paragraphs, (), {"answers": answers}, answer, wrong_spans(answers, paragraphs))


def _drop(row: Row, qa: Mapping[str, Any], facts: Pairs, *, several: bool) -> Item:
    column = str(qa.get("answer_field") or "answers_spans")
    spans, types = row.mapped(column, row.value(column), "spans", "types")
    texts = [row.checked_text(column, span) for span in spans]
    answers = annotated(texts, [str(kind) for kind in types], several=several)
    paragraphs = _paragraphs(row, qa) + facts
    wrong = wrong_spans([span for answer in answers for span in answer], paragraphs)
    return Item(_question(row, qa), paragraphs, (), {"answers": answers}, ", ".join(answers[0]), wrong)


def annotated(spans: Sequence[str], types: Sequence[str], *, several: bool) -> list[list[str]]:
    """The answers of each annotator of DROP, from the one list in which the hub's copy has all their spans.

    An answer is one number, one date, or spans, so a number or date is an answer of its own. An annotator gives a span
    once, so an answer ends before a span that it has already. Several annotators who repeat nothing do not agree, and
    most give one span: each span is then an answer.

    >>> annotated(["Ado", "Bex", "Ado", "Bex"], ["span"] * 4, several=True)
    [['Ado', 'Bex']]
    >>> annotated(["Ado", "Bex"], ["span"] * 2, several=True)
    [['Ado'], ['Bex']]
    >>> annotated(["Ado", "Bex"], ["span"] * 2, several=False)
    [['Ado', 'Bex']]
    """
    answers: list[list[str]] = []
    before = ""
    for span, kind in zip(spans, types, strict=True):
        if kind == before == "span" and span.lower() not in map(str.lower, answers[-1]):
            answers[-1].append(span)
        else:
            answers.append([span])
        before = kind
    if several and len(answers) == 1:
        answers = [[span] for span in answers[0]]
    return [answer for number, answer in enumerate(answers) if answer not in answers[:number]]


def _qasper(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    if "qas" in row:
        return _native_qasper(row, facts)
    column = str(qa.get("question_field") or "input")
    question = row.text(column)
    found = _CONVERTED.fullmatch(question)
    paragraphs = _paragraphs(row, qa) if "context" in row else ()
    if found is not None:
        question, paragraphs = found[1], (("", found[2].strip()),)
    elif not paragraphs:
        raise row.error(column, "must have the form 'Q: …', line break, 'Text: …'")
    answer = row.text(str(qa.get("answer_field") or "output"))
    gold = {"answers": [{"text": answer, "type": _qasper_type(answer, paragraphs[0][1])}]}
    return Item(question, paragraphs + facts, (), gold, answer, wrong_spans([answer], paragraphs))


def _qasper_type(answer: str, paper: str) -> str:
    """The kind of an answer whose row does not say it. Spans of the paper are joined by commas."""
    if answer.lower() in ("yes", "no"):
        return "boolean"
    if answer.lower() == "unanswerable":
        return "none"
    return "extractive" if answer in paper or all(part in paper for part in answer.split(", ")) else "abstractive"


def _native_qasper(row: Row, facts: Pairs) -> Item:
    """A paper of ``allenai/qasper``, whose rows have all questions on a paper. The first one is asked."""
    names, bodies = row.mapped("full_text", row.value("full_text"), "section_name", "paragraphs")
    sections = [(str(name or ""), "\n".join(map(str, body))) for name, body in zip(names, bodies, strict=True)]
    abstract = [("Abstract", row.text("abstract"))] if "abstract" in row else []
    paragraphs = tuple((name, text) for name, text in abstract + sections if text.strip())
    questions, annotations = row.mapped("qas", row.value("qas"), "question", "answers")
    (answers,) = row.mapped("qas", annotations[0], "answer")
    gold = [_annotated_answer(row, answer) for answer in answers]
    texts = [answer["text"] for answer in gold]
    question = row.checked_text("qas", questions[0])
    return Item(question, paragraphs + facts, (), {"answers": gold}, texts[0], wrong_spans(texts, paragraphs))


def _annotated_answer(row: Row, answer: object) -> dict[str, str]:
    """An annotator's answer as Qasper's evaluator reads it."""
    if not isinstance(answer, Mapping):
        raise row.error("qas", f"must have answers that are mappings, not {type(answer).__name__}")
    if answer.get("unanswerable"):
        return {"text": "Unanswerable", "type": "none"}
    if answer.get("extractive_spans"):
        return {"text": ", ".join(map(str, answer["extractive_spans"])), "type": "extractive"}
    if answer.get("free_form_answer"):
        return {"text": str(answer["free_form_answer"]).strip(), "type": "abstractive"}
    if isinstance(answer.get("yes_no"), bool):
        return {"text": "Yes" if answer["yes_no"] else "No", "type": "boolean"}
    raise row.error("qas", "has an answer that says nothing")


def _number(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    column = _answer_field(qa)
    answer = row.text(column).rpartition("####")[2].strip()
    number = number_of(answer)
    if number is None:
        raise row.error(column, f"must end with a number, after '####', not with {answer[-40:]!r}")
    plain = answer.replace(",", "").lstrip("$")
    return Item(_question(row, qa), _paragraphs(row, qa) + facts, (), {"answer": plain}, plain, wrong_numbers([plain]))


def _choice(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    column = str(qa.get("options_field") or "options")
    labels, texts = _options(row, column)
    right = _right_option(row, qa, labels, texts)
    options = tuple(zip(LETTERS, texts, strict=False))
    letter = LETTERS[right]
    wrong = [(right + step) % len(texts) for step in range(1, len(texts))][:2]
    return Item(
        question=_question(row, qa),
        paragraphs=_paragraphs(row, qa) + facts,
        options=options,
        gold={"label": letter, "options": [list(option) for option in options]},
        answer=f"({letter})",
        wrong=tuple(f"({LETTERS[number]})" for number in wrong),
    )


def _options(row: Row, column: str) -> tuple[list[str], list[str]]:
    """Labels, as the row has them, and texts of the options."""
    value = row.value(column)
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        value = {key: [option.get(key) for option in value] for key in ("label", "text")}
    if isinstance(value, Mapping):
        raw_texts, raw_labels = row.mapped(column, value, "text", "label")
        labels, texts = ([row.checked_text(column, one) for one in some] for some in (raw_labels, raw_texts))
    else:
        texts = row.texts(column)
        labels = list(LETTERS[: len(texts)])
        parts = [_LABELLED.fullmatch(text) for text in texts]
        if all(part is not None and part[1] == label for part, label in zip(parts, labels, strict=False)):
            texts = [row.checked_text(column, part[2]) for part in parts if part is not None]
    if not 2 <= len(texts) <= len(LETTERS):
        raise row.error(column, f"has {len(texts)} options; there must be 2 to {len(LETTERS)}")
    if len(set(labels)) < len(labels):
        raise row.error(column, f"has the labels {', '.join(labels)}, of which some are equal")
    return labels, texts


def _right_option(row: Row, qa: Mapping[str, Any], labels: list[str], texts: list[str]) -> int:
    """The place of the right option: the answer is its number, its label or its text."""
    column = _answer_field(qa)
    answer = row.value(column)
    if isinstance(answer, int) and not isinstance(answer, bool):
        base = int(qa.get("answer_index_base", 0))
        if not base <= answer < base + len(texts):
            last = base + len(texts) - 1
            raise row.error(column, f"is {answer}; options have the numbers {base} to {last} (answer_index_base)")
        return answer - base
    if answer == "":
        raise row.error(column, "is empty: test labels may be hidden, so name another split that has them")
    name = row.checked_text(column, answer)
    for names in (labels, texts):
        if name in names:
            return names.index(name)
    raise row.error(column, f"names the option {name!r}, which is not among {', '.join(labels)}")


def _strategy_qa(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    column = _answer_field(qa)
    answer = row.value(column)
    right = _YES_NO.get(str(answer).strip().lower())
    if right is None:
        raise row.error(column, f"must be true or false, not {str(answer)[:40]!r}")
    paragraphs = _paragraphs(row, qa) + facts
    return Item(_question(row, qa), paragraphs, (), {"answer": right}, right, ("no" if right == "yes" else "yes",))


def _bbeh(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    target = row.text(_answer_field(qa))
    return Item(_question(row, qa), _paragraphs(row, qa) + facts, (), {"answer": target}, target, wrong_target(target))


def _code(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    column = str(qa.get("test_field") or "test")
    if isinstance(row.value(column), str):
        return _humaneval(row, qa, facts)
    tests, prompt = row.texts(column), _question(row, qa)
    # The full MBPP has `test_setup_code`, which is text, and the sanitized one `test_imports`, a list.
    imports = next((name for name in (str(qa.get("setup_field", "")), "test_imports") if name in row), "")
    setup = row.optional(imports, "") if imports else ""
    solution = str(row.optional("code", ""))
    entry, question, others = mbpp_question(row, column, prompt, tests, solution)
    if others:
        raise Unusable(f"the tests of {entry} use {' and '.join(others)} of the program, and data alone can reach them")
    gold = {
        "style": "mbpp", "entry": entry, "prompt": question, "tests": tests,
        "setup": setup if isinstance(setup, str) else "\n".join(map(str, setup)), "solution": solution,
    }  # fmt: skip
    return Item(question, facts, (), gold, solution, (program_that_returns_none(entry),))


def _humaneval(row: Row, qa: Mapping[str, Any], facts: Pairs) -> Item:
    test_column, entry_column = str(qa.get("test_field") or "test"), str(qa.get("entry_field") or "entry_point")
    prompt_column = str(qa.get("question_field") or "prompt")
    prompt, entry, test = row.source(prompt_column), row.text(entry_column), row.source(test_column)
    if not re.search(rf"^def {re.escape(entry)}\(", prompt, re.MULTILINE):
        raise row.error(prompt_column, f"does not begin the function {entry!r}, the {entry_column}")
    if "def check(" not in test:
        raise row.error(test_column, "does not define 'check(candidate)'")
    solution = prompt + row.source("canonical_solution") if "canonical_solution" in row else ""
    gold = {
        "style": "humaneval", "entry": entry, "prompt": prompt, "tests": [test], "setup": "", "solution": solution,
    }  # fmt: skip
    return Item(prompt, facts, (), gold, solution, (program_that_returns_none(entry),))


_READERS: Mapping[str, Callable[[Row, Mapping[str, Any], Pairs], Item]] = {
    "hfqa": _hfqa,
    "exact": _hfqa,
    "contains": _hfqa,
    "judged": _hfqa,
    "musique": _musique,
    "qasper": _qasper,
    "gsm8k": _number,
    "mcqa": _choice,
    "strategy_qa": _strategy_qa,
    "bbeh": _bbeh,
    "code_exec": _code,
}
