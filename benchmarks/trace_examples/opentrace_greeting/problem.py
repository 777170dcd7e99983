"""A greeting agent whose two operators, ``decide_lang`` and ``greet``, are trainable source.

The agent's own code is fixed and trusted. The operators are candidates: `Ops.call` runs them in the
candidate runner, and what they return is checked before it is used.
"""

from __future__ import annotations

import random
from typing import Any

from trace_bench.suites import checks
from trace_bench.suites.splits import Split, split_seed, split_sizes
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, Example, Ops, Parameter, Problem

WORDS = {"en": "Hello", "es": "Hola"}
SENTENCES = {
    "en": ("Hello, I am {}.", "Hi there, my name is {}.", "Good morning, this is {}."),
    "es": ("Hola, soy {}.", "Buenos días, me llamo {}.", "Buenas tardes, mi nombre es {}."),
}
NAMES = ("Sam", "Ana", "Joan", "Luz", "Max", "Eva", "Tom", "Inés", "Ada", "Leo", "Zoe", "Raúl")

DECIDE_ENGLISH = '''def decide_lang(query: str) -> str:
    """Take every sentence for English."""
    return "en"
'''
DECIDE_BY_HOLA = '''def decide_lang(query: str) -> str:
    """Spanish where it says hola: misses other Spanish greetings."""
    return "es" if "hola" in query.lower() else "en"
'''
DECIDE_BY_WORDS = '''def decide_lang(query: str) -> str:
    """Spanish where it has a Spanish word."""
    words = query.lower().replace(",", " ").replace(".", " ").split()
    return "es" if {"hola", "soy", "llamo", "buenos", "buenas", "nombre"} & set(words) else "en"
'''
DECIDE_BROKEN = '''def decide_lang(query: str) -> str:
    """Looks a word up that is not there."""
    return {"hello": "en", "hola": "es"}[query]
'''
GREET_ENGLISH = '''def greet(lang: str, name: str) -> str:
    """Greet in English, whatever the language."""
    return f"Hello, {name}!"
'''
GREET_BOTH = '''def greet(lang: str, name: str) -> str:
    """Greet in the language asked for."""
    return f"Hola, {name}!" if lang == "es" else f"Hello, {name}!"
'''
GREET_NOBODY = '''def greet(lang: str, name: str) -> str:
    """Forget the name."""
    return "Hola!" if lang == "es" else "Hello!"
'''


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    sizes = split_sizes(context)
    return Problem(
        parameters=(
            Parameter(
                name="decide_lang",
                value=DECIDE_ENGLISH,
                kind="code",
                description="Python source that defines decide_lang: the language of a sentence",
                alternatives=(DECIDE_BY_HOLA, DECIDE_BY_WORDS, DECIDE_BROKEN),
                entry="decide_lang",
                signature='def decide_lang(query: str) -> str:\n    """Return "en" or "es"."""',
            ),
            Parameter(
                name="greet",
                value=GREET_ENGLISH,
                kind="code",
                description="Python source that defines greet: a greeting in a language",
                alternatives=(GREET_BOTH, GREET_NOBODY),
                entry="greet",
                signature='def greet(lang: str, name: str) -> str:\n    """Greet `name` in "en" or "es"."""',
            ),
        ),
        guide=judge,
        agent=agent,
        train=sentences(context, "train", sizes["train"]),
        validate=sentences(context, "validate", sizes["validate"]),
        test=sentences(context, "test", sizes["test"]),
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
    )


def sentences(context: BuildContext, split: Split, count: int) -> tuple[Example, ...]:
    """English and Spanish sentences in turn; the reference is (language, name)."""
    seed = split_seed(context, split)
    if seed is None:
        return ()
    rng = random.Random(seed)
    made = []
    for i in range(count):
        lang, name = ("en", "es")[i % 2], rng.choice(NAMES)
        made.append(Example(f"{split}-{i}", rng.choice(SENTENCES[lang]).format(name), (lang, name)))
    return tuple(made)


def agent(ops: Ops, query: Any) -> Any:
    lang = ops.call("decide_lang", query)
    name = ops.apply(name_in, query)
    return ops.call("greet", lang, name)


def name_in(query: str) -> str:
    """The name in a sentence: its last word, without the full stop."""
    return query.rstrip(".").rsplit(" ", 1)[-1]


def judge(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Half a point for the greeting word of the language, half a point for the name.

    Raises:
        CandidateError: the response is no text of at most 1000 characters.
    """
    lang, name = reference
    greeting = checks.text(response, "the greeting", longest=1000)
    word, other = WORDS[lang], WORDS["es" if lang == "en" else "en"]
    word_right = word in greeting and other not in greeting
    name_right = name in greeting
    if word_right and name_right:
        return 1.0, "The greeting is right."
    language = "English" if lang == "en" else "Spanish"
    faults = []
    if not word_right:
        faults.append(f"the sentence {query!r} is {language}, so the greeting needs {word!r} and no {other!r}")
    if not name_right:
        faults.append(f"it lacks the name {name!r}")
    return 0.5 * (word_right + name_right), f"The greeting {greeting[:80]!r} is wrong: {'; '.join(faults)}."
