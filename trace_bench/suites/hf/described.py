"""What the ``task.toml`` of a data set leaves out, since it follows from the kind of its questions: `described` fills
it in.

Standard library only: the host reads specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.suites.joined import joined

METRICS: Mapping[str, str] = {
    "hfqa": "span",
    "exact": "exact",
    "contains": "contains",
    "judged": "judge",
    "musique": "musique",
    "drop": "drop",
    "qasper": "qasper",
    "gsm8k": "number",
    "mcqa": "choice",
    "strategy_qa": "yes_no",
    "bbeh": "bbeh",
    "code_exec": "code",
}
"""The metric of each kind of question (`trace_bench.suites.hf.metrics`; ``judge`` asks the job's model, and ``code``
runs tests)."""
FOLDER = "folder"
"""Value of ``rows`` for a task whose rows lie in its own folder."""
OVERLAP = frozenset({"span", "musique", "drop", "qasper"})
"""Metrics whose score is the F1 of words, beside which stands the share of exact answers."""
_SCORES: Mapping[str, str] = {
    "span": "the F1 of the answer's words after SQuAD normalisation",
    "exact": "1 if the answer equals the right one after SQuAD normalisation, else 0",
    "contains": "1 if the response contains the words of the right answer after SQuAD normalisation, else 0",
    "judge": "1 if the language model, asked as a judge, finds that the answer agrees with the right one, else 0",
    "musique": "the best F1 of the answer's words over the answer and its aliases",
    "drop": "DROP's F1, in which numbers have to match",
    "qasper": "the best F1 of the answer's words over the annotators",
    "number": "1 if the number equals the right one, else 0",
    "choice": "1 if the right option is chosen, else 0",
    "yes_no": "1 if yes or no is right, else 0",
    "bbeh": "1 if the answer is right by the rules of BIG-Bench Extra Hard, else 0",
    "code": "1 if the program passes all tests, else 0",
}
_EXACT: dict[str, Any] = {
    "direction": "maximize", "failure": 0.0, "range": [0, 1],
    "doc": "1 if the whole answer is right after normalisation, else 0",
}  # fmt: skip
_TOKENS: dict[str, Any] = {
    "error": {"direction": "minimize", "failure": 1.0, "reference": 1.0, "range": [0, 1], "doc": "1 minus the score"},
    **{
        f"{part}_tokens": {
            "direction": "minimize", "failure": 20_000.0, "weight": 0.001, "reference": 1000.0,
            "doc": f"tokens of the {what}, as the gateway counts them",
        }
        for part, what in (("prompt", "request"), ("completion", "answer"))
    },
}  # fmt: skip
"""The metrics of a task with ``tokens = true``: all of one call of the model."""
_SIZES: Mapping[str, Mapping[str, int]] = {
    "bbeh": {"train": 8, "validate": 8, "test": 160},
    "code_exec": {"train": 40, "validate": 40, "test": 80},
}
_SIZE = {"train": 100, "validate": 100, "test": 100}


def described(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw`, a ``task.toml`` with a table ``[qa]``, and what it does not say itself."""
    qa: Mapping[str, Any] = raw["qa"]
    kind = str(qa.get("task_type"))
    metric = METRICS.get(kind, "span")
    sizes = joined(_SIZES.get(kind, _SIZE), raw["splits"] if isinstance(raw.get("splits"), Mapping) else {})
    common: dict[str, Any] = {
        "interaction": "agent",
        "statement": f"An agent that asks a language model answers the questions of a data set. The score of an answer "
        f"is {_SCORES[metric]}.",
        "score": {"direction": "maximize", "failure": 0.0, "range": [0, 1]},
        "metrics": {
            **({"exact": _EXACT} if metric in OVERLAP else {}),
            **(_TOKENS if qa.get("tokens") is True else {}),
        },
        "deterministic": False,
        "splits": _SIZE,
        "eval_kwargs": _arguments(qa, sizes),
    }
    return joined(common, {**raw, "splits": sizes})


def _arguments(qa: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"num_{split}": {
            "type": "int",
            "default": size,
            "minimum": int(split == "train"),
            "doc": f"Examples of {split}.",
        }
        for split, size in sizes.items()
    }
    agents = ["code"] if qa.get("task_type") == "code_exec" else ["instructions", "extractor"]
    if qa.get("context_format", "none") != "none":
        agents += ["chain"]  # without texts it would have none to choose from
    agents = ["system_prompt"] if qa.get("tokens") is True else agents
    found |= {
        "agent": {
            "type": "str", "default": qa.get("agent", agents[0]), "choices": agents,
            "doc": "The agent: a prompt with instructions; a prompt template with a program that reads the answer; a "
            "chain that chooses paragraphs first; a system prompt.",
        },
        "num_eval_repeats": {
            "type": "int", "default": 1, "minimum": 1, "maximum": 100,
            "doc": "Times that a question is asked in one evaluation; its score is the mean.",
        },
        "asked_at_once": {
            "type": "int", "default": 8, "minimum": 1, "maximum": 64,
            "doc": "Questions that are with the model at one time.",
        },
        "framework": {
            "type": "str", "default": "trace", "choices": ["trace", "dspy"],
            "doc": "Has no effect: agents run under every trainer. Configs of the Trace-Bench prototype have it.",
        },
    }  # fmt: skip
    if qa.get("rows") != FOLDER:
        found["fixture"] = {
            "type": "bool", "default": False,
            "doc": "Take the few rows that come with this program, written in the format of the data set, and not the "
            "data set.",
        }  # fmt: skip
    if qa.get("fact_field"):
        found["with_facts"] = {
            "type": "bool", "default": False, "doc": "Show the fact that supports the answer, which gives it away.",
        }  # fmt: skip
    return found
