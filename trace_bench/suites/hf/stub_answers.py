"""The answers of the stub model to an agent's questions: right more often with better prompts.

The stub knows no language. So the task, which knows the right answers, says what the stub is to say: a right or a
wrong answer, by a draw that depends on the example and the step alone. A prompt's place on its ladder is its chance of
a right answer. Two prompts are then compared on the same draws, and a search in stub mode has something to find.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.suites.hf.rows import Item

WORST, BEST = 0.1, 0.95
"""Chance of a right answer with the worst and the best prompt."""
UNKNOWN = 0.35
"""With a prompt that is on no ladder."""
_WORDS = ("Let me think about it.", "I look at what is given, one after the other.", "So this is settled.")
_BRIEF = re.compile(
    r"\b(?:brief|briefly|short|concise|concisely|nothing else|(?:number|answer) alone)\b", re.IGNORECASE
)
"""A system prompt that asks for a short answer, which is what the stub then gives."""


@dataclass
class StubAnswers:
    """What the stub model says.

    Attributes:
        seed: of the job.
        ladders: by name of a parameter: its texts from bad to good.
        code: the answers are programs.
    """

    seed: int
    code: bool = False
    ladders: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def answer(self, item: Item, place: str, step: str, state: Mapping[str, Any]) -> str:
        """A response of a model: to the step ``answer``, with a right answer or a wrong one; to any other, numbers of
        paragraphs."""
        chance = min((self._chance(name, value) for name, value in state.items()), default=UNKNOWN)
        if step != "answer":
            count = max(1, len(item.paragraphs))
            return ", ".join(str(1 + int(_unit(self.seed, place, step, k) * count)) for k in range(2))
        right = _unit(self.seed, place, step) < chance
        said = item.answer if right else item.wrong[int(_unit(self.seed, place, "wrong") * len(item.wrong))]
        if self.code:
            return f"{_WORDS[0]}\n```python\n{said.rstrip()}\n```\n"
        if "system_prompt" in state:
            brief = _BRIEF.search(str(state["system_prompt"])) is not None
            return f"#### {said}" if brief else f"{' '.join(_WORDS * 4)}\n#### {said}"
        if chance >= BEST - 0.3:
            return f"{' '.join(_WORDS)}\nAnswer: {said}" if "prompt_template" not in state else _concluded(said)
        return said if chance > WORST else f"{_WORDS[0]} Once there was {said}, and so on."

    def _chance(self, name: str, value: Any) -> float:
        ladder = self.ladders.get(name, ())
        if value not in ladder:
            return UNKNOWN
        return WORST + (BEST - WORST) * ladder.index(value) / max(1, len(ladder) - 1)


def _concluded(said: str) -> str:
    return f"{' '.join(_WORDS)}\nThe answer is {said}."


def _unit(*key: object) -> float:
    """A number from 0 to below 1 that depends on `key` alone."""
    digest = hashlib.sha256("/".join(map(str, ("trace-bench/stub", *key))).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
