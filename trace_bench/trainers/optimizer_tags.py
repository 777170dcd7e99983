"""OptoPrimeV2 and OPROv2: answers between tags instead of JSON, so that code needs no escaping. All of it is ours.

The two are part of later versions of OpenTrace than the one used here; the sections of the prompt, the form of the
answer and the limit on long values follow them, the wording does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_bench.trainers.answer_formats import Reader, read_tags
from trace_bench.trainers.optimizer_graph import View, kind_of
from trace_bench.trainers.optimizer_opro import remembered
from trace_bench.trainers.optimizer_optoprime import OptoPrime
from trace_bench.trainers.prompts import Prompt
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Value

_ANSWER = """
Answer in exactly this format, with one <variable> for each variable that you change:

<reasoning>
why the feedback is what it is, and what the changes will do
</reasoning>
<variable>
<name>name of the variable</name>
<value>
its new value, in full
</value>
</variable>

Write a value as it is: without quotes around it, without escaping anything, without a fence. You can change only the
variables that are asked for. The value of a variable of type code is Python source without syntax errors; keep the
function's name and signature. Leave out a variable that should stay as it is. If nothing needs to change, answer with
the one word TERMINATE.
"""

_GRAPH = """You improve a program by changing some of its variables. The problem that you are shown has these parts:

# Instruction: what is to be achieved.
# Code: what was run, one call in a line.
# Documentation: what the functions in # Code do. It may be incomplete; values in # Others show more.
# Variables: what you can change.
# Inputs: other values that go in, which you cannot change.
# Others: values in between.
# Outputs: what came out.
# Feedback: what was said about the outputs.

A value of # Variables is shown like this, and one of # Inputs, # Others or # Outputs with <node> for <variable>:

<variable name="its name" type="its type">
<value>
the value
</value>
<constraint>
what a value must obey
</constraint>
</variable>

Where the type is code, the value is Python source.
"""

_SOLUTION = """You improve a solution, by what was said about it and about solutions before it. You are shown:

# Instruction: what is to be achieved.
# Past: solutions that were tried before, with their feedback; if there are any.
# Solution: the variables that you can change, with their values.
# Feedback: what was said about this solution.

Where the type of a variable is code, its value is Python source.
"""


class OptoPrimeV2(OptoPrime):
    """One call: the graph as a pseudo-program, answered between tags."""

    answer_format = "tags"
    reader: Reader = staticmethod(read_tags)
    guide = _GRAPH

    def messages(self, view: View) -> tuple[Mapping[str, str], ...]:
        """System and user message."""
        names = ", ".join(v.prompt_name for v in view.variables)
        sections = "\n\n".join(f"# {title}\n{text}" for title, text in self.sections(view) if text)
        asked = f"{sections}\n\nWhich values should these variables have: {names}?\n"
        return ({"role": "system", "content": self.guide + _ANSWER}, {"role": "user", "content": asked})

    def sections(self, view: View) -> Iterable[tuple[str, str]]:
        """Title and text of each part of the problem; one without text is left out."""
        summary = view.summary
        yield "Instruction", view.told.objective
        yield "Code", "\n".join(call for _, call in sorted(summary.graph))
        yield "Documentation", "\n".join(summary.documentation.values())
        yield "Variables", self.tagged(view, summary.variables)
        yield "Inputs", self.tagged(view, summary.inputs)
        yield "Others", self.tagged(view, summary.others)
        yield "Outputs", self.tagged(view, summary.output)
        yield "Feedback", view.feedback
        yield "Context", view.told.context
        past = view.told.past if self.kwargs["memory_size"] else ()
        yield "Past", self.rounds([(variables, feedback) for variables, feedback in past])

    def tagged(self, view: View, values: Mapping[str, tuple[object, str | None]]) -> str:
        """Values with their types and constraints; what may change is shown in full, all else up to a limit."""
        parts = []
        for name, (value, rule) in values.items():
            tag = "variable" if name in view.summary.variables else "node"
            text = str(value) if tag == "variable" else self.clipped(value)
            said = f"\n<constraint>\n{rule}\n</constraint>" if rule and tag == "variable" else ""
            parts.append(
                f'<{tag} name="{name}" type="{kind_of(view, name, value)}">\n<value>\n{text}\n</value>{said}\n</{tag}>'
            )
        return "\n".join(parts)

    def rounds(self, pairs: Iterable[tuple[Mapping[str, Value], str]]) -> str:
        """What was tried before, oldest or worst first."""
        parts = []
        for number, (variables, feedback) in enumerate(pairs, 1):
            values = "\n".join(
                f"<variable>\n<name>{name}</name>\n<value>\n{self.clipped(value)}\n</value>\n</variable>"
                for name, value in variables.items()
            )
            parts.append(f'<round number="{number}">\n{values}\n<feedback>\n{feedback}\n</feedback>\n</round>')
        return "\n".join(parts)

    def clipped(self, value: object) -> str:
        """`value` as text, of about `max_value_chars` characters at most."""
        return clipped(value, self.kwargs["max_value_chars"])


class OPROv2(OptoPrimeV2):
    """One call: what was tried and what came of it, answered between tags."""

    guide = _SOLUTION

    def word(self, view: View) -> Prompt:
        """The prompt of `view`. The search's own history is its memory, so nothing goes from parent to child."""
        return Prompt(self.messages(view), view.variables, dict(view.state), ())

    def sections(self, view: View) -> Iterable[tuple[str, str]]:
        """See `OptoPrimeV2.sections`."""
        names = {v.prompt_name for v in view.variables}
        seen = remembered(view.told.history, self.kwargs["memory_size"], self.kwargs["memory_order"])
        pairs = [({name: value for name, value in s.variables.items() if name in names}, s.feedback) for s in seen]
        yield "Instruction", view.told.objective
        yield "Past", self.rounds(pairs)
        yield "Solution", self.tagged(view, view.summary.variables)
        yield "Feedback", view.feedback
        yield "Context", view.told.context
