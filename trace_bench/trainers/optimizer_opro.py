"""OPRO over trace-opt's prompt (Yang et al., arXiv:2309.03409): what was tried and what came of it, and no graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from trace_bench.trainers.optimizer_graph import View, with_context
from trace_bench.trainers.optimizer_optoprime import OptoPrime
from trace_bench.trainers.prompts import Prompt, Seen
from trace_bench.worker.graph_nodes import constraint


def remembered(history: Sequence[Seen], size: int, order: str) -> list[Seen]:
    """The `size` pairs of `history` that a prompt shows; the most telling one last.

    Args:
        order: ``score``: the best ones, the best of them last; of equal scores the later one comes later. ``time``: the
            latest ones, as they came.
    """
    if size == 0:
        return []
    kept = sorted(history, key=lambda seen: seen.score) if order == "score" else list(history)
    return kept[-size:]


def current(view: View) -> Seen:
    """The pair of the candidate that `view` is of. Its score is not compared with others here."""
    return Seen(view.seen, view.feedback, 0.0)


class OPRO(OptoPrime):
    """One call: past (variables, feedback) pairs and the objective, answered in JSON."""

    def word(self, view: View) -> Prompt:
        """The prompt of `view`. The search's own history is its memory, so nothing goes from parent to child."""
        return Prompt(self.messages(view), view.variables, dict(view.state), ())

    def messages(self, view: View) -> tuple[Mapping[str, str], ...]:
        """System and user message. The candidate at hand is the last pair, wherever its score would put it."""
        opro = view.graph.opto.OPRO
        size, order = self.kwargs["memory_size"], self.kwargs["memory_order"]
        pairs = [*remembered(view.told.history, size - 1, order), current(view)]
        names = {v.prompt_name for v in view.variables}
        examples = "\n".join(_example(pair, names) for pair in pairs)
        asked = f"{view.told.objective}\n{with_context(view.told.context)}{_variables(view)}"
        return (
            {"role": "system", "content": opro.output_format_prompt.replace("{{", "{").replace("}}", "}")},
            {"role": "user", "content": opro.user_prompt_template.format(examples=examples, instruction=asked)},
        )


def _example(pair: Seen, names: set[str]) -> str:
    variables = {name: value for name, value in pair.variables.items() if name in names}
    return json.dumps({"variables": variables, "feedback": pair.feedback}, indent=4)


def _variables(view: View) -> str:
    """What may be suggested: OPRO's prompt names neither types nor constraints, and a value that breaks one is lost."""
    lines = []
    for variable in view.variables:
        said = constraint(variable.parameter)
        lines.append(f"({variable.parameter.kind}) {variable.prompt_name}{f': {said}' if said else ''}")
    return "Variables, with the types and constraints of their values:\n" + "\n".join(lines)
