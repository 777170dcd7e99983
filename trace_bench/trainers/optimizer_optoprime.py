"""OptoPrime and OptoPrimeMulti over trace-opt's prompts (Cheng, Nie, Swaminathan, arXiv:2406.16218).

trace-opt's classes word the prompt. Asking the model and reading its answer are ours: trace-opt asks twice on any
error, drops suggestions that contain "def" and are no Python, casts ``bool("False")`` to True, and takes "TERMINATE"
anywhere in an answer for a refusal (`docs/design/graph.md`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.answer_formats import Reader, read_json
from trace_bench.trainers.answer_reading import Event, proposal_of, unusable
from trace_bench.trainers.answers import Unusable, Variable, cast, content
from trace_bench.trainers.base import Slot, State
from trace_bench.trainers.optimizer_graph import View, headers, kind_of, request_of, with_context
from trace_bench.trainers.prompts import AskModel, Prompt, Proposal
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Parameter

MAX_SHOWN = 8000
"""Characters of an earlier answer that a later call is shown."""


class OptoPrime:
    """One call: the graph as a pseudo-program, answered in JSON."""

    answer_format = "json"
    reader: Reader = staticmethod(read_json)

    def __init__(self, kwargs: Mapping[str, Any]) -> None:
        self.kwargs = kwargs

    def word(self, view: View) -> Prompt:
        """The prompt of `view`; the graph is open."""
        past = view.past(self.kwargs["memory_size"])
        return Prompt(self.messages(view), view.variables, dict(view.state), past)

    def messages(self, view: View) -> tuple[Mapping[str, str], ...]:
        """System and user message. OptoPrime's own splits the prompt at a phrase that source may contain."""
        prompter = _prompter(view)
        rules = prompter.output_format_prompt.replace("{{", "{").replace("}}", "}")  # never formatted by trace-opt
        told = prompter.user_prompt_template.format(problem_instance=str(prompter.problem_instance(view.summary)))
        told += with_context(view.told.context)
        past = view.told.past if self.kwargs["memory_size"] else ()
        if past:
            examples = "\n".join(json.dumps({"variables": dict(v), "feedback": f}, indent=4) for v, f in past)
            told += f"\nBelow are some variables and their feedbacks you received in the past.\n\n{examples}\n\n"
        return (
            {"role": "system", "content": prompter.representation_prompt + rules},
            {"role": "user", "content": told + prompter.final_prompt},
        )

    def request(self) -> dict[str, Any]:
        """What a call sends besides messages."""
        form = {"response_format": {"type": "json_object"}} if self.answer_format == "json" else {}
        return request_of(self.kwargs, **form)

    def propose(self, prompt: Prompt, ask: AskModel, slot: Slot) -> Proposal:
        """Ask once, and read the answer. May run on any thread."""
        messages = [dict(message) for message in prompt.messages]
        response = ask(messages, slot, headers(prompt.variables, self.answer_format), **self.request())
        return proposal_of(prompt, response, slot, self.reader)


