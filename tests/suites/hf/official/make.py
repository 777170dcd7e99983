"""Write the files of this folder: predictions of a seeded generator, and the numbers that official scripts give them.

    python -m tests.suites.hf.official.make FOLDER

FOLDER has the official scripts under the names in README.md. Only their numbers come into the files.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import random
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROWS = 320
NAMES = [
    "Barack Obama", "The Beatles", "New York City", "St. Louis", "J. K. Rowling", "the U.S. Army", "An American Tale",
    "Saint-Étienne", "rock 'n' roll", "O'Neill", "São Paulo", "A Night at the Opera", "Marie Curie", "Zürich",
    "Lake Michigan", "World War II", "The Who", "Boeing 747", "Catch-22", "Los Angeles Rams", "x-ray crystallography",
    "Georg Friedrich Händel", "attention-based encoder", "20 July 1969", "March 5, 1953", "the 1990s", "3.5 million",
]  # fmt: skip
NUMBERS = ["18", "1,800", "3.5", "0", "-7", "1969", "50%", "$2.50", "42 yards", "2 1/2", "1e3", "007", "1_000", "nan"]
SPECIAL = ["yes", "no", "noanswer", "Yes", "No.", "no answer", "Unanswerable", "unanswerable.", "None"]
LONG = [
    "They use a bidirectional LSTM with a CRF layer on top.", "BLEU, ROUGE-L, human evaluation",
    "An F1 of 81.5 on the test set, the best of all systems", "English, German and French",
    "by averaging the word embeddings of the sentence", "No, they only report accuracy",
]  # fmt: skip

Vary = Callable[[random.Random, str], str]


def words(change: Callable[[random.Random, list[str]], list[str]]) -> Vary:
    return lambda rng, text: " ".join(change(rng, text.split()))


VARIED: list[Vary] = [
    lambda rng, text: text,
    lambda rng, text: text.upper(),
    lambda rng, text: text.lower() + ".",
    lambda rng, text: f"the {text}",
    lambda rng, text: f'"{text}"',
    lambda rng, text: f"  {text}\n",
    lambda rng, text: text.replace("-", " "),
    lambda rng, text: text.replace(" ", "-"),
    lambda rng, text: text.replace(" ", "\n", 1),
    lambda rng, text: text.replace(".", "").replace("'", ""),
    lambda rng, text: f"{text} and {rng.choice(NAMES)}",
    lambda rng, text: f"{rng.choice(NAMES)}, {text}",
    lambda rng, text: f"I believe that it is {text}, in the end",
    lambda rng, text: f"{text} {text}",
    lambda rng, text: f"{text}s",
    lambda rng, text: re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text),
    lambda rng, text: re.sub(r"(\d)(?=\b)", r"\1.0", text, count=1),
    lambda rng, text: text + f" {rng.randint(1, 99)}",
    lambda rng, text: rng.choice(NAMES),
    lambda rng, text: rng.choice(NUMBERS),
    lambda rng, text: rng.choice(SPECIAL),
    lambda rng, text: rng.choice(["", " ", ".", "a", "the", "?!", "—", "\u00a0", "İstanbul", "ﬁve", "a\u0301"]),
    words(lambda rng, parts: parts[:-1]),
    words(lambda rng, parts: parts[1:]),
    words(lambda rng, parts: rng.sample(parts, len(parts))),
    words(lambda rng, parts: [part for part in parts if rng.random() < 0.6]),
]


def drawn(rng: random.Random, answers: Sequence[str]) -> str:
    text = rng.choice(list(answers))
    for vary in rng.sample(VARIED, rng.choice([1, 1, 1, 2])):
        text = vary(rng, text)
    return text


def any_answer(rng: random.Random) -> str:
    return rng.choice(rng.choice([NAMES, NAMES, NUMBERS, SPECIAL, LONG]))


def load(folder: Path, file: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    return module


def span(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    sys.modules["ujson"] = json
    official = load(folder, "hotpot_evaluate_v1.py", "official_hotpot")
    while True:
        right = any_answer(rng)
        predicted = drawn(rng, [right])
        em, f1 = official.exact_match_score(predicted, right), official.f1_score(predicted, right)[0]
        yield {"prediction": predicted, "gold": {"answers": [right]}, "exact": float(em), "f1": float(f1)}


def musique(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(folder))
    official = load(folder, "metrics/answer.py", "official_musique")
    while True:
        answers = [any_answer(rng) for _ in range(rng.choice([1, 2, 3]))]
        predicted, metric = drawn(rng, answers), official.AnswerMetric()
        metric(predicted, answers)
        em, f1 = metric.get_metric()
        yield {"prediction": predicted, "gold": {"answers": answers}, "exact": float(em), "f1": float(f1)}


def drop(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    official = load(folder, "drop.py", "official_drop")
    while True:
        answers = [
            [any_answer(rng) for _ in range(rng.choice([1, 1, 2, 3, 5]))] for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        spans = [drawn(rng, [text]) if rng.random() < 0.6 else text for text in rng.choice(answers)]
        rng.shuffle(spans)
        predicted = rng.choice([spans, spans, spans[1:] or spans, [*spans, any_answer(rng)], [*spans, *spans]])
        pair = {
            "query_id": "0",
            "answer": {"spans": answers[0]},
            "validated_answers": [{"spans": answer} for answer in answers[1:]],
        }
        with contextlib.redirect_stdout(io.StringIO()):
            em, f1 = official.evaluate_json({"0": {"qa_pairs": [pair]}}, {"0": predicted})
        yield {"prediction": predicted, "gold": {"answers": answers}, "exact": float(em), "f1": float(f1)}


def qasper(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    official = load(folder, "evaluator.py", "official_qasper")
    kinds = {"extractive": NAMES, "abstractive": LONG, "boolean": ["Yes", "No"], "none": ["Unanswerable"]}
    while True:
        answers = []
        for kind in rng.choices(list(kinds), k=rng.choice([1, 2, 3])):
            several = (
                rng.sample(kinds[kind], rng.choice([1, 2, 3])) if kind == "extractive" else [rng.choice(kinds[kind])]
            )
            answers.append({"text": ", ".join(several), "type": kind})
        predicted = drawn(rng, [answer["text"] for answer in answers])
        gold = {"0": [{"answer": each["text"], "evidence": [], "type": each["type"]} for each in answers]}
        result = official.evaluate(gold, {"0": {"answer": predicted, "evidence": []}})
        yield {"prediction": predicted, "gold": {"answers": answers}, "f1": float(result["Answer F1"])}


SOLUTIONS = [
    "#### {}", "She has 3 + 4 = 7 left.\n#### {}", "The answer is {}.", "So 2 * 9 = {}", "{}", "{}.", "${}",
    "It is {} eggs", "Answer: {}", "The final answer is **{}**.", "4 or {}", "{} or 4", "\\boxed{{{}}}",
    "{} because 5 of 6 are red", "The answer is 5 + 13 = {} dollars", "#### {} eggs\nThat took 3 steps.",
    "I do not know", "{}%",
]  # fmt: skip


def number(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    """``strict`` is what GSM8K's authors decide, ``flexible`` what the harness decides by the last number."""
    torch = types.ModuleType("torch")
    torch.utils = types.SimpleNamespace(data=types.SimpleNamespace(Dataset=object))  # type: ignore[attr-defined]
    sys.modules["torch"] = torch
    official = load(folder, "dataset.py", "official_gsm8k")
    names = types.ModuleType("lm_eval.api.filter"), types.ModuleType("lm_eval.api.registry")
    names[0].Filter = object  # type: ignore[attr-defined]
    names[1].register_filter = lambda name: lambda made: made  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in names} | {"lm_eval": types.ModuleType("lm_eval")}
    harness = load(folder, "extraction.py", "official_extraction")
    regex = harness.RegexFilter(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1)
    matched = function_of(folder / "lm_eval_metrics.py", "exact_match_hf_evaluate")
    ignored = [",", "\\$", "(?s).*#### ", "\\.$"]
    while True:
        right = str(rng.choice([rng.randint(-20, 30), rng.randint(31, 2000), rng.randint(2001, 3_000_000), 0]))
        value = int(right)
        shown = rng.choice(
            [right, right, right, f"{value:,}", f"{value}.0", str(value + 1), str(-value), f"{value * 2}/2"]
        )
        predicted = rng.choice(SOLUTIONS).format(shown)
        gold = f"Some steps.\n#### {value:,}"
        found = regex.apply([[predicted]], [{}])
        flexible = matched([found[0][0]], [gold], regexes_to_ignore=ignored, ignore_case=True)["exact_match"]
        strict = official.is_correct(predicted, {"answer": gold})
        yield {"prediction": predicted, "gold": {"answer": right}, "strict": float(strict), "flexible": float(flexible)}


