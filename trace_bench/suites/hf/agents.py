"""Agents that answer the questions of data sets with the job's model. Their prompts and programs are what is optimized.

An agent's graph has a node for each prompt, each answer of the model and each call of a program. Every trainer can
optimize it, those of DSPy too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.suites.hf.rows import Item
from trace_bench.suites.hf.stub_answers import StubAnswers
from trace_bench.worker.problem import AsksModel, CandidateError, Ops, Parameter

LONGEST_PROMPT = 50_000
"""Characters of a prompt that is a parameter."""
_NUMBER = re.compile(r"\d{1,4}")


class Question(str):
    """The text of a question, with what else the agent may use of its row.

    Attributes:
        place: names the example among all of the problem.
        item: its row. An agent reads question, paragraphs and options alone.
    """

    place: str
    item: Item

    @classmethod
    def of(cls, item: Item, place: str) -> Question:
        options = "".join(f"\n({label}) {text}" for label, text in item.options)
        made = cls(item.question + options)
        made.place, made.item = place, item
        return made


class Answered(str):
    """An answer of the model.

    Attributes:
        prompt_tokens, completion_tokens: of the call, as the gateway counted them.
    """

    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, text: str, prompt_tokens: int, completion_tokens: int) -> Answered:
        made = cls(text)
        made.prompt_tokens, made.completion_tokens = prompt_tokens, completion_tokens
        return made


@dataclass(frozen=True)
class Agent:
    """An agent and its parameters.

    Attributes:
        run: ``run(ops, question) -> response``.
        described: the agent for the statement that an optimizer reads.
    """

    parameters: tuple[Parameter, ...]
    run: Callable[[Ops, Any], Any]
    described: str


class Asked:
    """The model, as agents ask it: one prompt, one text."""

    def __init__(self, model: AsksModel, stub: StubAnswers) -> None:
        self._model = model
        self._stub = stub

    def about(self, question: Question, step: str, state: Mapping[str, Any]) -> Callable[[str], str]:
        """A function that asks the model `step` of what `question` needs."""
        in_stub = self._stub.answer(question.item, question.place, step, state)

        def ask_model(prompt: str) -> str:
            """The answer of a language model to a prompt."""
            answer = self._model.ask([{"role": "user", "content": prompt}], f"{question.place};{step}", in_stub)
            return str(answer.text)

        return ask_model

    def under(self, question: Question, state: Mapping[str, Any]) -> Callable[[str], Answered]:
        """A function that asks the model `question` under a system prompt."""
        in_stub = self._stub.answer(question.item, question.place, "answer", state)

        def ask_model(system_prompt: str) -> Answered:
            """The answer of a language model to the question, under a system prompt."""
            system = checked_prompt(system_prompt, "system_prompt")
            messages = [{"role": "system", "content": system}, {"role": "user", "content": str(question)}]
            answer = self._model.ask(messages, f"{question.place};answer", in_stub)
            return Answered.of(answer.text, answer.prompt_tokens, answer.completion_tokens)

        return ask_model


def texts_of(paragraphs: Sequence[tuple[str, str]]) -> str:
    """Paragraphs as a prompt shows them, each with its number and title."""
    if len(paragraphs) == 1 and not paragraphs[0][0]:
        return paragraphs[0][1]
    return "\n".join(
        f"Paragraph {number}{f' ({title})' if title else ''}: {text}"
        for number, (title, text) in enumerate(paragraphs, 1)
    )


# --------------------------------------------------------------------------------------------------- instructions


def with_instructions(asked: Asked, start: str) -> Agent:
    """One prompt: instructions, the texts, the question."""
    ladder = _from(start or INSTRUCTIONS[1], INSTRUCTIONS)

    def run(ops: Ops, question: Any) -> Any:
        instructions = ops.param("meta_instructions")
        prompt = ops.apply(instructed_prompt, instructions, question)
        state = {"meta_instructions": _text(ops, instructions)}
        return ops.apply(asked.about(question, "answer", state), prompt)

    return Agent(
        (_prompt("meta_instructions", "Instructions that stand before the texts and the question", ladder),),
        run,
        "The prompt is `meta_instructions`, then the texts, then the question. The answer is what the model writes "
        "after a last 'Answer:', or all that it writes.",
    )


def instructed_prompt(instructions: str, question: Question) -> str:
    """The prompt: instructions, the texts if there are any, the question."""
    parts = [checked_prompt(instructions, "meta_instructions").strip()]
    if question.item.paragraphs:
        parts.append(f"Context:\n{texts_of(question.item.paragraphs)}")
    return "\n\n".join([*filter(None, parts), f"Question: {question}", "Answer:"])


# -------------------------------------------------------------------------------------------------- system prompt


def with_system_prompt(asked: Asked, start: str) -> Agent:
    """One system prompt. The response is the whole answer of the model, with its tokens."""
    ladder = _from(start or SYSTEM_PROMPTS[1], SYSTEM_PROMPTS)

    def run(ops: Ops, question: Any) -> Any:
        prompt = ops.param("system_prompt")
        return ops.apply(asked.under(question, {"system_prompt": _text(ops, prompt)}), prompt)

    return Agent(
        (_prompt("system_prompt", "The system prompt; the question is the user's message", ladder),),
        run,
        "The system prompt is `system_prompt`, the user's message the question. Tokens of both and of the model's "
        "answer count.",
    )


# ------------------------------------------------------------------------------------------------------ extractor


def with_extractor(asked: Asked, start: str, kind: str) -> Agent:
    """A prompt template, and a program that reads the answer out of what the model writes."""
    ladder = _from(start or TEMPLATES[1], TEMPLATES)

    def run(ops: Ops, question: Any) -> Any:
        template = ops.param("prompt_template")
        prompt = ops.apply(filled_template, template, question)
        response = ops.apply(asked.about(question, "answer", {"prompt_template": _text(ops, template)}), prompt)
        return ops.call("extract_answer", response)

    extractor = Parameter(
        name="extract_answer",
        value=EXTRACTORS[1],
        kind="code",
        description="Python source that defines extract_answer",
        alternatives=tuple(source for source in EXTRACTORS if source != EXTRACTORS[1]),
        ladder=EXTRACTORS,
        entry="extract_answer",
        signature='def extract_answer(response: str) -> str:\n    """The answer in what the model wrote."""',
    )
    forms = {"choice": "the label of an option, such as (B)", "number": "a number", "yes_no": "yes or no"}
    return Agent(
        (
            _prompt("prompt_template", "The prompt, with {question} and, if there are texts, {context}", ladder),
            extractor,
        ),
        run,
        "The prompt is `prompt_template` with the question in place of {question} and the texts in place of {context}. "
        "`extract_answer` reads the answer out of what the model writes"
        + (f": {forms[kind]}." if kind in forms else "."),
    )


def filled_template(template: str, question: Question) -> str:
    """The template with the question and the texts put in."""
    template = checked_prompt(template, "prompt_template")
    if "{question}" not in template:
        raise CandidateError("compile", "prompt_template lacks {question}: the model would not be asked anything")
    context = texts_of(question.item.paragraphs)
    if context and "{context}" not in template:
        template = "{context}\n\n" + template
    # One pass: a question that holds {context} is left as it is.
    given = {"{question}": str(question), "{context}": context}
    return re.sub(r"\{question\}|\{context\}", lambda found: given[found[0]], template)


# ---------------------------------------------------------------------------------------------------------- chain


def with_chain(asked: Asked, start: str) -> Agent:
    """Two prompts: the first chooses paragraphs, the second answers with those."""
    ladder = _from(start or INSTRUCTIONS[1], INSTRUCTIONS)

    def run(ops: Ops, question: Any) -> Any:
        choosing, answering = ops.param("retrieval_instructions"), ops.param("answer_instructions")
        state = {"retrieval_instructions": _text(ops, choosing), "answer_instructions": _text(ops, answering)}
        prompt = ops.apply(retrieval_prompt, choosing, question)
        chosen = ops.apply(asked.about(question, "retrieve", state), prompt)
        second = ops.apply(chain_prompt, answering, question, chosen)
        return ops.apply(asked.about(question, "answer", state), second)

    return Agent(
        (
            _prompt("retrieval_instructions", "Instructions for choosing paragraphs by their numbers", RETRIEVAL),
            _prompt("answer_instructions", "Instructions for answering with the chosen paragraphs", ladder),
        ),
        run,
        "A first prompt, `retrieval_instructions`, shows the numbered paragraphs and the question; the numbers in its "
        "answer choose paragraphs. A second one, `answer_instructions`, answers with these alone.",
    )


def retrieval_prompt(instructions: str, question: Question) -> str:
    """The prompt that asks for the numbers of the paragraphs that are needed."""
    instructions = checked_prompt(instructions, "retrieval_instructions").strip()
    return f"{instructions}\n\n{texts_of(question.item.paragraphs)}\n\nQuestion: {question}\n\nParagraphs:"


def chain_prompt(instructions: str, question: Question, chosen: str) -> str:
    """The prompt that asks for the answer, with the paragraphs whose numbers were chosen; with all if none was."""
    paragraphs = question.item.paragraphs
    numbers = dict.fromkeys(int(found) for found in _NUMBER.findall(chosen))
    kept = [paragraphs[n - 1] for n in numbers if 1 <= n <= len(paragraphs)] or list(paragraphs)
    instructions = checked_prompt(instructions, "answer_instructions").strip()
    return f"{instructions}\n\nContext:\n{texts_of(kept)}\n\nQuestion: {question}\n\nAnswer:"


# ----------------------------------------------------------------------------------------------------------- code


def with_code(asked: Asked, start: str) -> Agent:
    """One prompt that asks for a program."""
    ladder = _from(start or CODE_INSTRUCTIONS[1], CODE_INSTRUCTIONS)

    def run(ops: Ops, question: Any) -> Any:
        instructions = ops.param("code_instructions")
        prompt = ops.apply(code_prompt, instructions, question)
        return ops.apply(asked.about(question, "answer", {"code_instructions": _text(ops, instructions)}), prompt)

    return Agent(
        (_prompt("code_instructions", "Instructions that stand before what is said of the program", ladder),),
        run,
        "The prompt is `code_instructions`, then what is said of the program. The program is the first fenced block of "
        "Python in the model's answer that defines the function, or the whole answer.",
    )


def code_prompt(instructions: str, question: Question) -> str:
    """The prompt: instructions, and the function to write."""
    return f"{checked_prompt(instructions, 'code_instructions').strip()}\n\n{question}"


# ---------------------------------------------------------------------------------------------------------- parts


def checked_prompt(value: object, name: str) -> str:
    """`value` of the parameter `name`, which a trainer proposed.

    Raises:
        CandidateError: it is no text, or too long.
    """
    if not isinstance(value, str) or len(value) > LONGEST_PROMPT:
        raise CandidateError("output", f"{name} must be a text of at most {LONGEST_PROMPT} characters")
    return value


def _prompt(name: str, description: str, ladder: Sequence[str]) -> Parameter:
    others = tuple(text for text in ladder if text != ladder[1])
    return Parameter(name, ladder[1], "text", description, alternatives=others, ladder=tuple(ladder))


def _from(start: str, ladder: Sequence[str]) -> tuple[str, ...]:
    return (ladder[0], start, *ladder[2:])


def _text(ops: Ops, value: Any) -> str:
    """The text of a parameter, whether it is a node or not."""
    return str(getattr(value, "data", value))


INSTRUCTIONS = (
    "Write a story in which the question comes up.",
    "Answer the question with the texts that are given.",
    "Answer the question with the texts that are given. Answer in one line.",
    "Find the sentences that the answer follows from. Then write a last line that begins with 'Answer:' and holds the "
    "answer alone.",
    "Find the sentences that the answer follows from, and reason step by step. Then write a last line that begins with "
    "'Answer:' and holds the shortest answer alone: a name, a date, a number, yes or no, without a sentence around it.",
)
"""From bad to good, for the stub model; the search starts from the second."""
TEMPLATES = (
    "What do you think of this? {question}",
    "{question}\n\nAnswer:",
    "{question}\n\nAnswer in the form: The answer is ...",
    "{question}\n\nThink step by step. End with a line of the form: The answer is ...",
    "{question}\n\nThink step by step, and check each step. End with a line of the form: The answer is X. Put nothing "
    "but the label, the number, the word or the list in place of X.",
)
SYSTEM_PROMPTS = (
    "Write a story in which the question comes up.",
    "You solve word problems. Solve the problem step by step, and end with a line of #### and the number.",
    "Answer with #### and the number, and nothing else.",
    "You solve problems of arithmetic. List what is given and what is asked. Work it out step by step, one equation "
    "a line, and check the units and each result. Then end with a line of #### and the final number in digits.",
)
RETRIEVAL = (
    "Name a paragraph.",
    "Which paragraphs are needed for the question? Give their numbers.",
    "Which paragraphs are needed for the question? Several may be: one for each step. Give their numbers, best first.",
)
CODE_INSTRUCTIONS = (
    "Explain what this function would do.",
    "Complete this Python function.",
    "Complete this Python function. Answer with the whole function in one fenced block of Python.",
    "Complete this Python function. Think about empty inputs and limits first. Answer with the whole function, imports "
    "included, in one fenced block of Python.",
)
EXTRACTORS = (
    '''def extract_answer(response):
    """The first word."""
    return response.split()[0]
''',
    '''def extract_answer(response):
    """The whole response."""
    return response.strip()
''',
    '''def extract_answer(response):
    """The last line."""
    return response.strip().splitlines()[-1]
''',
    '''import re


def extract_answer(response):
    """What stands behind the last "answer is" or "Answer:", without the full stop; else the last line."""
    found = re.split(r"(?i)\\banswer(?: is|:)", response)
    text = found[-1] if len(found) > 1 else response.strip().splitlines()[-1]
    return text.strip().removesuffix(".").strip(" *\\"'")
''',
)
