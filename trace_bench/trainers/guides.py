"""The guides that a trainer may be given, and the arguments each of them takes. Standard library only.

A guide that is named in the config words the feedback that an optimizer gets. Scores are always the task's own: those
of the search, by which candidates are compared, and the official ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trace_bench.trainers.base import Param

DEFAULT_GUIDE = "default"

GUIDES: Mapping[str, tuple[Param, ...]] = MappingProxyType(
    {
        DEFAULT_GUIDE: (),
        "LLMJudge": (
            Param("instruction", "", str, "instruction for the model; empty: what is wrong and how to correct it"),
            Param(
                "show_reference", True, bool, "show the model the example's reference, which the candidate never sees"
            ),
            Param("max_tokens", 512, int, "token limit of a judgement", minimum=1),
        ),
    }
)
"""Name of each guide to its arguments."""

GUIDE_WORDS: Mapping[str, str] = MappingProxyType({"Guide": DEFAULT_GUIDE, "config": DEFAULT_GUIDE, "": DEFAULT_GUIDE})
"""Other words for a guide."""