def function_of(file: Path, name: str) -> Any:
    """One function of a module that imports much else."""
    tree = ast.parse(file.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    scope: dict[str, Any] = {"np": np, "re": re}
    exec(compile(tree, str(file), "exec"), scope)
    return scope[name]


BBEH = [
    "(A)", "(C)", "b", "E", "4", "404.0", "67.75", "-52", "yes", "No", "ambiguous", "disproved", "1,1,0", "no, yes, no",
    "A, A, C", "chair, paper, patch", "[anna, ben]", "unanswerable", "els llaços", "[ətkəbox]", "He cried.", "to bite",
    "'oy abatz'i", "150, 2", "southern black widow", "what is it?", "8, 12, 3",
]  # fmt: skip
SAID = [
    "The answer is: {}", "The answer is {}.", "Ok. The final answer is: {}", "The final answer is {}", "{}", "{}.",
    "{}?", "The answer is: **{}**", "The answer is: \\boxed{{{}}}.", "The answer is: $\\boxed{{\\text{{{}}}}}$",
    "[{}]", "({})", "The answer is: {}\nThat is why.", "The answer is: {}, or so", "the answer is: {}",
    "The answer is: '{}'", "The answer is: 7. No, wait. The answer is: {}", "The answer is:\n{}", "Answer: {}",
    "The final answer is:\n{}", "The answer is: \\texttt{{{}}}", "{}\n\nIt follows from the second rule.",
    "The answer is: {}..", "The answer is ({})", "The answer is: [{}]", "${}$", "The answer is: {} and more",
]  # fmt: skip


def bbeh(folder: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    official = load(folder, "evaluate.py", "official_bbeh")
    changes: list[Callable[[str], str]] = [
        str, str, str, str.lower, str.upper, lambda text: text.strip("()[]"), lambda text: text.replace(", ", ","),
        lambda text: text.replace(",", ", "), lambda text: f"{text}.0", lambda text: text.replace("'", ""),
        lambda text: f"({text})", lambda text: rng.choice(BBEH),
    ]  # fmt: skip
    while True:
        right = rng.choice(BBEH)
        predicted = rng.choice(SAID).format(rng.choice(changes)(right))
        exact = official.evaluate_correctness(predicted, right)
        yield {"prediction": predicted, "gold": {"answer": right}, "exact": float(exact)}


MAKERS = (span, musique, drop, qasper, number, bbeh)


def main(folder: Path) -> None:
    for maker in MAKERS:
        made: dict[str, None] = {}
        for row in maker(folder, random.Random(maker.__name__)):
            made[json.dumps(row, ensure_ascii=False)] = None
            if len(made) == ROWS:
                break
        (HERE / f"{maker.__name__}.jsonl").write_text("".join(f"{line}\n" for line in made), encoding="utf-8")
        print(maker.__name__, len(made))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
