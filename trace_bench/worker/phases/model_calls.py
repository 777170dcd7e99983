"""The train phase's calls of a model, through the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trace_bench.worker.answer_text import READER
from trace_bench.worker.checkpoint import Watch
from trace_bench.worker.loopback import ONE_REQUEST, call_headers, error_of, post
from trace_bench.worker.phases import PhaseFailure
from trace_bench.worker.training import Slot, StopTraining

MOST_REFUSED = 5
"""Such answers in a row that are taken for a matter of single requests."""


class ModelCalls:
    """Asks the job's model.

    Args:
        port: of the phase.
        model: its name, where a call names no other.
        watch: does not count these calls as an evaluation's.
        stop_at: in a replay, where training stops.
        reader: version of the rules by which its answers are read.

    Attributes:
        calls: requests so far.
    """

    def __init__(
        self, port: int, model: str, watch: Watch, stop_at: Mapping[str, Any] | None, reader: int = READER
    ) -> None:
        self._port = port
        self._model = model
        self._watch = watch
        self._stop_at = stop_at
        self._reader = reader
        self._replied, self._refused = False, 0
        self.calls = 0

    def chat(
        self,
        messages: list[dict[str, str]],
        slot: Slot,
        variables: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """One chat completion. Its ``reader`` is the version of the rules by which it is read.

        A request that the provider does not take, while it takes others, is answered with no text, and with why
        (``refused``): that is a bad answer to this one, and no end of the job.

        Raises:
            StopTraining: the budget is used up, or a stop was asked for.
            PhaseFailure: at ``provider``: the gateway has no answer.
        """
        headers = call_headers(str(slot), variables)
        request = {"model": self._model, "messages": messages, **options}
        reply = self._post("/v1/chat/completions", request, headers, refusable=True)
        return {**reply, "reader": self._reader}

    def embed(self, texts: Sequence[str], slot: Slot, model: str = "") -> list[list[float]]:
        """One vector for each text, in order. Raises as `chat` does."""
        request = {"model": model or self._model, "input": list(texts)}
        reply = self._post("/v1/embeddings", request, call_headers(str(slot)), refusable=False)
        try:
            rows = sorted(reply["data"], key=lambda row: row["index"])
            vectors = [[float(x) for x in row["embedding"]] for row in rows]
        except (KeyError, TypeError, ValueError):
            vectors = []
        if len(vectors) != len(texts):
            raise PhaseFailure("provider", "provider_error", "the answer does not hold one vector for each text")
        return vectors

    def _post(
        self, path: str, request: Mapping[str, Any], headers: Mapping[str, str], *, refusable: bool
    ) -> dict[str, Any]:
        self.calls += 1
        try:
            with self._watch.own_call():
                status, reply = post(self._port, path, request, headers)
        except OSError as error:
            raise PhaseFailure("trainer", "relay", f"the port for LLM calls does not answer: {error}") from error
        if status == 200 and isinstance(reply, dict):
            self._replied, self._refused = True, 0
            return reply
        said = error_of(reply)
        if said.get("code") == "budget_exhausted":
            raise StopTraining("budget")
        if said.get("code") == "training_stopped" and self._stop_at is not None:
            raise StopTraining(self._stop_at["reason"])
        why = f"HTTP {status}: {said.get('message') or 'no explanation'}"
        self._refused += 1
        if not (refusable and status in ONE_REQUEST and self._replied and self._refused <= MOST_REFUSED):
            raise PhaseFailure("provider", "provider_error", why)
        return {
            "object": "chat.completion",
            "model": self._model,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            "refused": why,
        }
