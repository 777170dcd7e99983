"""What searches over one program share: which parameter it is, how a model is asked for a program, how its answer is
read, and how the program becomes a candidate and a step.

An answer is hostile input: reading it ends in a program, or in `Unusable` with one sentence about why. What it holds is
run by `Search.evaluate` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trace_bench.errors import TrainerError
from trace_bench.trainers import answers_v1
from trace_bench.trainers.answers import Unusable, Variable, cast, content, reader_of, suggestion
from trace_bench.trainers.base import Param, Rollout, Search, Slot, Step
from trace_bench.trainers.common_params import VERBOSE
from trace_bench.worker import fences
from trace_bench.worker.problem import Parameter, Problem
from trace_bench.worker.source_scan import parse

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate

MAX_TOKENS = Param("max_tokens", 8192, int, "token limit of an answer", minimum=1)
TEMPERATURE = Param(
    "temperature",
    None,
    float,
    "sampling temperature of each call; null: the model's own",
    minimum=0.0,
    maximum=2.0,
)
REQUESTS = (MAX_TOKENS, TEMPERATURE, VERBOSE)
"""Parameters that every search over one program ends with."""
DESCRIPTION_CHARACTERS = 2000
"""Of a description; every later prompt about its program holds it."""
_SUGGESTION = re.compile(r"""["']suggestion["']""")
ANSWER = (
    "Answer with the complete Python source in one code block (```python … ```): everything that `{entry}` needs, with "
    "imports and helpers, and nothing that runs it."
)
"""What a prompt ends with."""
ATTEMPTS = 3
"""Programs that are asked for until one can be used."""
PROMPT = """{objective}

{shown}{task}

First describe the idea and the main steps of your program in one sentence. {answer}"""
"""A prompt that shows programs with their descriptions, and asks for another one."""


@dataclass(frozen=True)
class Written:
    """A program that a model wrote, and what it said of it before the source (may be empty)."""

    source: str
    description: str = ""


@dataclass(frozen=True)
class Shown:
    """A program as a prompt shows it. `score` is oriented."""

    source: str
    description: str
    score: float


def program_of(problem: Problem) -> Parameter:
    """The parameter that a search over programs changes: the only trainable one, which is code.

    Raises:
        TrainerError: there are others, or it is none.
    """
    if len(problem.trainable) == 1 and problem.trainable[0].kind == "code" and problem.trainable[0].entry:
        return problem.trainable[0]
    kinds = ", ".join(f"{p.name} ({p.kind})" for p in problem.trainable)
    raise TrainerError(
        f"this trainer searches for one program, and the trainable parameters of this problem are {kinds}; use a task "
        "with one parameter of kind code, or a trainer that changes every kind, such as PrioritySearch."
    )


def renamed(source: str, name: str, new: str) -> str:
    """`source` with the function `name` as `new`: where it is defined and where it is called."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?=[ \t]{{0,8}}\()", lambda _: new, source)


def read_program(text: str, parameter: Parameter, name: str = "") -> Written:
    """The program of an answer: the one that defines the parameter's entry (`trace_bench.worker.fences.program`), else
    the ``suggestion`` of a JSON object, else the first code block. A model may quote what it was shown before it writes
    its own.

    Args:
        name: what the prompt calls the function, if that is not the parameter's entry; it is renamed wherever it
            occurs.

    Raises:
        Unusable: there is no program.
    """
    entry = parameter.entry or ""
    source: Any
    before, source, excerpt = _excerpt(text, parameter, name or entry)
    value = cast(parameter, source, reader_of(text))
    assert isinstance(value, str), "the parameter is code"
    written = re.sub(rf"\b{re.escape(name)}\b", entry, value) if name else value
    return Written(written.rstrip() + "\n" if excerpt else written, before.strip()[:DESCRIPTION_CHARACTERS])


def _excerpt(text: str, parameter: Parameter, name: str) -> tuple[str, Any, bool]:
    """(text before the program, the program, True if it is an excerpt of `text`), else the value of a suggestion."""
    if reader_of(text) == 1:
        excerpt = answers_v1.program(text, name)
        fenced = bool(answers_v1.blocks(text))
    else:
        fenced = True
        found = fences.program(text, name)
        excerpt = None if found is None else (found.before, found.source)
        if excerpt is None and not _SUGGESTION.search(text) and (blocks := fences.blocks(text)):
            # Not by a statement that is looked for, such as an import of the name.
            chosen = next((block for block in blocks if parse(block.source) is not None), blocks[0])
            excerpt = text[: blocks[0].start], chosen.source
    if excerpt is not None:
        return *excerpt, fenced
    if not _SUGGESTION.search(text):
        raise Unusable("the answer holds no code block", "no_program")
    values = suggestion(text)
    if not values or parameter.name not in values:
        raise Unusable(f"the answer suggests no {parameter.name}", "no_suggestion")
    return "", values[parameter.name], False


class ProgramSearch:
    """One search over one program: its population, its calls, its judgements. Scores in here are oriented.

    Raises:
        TrainerError: see `program_of`.
    """

    def __init__(self, search: Search) -> None:
        # Imported here: the host imports this module to list trainers, and needs nothing of it.
        from trace_bench.trainers.population import Population

        self.search = search
        self.params = search.params
        self.parameter = program_of(search.problem)
        self.entry = self.parameter.entry or ""
        self.population = Population(search)
        self.best = self.population.seed

    @property
    def statement(self) -> str:
        """The problem's objective, and the signature of the program if the objective does not show it."""
        objective, signature = self.search.problem.objective, self.parameter.signature.strip()
        if signature in objective:
            return objective
        return f"{objective}\n\nThe program defines:\n\n```python\n{signature}\n```"

    def source(self, candidate: Candidate) -> str:
        """Its program."""
        return str(candidate.state[self.parameter.name])

    def ask(self, prompt: str, slot: Slot, *, name: str = "", value: str = "") -> Written | None:
        """Ask the model for a program; None, and the event ``proposal.unusable``, where its answer holds none.

        Args:
            name: see `read_program`.
            value: the program that the new one shall differ from, for built-in models; empty: the initial one.
        """
        variable = Variable(self.parameter.name, self.parameter, value or self.parameter.value)
        response = self._chat(prompt, slot, [variable.header()])
        try:
            return read_program(content(response), self.parameter, name)
        except Unusable as why:
            self._unusable(slot, why, response, "proposal")
            return None

    def prompt(self, task: str, shown: Sequence[Shown]) -> str:
        """The prompt that shows programs, in order, and asks for what `task` says."""
        score = self.population.orientation.oriented
        way = "higher" if self.search.problem.direction == "maximize" else "lower"
        programs = [
            f"Program {number}: {one.description or '(no description)'}\n\n```python\n{one.source.rstrip()}\n```\n\n"
            f"Its score is {score(one.score):.10g} ({way} is better).\n\n"
            for number, one in enumerate(shown, start=1)
        ]
        answer = ANSWER.format(entry=self.entry).replace("Answer with", "Then give", 1)
        return PROMPT.format(objective=self.statement, shown="".join(programs), task=task, answer=answer)

    def say(self, prompt: str, slot: Slot) -> str:
        """Ask the model for a text; empty, and the event ``description.unusable``, where it gives none."""
        response = self._chat(prompt, slot, ())
        try:
            return content(response, partial=True).strip()[:DESCRIPTION_CHARACTERS]
        except Unusable as why:
            self._unusable(slot, why, response, "description")
            return ""

    def _unusable(self, slot: Slot, why: Unusable, response: Mapping[str, Any], of: str) -> None:
        # Imported here for the same reason.
        from trace_bench.trainers.answer_reading import unusable

        kind, fields = unusable(slot, why, response, of)
        self.search.log.event(kind, **fields)

    def _chat(self, prompt: str, slot: Slot, variables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        request: dict[str, Any] = {"max_tokens": self.params["max_tokens"]}
        if self.params["temperature"] is not None:
            request["temperature"] = self.params["temperature"]
        return self.search.chat([{"role": "user", "content": prompt}], slot=slot, variables=variables, **request)

    def known(self, source: str) -> Candidate | None:
        """The candidate with this program; None if it is new."""
        from trace_bench.trainers.population import state_key

        return self.population.known.get(state_key({self.parameter.name: source}))

    def add(self, source: str, slot: Slot, parents: Sequence[Candidate]) -> Candidate | None:
        """A new candidate; None, and the event ``proposal.dropped``, if its program is known."""
        name = f"s{slot.step}.{slot.candidate}.p{slot.proposal}"
        return self.population.add(name, {self.parameter.name: source}, parents, slot=str(slot))

    def judge(self, candidate: Candidate) -> tuple[Rollout, ...]:
        """Score `candidate` on all examples of the selection split."""
        rollouts = self.population.judge(candidate)
        if candidate.mean > self.best.mean:
            self.best = candidate
        return rollouts

    def scores(self, rollouts: Sequence[Rollout]) -> tuple[float, ...]:
        """Oriented scores."""
        return tuple(self.population.orientation.oriented(rollout.score) for rollout in rollouts)

    def line(
        self, slot: Slot, candidate: Candidate, rollouts: Sequence[Rollout], accepted: bool, reason: str, **extra: Any
    ) -> Step:
        """What there is to yield of `candidate`."""
        return self.population.step(slot.step, candidate, rollouts, accepted=accepted, reason=reason, **extra)

    def tell(self, step: int, explored: Sequence[str], children: Sequence[str], **more: Any) -> None:
        """The event ``search.step``, and a line to read if ``verbose``."""
        mean, known = self.population.orientation.oriented(self.best.mean), len(self.population.known)
        self.search.log.event(
            "search.step", step=step, explored=list(explored), children=list(children), best=self.best.id,
            best_mean=mean, known=known, **more,
        )  # fmt: skip
        if self.params["verbose"]:
            print(f"step {step}: {len(children)} new; best {self.best.id} {mean:.6g}, {known} known", flush=True)  # noqa: T201


def failure(rollouts: Sequence[Rollout]) -> str:
    """Why a program is no parent: the first example that it failed on; empty if it failed on none."""
    failed = [rollout.example_id for rollout in rollouts if rollout.failed]
    return f"failed on {failed[0]}" if len(failed) == 1 else f"failed on {len(failed)} examples" if failed else ""
