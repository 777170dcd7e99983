"""TextGrad over trace-opt's prompts (Yuksekgonul et al., arXiv:2406.07496): criticism for each edge, then a rewrite.

Feedback goes back through the graph as text: for each edge the model says how the value at its lower end should change;
several such texts about one value are merged by another call; in the end each variable is rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trace_bench.trainers.answer_formats import read_improved
from trace_bench.trainers.answer_reading import Event, unusable, with_values
from trace_bench.trainers.answers import Unusable, Variable, content
from trace_bench.trainers.base import Slot
from trace_bench.trainers.optimizer_graph import View, headers, request_of, with_context
from trace_bench.trainers.prompts import AskModel, Prompt, Proposal
from trace_bench.worker.graph import load
from trace_bench.worker.graph_nodes import clipped, constraint
from trace_bench.worker.problem import Parameter

MAX_GRADIENT = 8000
"""Characters of an answer that later calls are shown: an essay must not be paid for once for each edge below it."""
_TAGS = {"new_variable_start_tag": "<IMPROVED_VARIABLE>", "new_variable_end_tag": "</IMPROVED_VARIABLE>"}


@dataclass(frozen=True)
class Passed:
    """A value on the way from a variable to the result.

    Attributes:
        name: in the prompt; the same as a variable's where it is one.
        role: what it is, in words.
        parents: names of the values that it was made from, as far as they depend on a variable or are one.
    """

    name: str
    role: str
    text: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class TextGradPrompt(Prompt):
    """See `Prompt`; `messages` is empty, since each call has its own.

    Attributes:
        values: from the variables to the results, each after its parents.
        feedback: of the examples, by the name of the value that it enters at.
        past_values: of each variable, by its name in the prompt; oldest first.
    """

    values: tuple[Passed, ...] = ()
    feedback: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    objective: str = ""
    context: str = ""
    past_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class _Talk:
    """The calls of one proposal, in order: each is one more attempt at the slot."""

    ask: AskModel
    slot: Slot
    request: Mapping[str, Any]
    events: list[Event] = field(default_factory=list)
    calls: int = 0

    def call(self, system: str, user: str, variable: Variable | None = None) -> tuple[Mapping[str, Any], Slot]:
        slot = replace(self.slot, attempt=self.calls)
        self.calls += 1
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        header = [] if variable is None else headers([variable], "improved")
        return self.ask(messages, slot, header, **self.request), slot

    def text(self, system: str, user: str, what: str) -> str:
        """The text of an answer, clipped; empty where there is none, which is an event."""
        response, slot = self.call(system, user)
        try:
            return clipped(content(response, partial=True), MAX_GRADIENT)
        except Unusable as why:
            self.events.append(unusable(slot, Unusable(f"of {what}: {why}", why.kind), response))
            return ""


@dataclass(frozen=True)
class _Gradient:
    """Criticism of one value, and the conversation that it is about."""

    text: str
    about: Mapping[str, str]


class TextGrad:
    """A call for each edge, one for each value in between with several edges out of it, and one for each variable."""

    def __init__(self, kwargs: Mapping[str, Any]) -> None:
        self.kwargs = kwargs

    def word(self, view: View) -> TextGradPrompt:
        """What the calls need of the graph, which is open."""
        size = self.kwargs["memory_size"]
        past = view.told.past if size else ()
        return TextGradPrompt(
            messages=(),
            variables=view.variables,
            state=dict(view.state),
            past=view.past(size),
            values=tuple(_values(view)),
            feedback={name: tuple(line for at, line in view.parts if at == name) for name, _ in view.parts},
            objective=view.told.objective,
            context=view.told.context,
            past_values={
                v.prompt_name: tuple(str(seen[v.prompt_name]) for seen, _ in past if v.prompt_name in seen)
                for v in view.variables
            },
        )

    def propose(self, prompt: Prompt, ask: AskModel, slot: Slot) -> Proposal:
        """Send the feedback back in words, then rewrite each variable that it reaches. May run on any thread."""
        assert isinstance(prompt, TextGradPrompt)
        talk = _Talk(ask, slot, request_of(self.kwargs))
        gradients = _backward(prompt, talk)
        state = dict(prompt.state)
        changed = False
        for variable in prompt.variables:
            if not gradients.get(variable.prompt_name):
                continue
            proposal = _rewrite(replace(prompt, state=state), variable, gradients[variable.prompt_name], talk)
            if proposal.state is not None:
                state, changed = proposal.state, True
            talk.events += proposal.events
        return Proposal(state if changed else None, tuple(talk.events))


def _values(view: View) -> Iterator[Passed]:
    """The values that criticism goes through, without the one that joins the examples: their feedback enters apart.

    Where nothing that may change is below, no criticism goes.
    """
    names = {v.prompt_name: v.parameter for v in view.variables}
    ends = {name for name, _ in view.parts}
    nodes = view.nodes if view.nodes[-1].py_name in ends else view.nodes[:-1]
    reached: set[str] = set()
    for node in nodes:
        parents = tuple(dict.fromkeys(p.py_name for p in node.parents if p.py_name in reached))
        if not parents and node.py_name not in names:
            continue
        reached.add(node.py_name)
        if (parameter := names.get(node.py_name)) is not None:
            yield Passed(node.py_name, _role(node.py_name, parameter), str(node.data), parents)
        else:
            said = re.sub(r"\[.*?\]", "", node.description or "").strip()
            yield Passed(node.py_name, f"{node.py_name} ({said.rstrip('.')})", clipped(node.data), parents)


def _role(name: str, parameter: Parameter) -> str:
    """What a variable is, in words."""
    source = f"the source of the function {parameter.entry or parameter.name}" if parameter.kind == "code" else ""
    said = parameter.description.rstrip(".") or source
    return f"{name} ({said})" if said else name


def _backward(prompt: TextGradPrompt, talk: _Talk) -> dict[str, list[_Gradient]]:
    """The criticism that reaches each value, by its name."""
    prompts = load().textgrad
    by_name = {value.name: value for value in prompt.values}
    gradients: dict[str, list[_Gradient]] = {}
    for value in reversed(prompt.values):
        if not value.parents:
            continue
        told = [f"{prompt.objective}\n\n{line}".strip() for line in prompt.feedback.get(value.name, ())]
        criticism = _one([*told, *(g.text for g in gradients.get(value.name, []))], value, talk)
        if not criticism:
            continue
        for parent in (by_name[name] for name in value.parents):
            about = {
                "response_desc": value.role,
                "response_value": value.text,
                "response_gradient": criticism,
                "prompt": parent.text,
                "variable_desc": parent.role,
                "variable_short": prompts.get_short_value(parent.text),
            }
            conversation = prompts.CONVERSATION_TEMPLATE.format(**about)
            asked = (
                prompts.CONVERSATION_START_INSTRUCTION_CHAIN.format(conversation=conversation, **about)
                + prompts.OBJECTIVE_INSTRUCTION_CHAIN.format(**about)
                + prompts.EVALUATE_VARIABLE_INSTRUCTION.format(**about)
            )
            text = talk.text(prompts.BACKWARD_SYSTEM_PROMPT, asked, f"the criticism of {parent.name}")
            if text:
                about = {"context": conversation, "response_desc": value.role, "variable_desc": parent.role}
                gradients.setdefault(parent.name, []).append(_Gradient(text, about))
    return gradients


def _one(texts: Sequence[str], value: Passed, talk: _Talk) -> str:
    """Several texts about one value as one; empty where there is none."""
    if len(texts) < 2:
        return texts[0] if texts else ""
    prompts = load().textgrad
    told = "\n".join(f"<FEEDBACK>{text}</FEEDBACK>" for text in texts)
    return talk.text(prompts.REDUCE_MEAN_SYSTEM_PROMPT, told, f"the summary for {value.name}")


def _rewrite(prompt: TextGradPrompt, variable: Variable, gradients: list[_Gradient], talk: _Talk) -> Proposal:
    prompts = load().textgrad
    value = next(v for v in prompt.values if v.name == variable.prompt_name)
    rule = constraint(variable.parameter)
    past = prompt.past_values.get(variable.prompt_name, ())
    asked = prompts.construct_tgd_prompt(
        do_momentum=bool(past),
        do_constrained=bool(rule),
        variable_desc=value.role,
        variable_short=value.text,
        variable_grad="\n".join(prompts.GRADIENT_TEMPLATE.format(feedback=g.text, **g.about) for g in gradients),
        past_values="\n".join(past),
        constraint_text=rule,
        **_TAGS,
    )
    told = f"The variable is part of this task: {prompt.objective}\n\n{asked}{with_context(prompt.context)}"
    response, slot = talk.call(prompts.OPTIMIZER_SYSTEM_PROMPT.format(**_TAGS), told, variable)
    try:
        found = read_improved(content(response))
    except Unusable as why:
        why = Unusable(f"of {variable.prompt_name}: {why}", why.kind)
        return Proposal(None, (unusable(slot, why, response),))
    if found is None:
        return Proposal(None, (("proposal.terminate", {"slot": str(slot)}),))
    return with_values(prompt, replace(found, values={variable.prompt_name: found.values[""]}), slot, response)
