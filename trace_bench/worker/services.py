"""Asks the host's services from inside a sandbox, through the same door as LLM calls.

Standard library only: imported inside images that hold nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.errors import Boundary, TraceBenchError
from trace_bench.worker.llm_calls import SERVICES as PATH
from trace_bench.worker.loopback import error_of, post
from trace_bench.worker.problem import ProblemError
from trace_bench.worker.training import StopTraining


class ServiceFailed(TraceBenchError):
    """What a service of the host needs has failed. The job is tried again; it is never a score."""

    boundary = Boundary.PROVIDER


class Services:
    """The host's services, as a problem's guide asks them. Only phases that evaluate may ask.

    Args:
        port: of the phase's door on loopback; None in a phase that has none.
    """

    def __init__(self, port: int | None) -> None:
        self._port = port

    def ask(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the service `name`. Equal requests of later attempts get the answers that were recorded.

        Raises:
            ProblemError: the task cannot be asked so, or there is no such service. The job fails at ``task``.
            ServiceFailed: what the service needs has failed. StopTraining: a budget is used up.
        """
        if self._port is None:
            raise ProblemError(f"the service {name} was asked while the problem was built; ask it in the guide")
        try:
            status, reply = post(self._port, PATH + name, request, {})
        except OSError as error:
            raise ServiceFailed(f"the host does not answer for the service {name}: {error}") from error
        if status == 200 and isinstance(reply, dict):
            return reply
        said = error_of(reply)
        message = f"the service {name}: {said.get('message') or f'HTTP {status}'}"
        if said.get("code") == "budget_exhausted":
            raise StopTraining("budget")
        if status >= 500:
            raise ServiceFailed(message)
        raise ProblemError(message)
