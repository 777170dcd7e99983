"""From a model's answer to a proposal: whatever it holds, this ends in a state or in events that say why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.trainers.answer_formats import Found, Reader
from trace_bench.trainers.answers import Unusable, Variable, cast, content, pick
from trace_bench.trainers.base import Slot
from trace_bench.trainers.prompts import Prompt, Proposal
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Value

Event = tuple[str, Mapping[str, Any]]
MAX_NAMES = 16
"""Unknown or broken names that one answer's event tells of."""
MAX_REASON = 1000
"""Characters of a reason."""


def proposal_of(prompt: Prompt, response: Mapping[str, Any], slot: Slot, reader: Reader) -> Proposal:
    """The state that the answer proposes, or None where it proposes nothing.

    What cannot be used is an event (``proposal.unusable`` for a whole answer, ``proposal.rejected`` for one value,
    ``proposal.unknown_variables``, ``proposal.terminate``), never an error.
    """
    try:
        found = reader(content(response))
    except Unusable as why:
        return Proposal(None, (unusable(slot, why, response),))
    if found is None:
        return Proposal(None, (("proposal.terminate", {"slot": str(slot)}),))
    return with_values(prompt, found, slot, response)


def with_values(prompt: Prompt, found: Found, slot: Slot, response: Mapping[str, Any] | None = None) -> Proposal:
    """The prompt's state with the values that were found, as far as its parameters admit them. If they admit none, the
    whole answer is unusable, which is one more event."""
    events: list[Event] = []
    picked, unknown = pick(found.values, prompt.variables)
    if unknown:
        names = [clipped(name, 100) for name in unknown[:MAX_NAMES]]
        events.append(("proposal.unknown_variables", {"slot": str(slot), "names": names}))
    names_of = {v.prompt_name: v.parameter.name for v in prompt.variables}
    for name, why in list(found.broken.items())[:MAX_NAMES]:
        events.append(_rejected(slot, names_of.get(name) or clipped(name, 100), why))
    state = dict(prompt.state)
    taken = 0
    for variable in prompt.variables:
        name = variable.parameter.name
        if name not in picked:
            continue
        try:
            value = cast(variable.parameter, picked[name], found.reader)
            state[name] = _ended(variable, value) if found.framed else value
            taken += 1
        except Unusable as why:
            events.append(_rejected(slot, name, str(why)))
    if taken:
        return Proposal(state, tuple(events))
    rejected = [f"{fields['variable']}: {fields['reason']}" for kind, fields in events if kind == "proposal.rejected"]
    if rejected:
        nothing = Unusable(f"no value can be used: {'; '.join(rejected)}", "invalid_value")
    else:
        nothing = Unusable("the answer names no variable of the prompt", "unknown_names")
    return Proposal(None, (*events, unusable(slot, nothing, response)))


def _ended(variable: Variable, value: Value) -> Value:
    """`value` with the white space at its ends that tags cannot tell of: that of the old value where all else is the
    same, and a line end after source."""
    old = variable.value
    if isinstance(value, str) and isinstance(old, str):
        if value.strip() == old.strip():
            return old
        if variable.parameter.kind == "code":
            return value.rstrip() + "\n"
    return value


def unusable(slot: Slot, why: Unusable, response: Mapping[str, Any] | None = None, of: str = "proposal") -> Event:
    """The event of an answer that proposes nothing (or holds no summary, if that is what it is `of`). That it was cut
    off is its kind, whatever is missing in it."""
    cut = was_cut_off(response or {}) and why.kind not in ("refused", "cut_off")
    return f"{of}.unusable", {
        "slot": str(slot),
        "kind": "cut_off" if cut else why.kind,
        "reason": clipped(f"{why}{' (the answer was cut off at max_tokens)' if cut else ''}", MAX_REASON),
    }


def _rejected(slot: Slot, name: str, why: str) -> Event:
    return "proposal.rejected", {"slot": str(slot), "variable": name, "reason": why}


def was_cut_off(response: Mapping[str, Any]) -> bool:
    """Return True if the answer ended at the limit on its tokens."""
    try:
        return bool(response["choices"][0]["finish_reason"] == "length")
    except (KeyError, IndexError, TypeError):
        return False
