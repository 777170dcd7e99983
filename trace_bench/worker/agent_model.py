"""Asks the job's model for the agent of a task, while a state is evaluated. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trace_bench.errors import Boundary, TraceBenchError
from trace_bench.worker.answer_text import READER, message_of
from trace_bench.worker.loopback import OF_AGENT, call_headers, error_of, post
from trace_bench.worker.problem import ProblemError
from trace_bench.worker.training import StopTraining

_CUT_OFF = {
    "length": "was cut off at its limit of tokens; raise llm.max_tokens",
    "content_filter": "was held back by the provider's filter; leave the example out, or ask another model",
}
"""Reasons for which an answer ended that make it no answer."""


class ModelFailed(TraceBenchError):
    """The provider gave no answer, or not the whole of it. The job is tried again; it is never a score."""

    boundary = Boundary.PROVIDER


class ModelAnswer(NamedTuple):
    """An answer of the model.

    Attributes:
        prompt_tokens, completion_tokens: as the gateway counted them.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int


class AgentModel:
    """The job's model. Only phases that evaluate may ask. From any thread.

    Args:
        port: of the phase's door on loopback; None in a phase that has none.
        name: of the model.
        reader: version of the rules by which answers are read.
    """

    def __init__(self, port: int | None, name: str, reader: int = READER) -> None:
        self.reader = reader
        self._port = port
        self._name = name

    def ask(self, messages: Sequence[Mapping[str, str]], place: str, in_stub: str = "") -> ModelAnswer:
        """The model's answer to `messages`, as OpenAI's chat completions have them.

        Args:
            place: names the call among all of one evaluation, such as ``train-3;step=2``: printable, 190 characters at
                most. Calls with equal messages at one place are answered in their order when a run is repeated.
            in_stub: the answer of the model ``stub``. No other model sees it.

        Raises:
            ModelFailed: the provider has failed, or refuses this request, or cut its answer off.
            ProblemError: asked while the problem was built. StopTraining: a budget is used up.
        """
        if self._port is None:
            raise ProblemError("the model was asked while the problem was built; ask it in the agent")
        answer = {"name": "answer", "kind": "text", "value": "", "alternatives": [in_stub], "format": "verbatim"}
        headers = call_headers(f"{OF_AGENT}{place}", [answer] if in_stub else ())
        request = {"model": self._name, "messages": list(messages)}
        try:
            status, reply = post(self._port, "/v1/chat/completions", request, headers)
        except OSError as error:
            raise ModelFailed(f"the port for LLM calls does not answer: {error}") from error
        if status != 200 or not isinstance(reply, dict):
            said = error_of(reply)
            if said.get("code") in ("budget_exhausted", "training_stopped"):
                raise StopTraining("budget")
            raise ModelFailed(
                f"the model does not answer the agent: HTTP {status}: {said.get('message') or 'no reason'}"
            )
        return _answer(reply, self.reader)


def _answer(reply: Mapping[str, Any], reader: int) -> ModelAnswer:
    """The first choice of a chat completion, without the model's reasoning. Reasoning alone is an empty answer.

    Raises:
        ModelFailed: there is none, or the provider refused or cut it off.
    """
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        usage = reply.get("usage") or {}
        text, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
        counted = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise ModelFailed("the model's answer is not a chat completion") from None
    if reason in _CUT_OFF:
        raise ModelFailed(f"the model's answer {_CUT_OFF[reason]}")
    if refusal:
        raise ModelFailed(f"the provider refused to answer: {str(refusal)[:200]}")
    if reader > 1 and (read := message_of(reply)) is not None and (read.answer or read.reasoning):
        text = read.answer
    if not isinstance(text, str):
        raise ModelFailed("the model's answer holds no text")
    return ModelAnswer(text, *counted)