class OptoPrimeMulti(OptoPrime):
    """Several answers to OptoPrime's prompt, of which one is chosen."""

    def propose(self, prompt: Prompt, ask: AskModel, slot: Slot) -> Proposal:
        """Ask for `num_responses` answers, and choose among the usable ones; each call is an attempt at `slot`."""
        answers: list[str] = []
        usable: list[tuple[int, State]] = []
        events: list[Event] = []
        for number, temperature in enumerate(self._temperatures()):
            place = replace(slot, attempt=number)
            messages = [dict(message) for message in prompt.messages]
            if told := self._told(answers):
                messages.append({"role": "user", "content": told})
            request = {**self.request(), "temperature": temperature}
            response = ask(messages, place, headers(prompt.variables), **request)
            proposal = proposal_of(prompt, response, place, self.reader)
            events += proposal.events
            if proposal.state is not None:
                usable.append((number, proposal.state))
                answers.append(content(response))
        state, more = self._chosen(prompt, ask, replace(slot, attempt=self.kwargs["num_responses"]), usable)
        return Proposal(state, (*events, *more))

    def _temperatures(self) -> list[float]:
        count, high, low = (self.kwargs[k] for k in ("num_responses", "max_temperature", "min_temperature"))
        if self.kwargs["generation_technique"] != "temperature_variation":
            return [high] * count
        return [high - i * (high - low) / max(1, count - 1) for i in range(count)]

    def _told(self, answers: list[str]) -> str:
        """What a call after the first is told of the answers so far; empty where it is told nothing."""
        if not answers:
            return ""
        match self.kwargs["generation_technique"]:
            case "self_refinement":
                return (
                    "This is an answer that was given before. Find its weaknesses, and give a better one in the same "
                    f"format.\n\n{clipped(answers[-1], MAX_SHOWN)}"
                )
            case "iterative_alternatives":
                shown = "\n\n".join(f"Answer {i}:\n{clipped(a, MAX_SHOWN)}" for i, a in enumerate(answers, 1))
                return (
                    "These answers were given before. Give another one in the same format, which takes a different "
                    f"way from all of them.\n\n{shown}"
                )
            case _:
                return ""

    def _chosen(
        self, prompt: Prompt, ask: AskModel, slot: Slot, usable: list[tuple[int, State]]
    ) -> tuple[State | None, tuple[Event, ...]]:
        """One of the `usable` states: the last unless told otherwise."""
        states = [state for _, state in usable]
        different = list({repr(sorted(state.items())): state for state in states}.values())
        technique = self.kwargs["selection_technique"]
        if len(different) < 2 or technique == "last":
            return (states[-1] if states else None), ()
        if technique == "majority":
            counts = Counter(repr(sorted(state.items())) for state in states)
            return max(different, key=lambda state: counts[repr(sorted(state.items()))]), ()
        return self._best_of(prompt, ask, slot, different)

    def _best_of(
        self, prompt: Prompt, ask: AskModel, slot: Slot, states: list[State]
    ) -> tuple[State, tuple[Event, ...]]:
        """Let the model choose, at temperature 0; an answer that chooses nothing is an event, and the last is taken."""
        shown = []
        for number, state in enumerate(states, 1):
            values = {v.prompt_name: state[v.parameter.name] for v in prompt.variables}
            shown.append(f"Candidate {number}:\n{clipped(json.dumps(values, indent=4), MAX_SHOWN)}")
        told = (
            f"These are {len(states)} candidate suggestions for the problem above.\n\n"
            + "\n\n".join(shown)
            + "\n\nWhich "
            "of them improves the output most? Do not suggest values of variables now: answer in the same JSON format, "
            f'with the number of the best candidate, from 1 to {len(states)}, as "choice" in "suggestion".'
        )
        choice = Parameter("choice", len(states), "int", bounds=(1.0, float(len(states))))
        messages = [*map(dict, prompt.messages), {"role": "user", "content": told}]
        header = headers([Variable("choice", choice, len(states))])
        response = ask(messages, slot, header, **{**self.request(), "temperature": 0.0})
        try:
            found = read_json(content(response))
            if found is None or "choice" not in found.values:
                raise Unusable('the answer holds no "choice"', "no_suggestion")
            return states[int(cast(choice, found.values["choice"])) - 1], ()
        except Unusable as why:
            why = Unusable(f"of the choice: {why}; the last candidate is taken", why.kind)
            return states[-1], (unusable(slot, why, response),)


def _no_model(**_: Any) -> Any:
    raise TrainerError("an optimizer of trace-opt tried to call a model by itself; proposals go through the gateway.")


def _prompter(view: View) -> Any:
    """trace-opt's OptoPrime over the nodes of `view`, without the parts that word the prompt wrongly."""
    opto = view.graph.opto
    nodes = [view.graph.parameters[p.name] for p in view.graph.problem.trainable]

    class Prompter(opto.OptoPrime):  # type: ignore[misc, name-defined]  # trace-opt has no types
        def repr_node_value(self, node_dict: Mapping[str, tuple[Any, Any]]) -> str:
            """Variables in full, everything else clipped; source is marked as the system prompt explains it."""
            lines = []
            for name, (value, _) in node_dict.items():
                if name in view.source:
                    lines.append(f"(code) {name}:{value}")
                else:
                    text = value if name in view.summary.variables else clipped(value)
                    lines.append(f"({type(value).__name__}) {name}={text}")
            return "\n".join(lines)

        def repr_node_constraint(self, node_dict: Mapping[str, tuple[Any, Any]]) -> str:
            return "\n".join(
                f"({kind_of(view, name, value)}) {name}: {constraint}"
                for name, (value, constraint) in node_dict.items()
                if constraint is not None
            )

        def _step(self, *args: Any, **kwargs: Any) -> Any:
            return _no_model()

    return Prompter(nodes, llm=_no_model, objective=view.told.objective, log=False)
