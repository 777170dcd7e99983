"""A controller that asks a provider and is killed at a named point; see ``test_killed_while_asking.py``.

The provider process that it starts is the real one, but for litellm, which takes seconds to import: plain HTTP stands
in for it. It is killed at points of its own.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gateway.conftest import chat
from trace_bench.artifacts.contract import ModelRef
from trace_bench.gateway import calls, provider_process
from trace_bench.gateway.base import LlmRequest
from trace_bench.gateway.cassettes import Cassette
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.real import Prices, RealModel
from trace_bench.gateway.retries import Backoff
from trace_bench.gateway.server import Gateway

JOB = "0123456789ab"
CALLS = 2
"""Of which the second meets the fault."""
PRICES = Prices(prompt=1.0, completion=4.0)

WITHOUT_LITELLM = '''
import asyncio, dataclasses, http.client, json, os, signal, sys, types
from pathlib import Path
from urllib.parse import urlsplit

POINT, AT, DONE = {point!r}, {at!r}, Path({done!r})
met = 0

def fault(point):
    """Die here, if it is the point, at the call that it is for, once."""
    global met
    if point != POINT:
        return
    met += 1
    if met == AT and not DONE.exists():
        DONE.touch()
        os.kill(os.getpid(), signal.SIGKILL)

if "trace_bench.gateway.litellm_worker" in sys.orig_argv:
    from trace_bench.gateway.pending import PendingFile
    from trace_bench.gateway.prices import cost
    from trace_bench.gateway.usage import Counted

    def around(name, before, after):
        inner = getattr(PendingFile, name)
        def call(self, *args):
            fault(before)
            inner(self, *args)
            fault(after)
        setattr(PendingFile, name, call)

    around("begin_try", "before the call is written down", "the call is written down")
    around("answered", "before the answer is written down", "the answer is written down")

    @dataclasses.dataclass
    class Answer:
        status: int
        body: dict
        counted: Counted
        estimated: bool = False
        cost: float = 0.0

    class Call:
        def __init__(self, model, path, body, added=frozenset()):
            self.model, self.path, self.body, self.dropped = model, path, body, []

    class Caller:
        def __init__(self, models): pass

        async def ask(self, call):
            return await asyncio.to_thread(self._ask, call)

        def _ask(self, call):
            address = urlsplit(call.model.base_url)
            connection = http.client.HTTPConnection(address.hostname, address.port)
            connection.request("POST", call.path, json.dumps({{"model": "m", **call.body}}))
            fault("the request is sent")
            body = json.loads(connection.getresponse().read())
            fault("the answer has come")
            used = body["usage"]
            counted = Counted(prompt=used["prompt_tokens"], completion=used["completion_tokens"])
            return Answer(200, body, counted, cost=cost(counted, call.model.prices))

    module = types.ModuleType("trace_bench.gateway.litellm_calls")
    module.Answer, module.Call, module.Caller = Answer, Call, Caller
    sys.modules[module.__name__] = module
'''


def model_at(url: str) -> RealModel:
    return RealModel("m", "openai", "m", base_url=url, api_key="sk-tests-0123456789", retries=2, prices=PRICES)


def run(folder: Path, url: str, attempt: int, point: str = "") -> None:
    """Ask the calls of the job, each at a place of the search of its own, and end.

    Args:
        point: where to be killed, at the second call.
    """
    _prepare(folder, point)
    _arm(point)
    with ProviderProcess([model_at(url)], folder / "limits", backoff=Backoff(0.01, 0.02)) as process:
        gateway = Gateway({"m": process.provider("m")})
        with gateway.open(JOB, 7, ModelRef(id="m"), folder / "llm.jsonl", attempt=attempt) as scope:
            for number in range(1, CALLS + 1):
                assert scope.handle(_request(number)).status == 200
                (folder / "pid").write_text(str(process.pid))
            (folder / "warnings").write_text("\n".join(scope.warnings()))


def end_before_the_answer(folder: Path, url: str, *, give_up: bool) -> None:
    """Ask one call, and end in order while it is with the provider, once there is a file ``end``.

    Args:
        give_up: say that its answer is lost, as a job does that has ended well.
    """
    _prepare(folder, "")
    provider_process.CLOSE_SECONDS = 0.2
    with ProviderProcess([model_at(url)], folder / "limits") as process:
        gateway = Gateway({"m": process.provider("m")})
        with gateway.open(JOB, 7, ModelRef(id="m"), folder / "llm.jsonl") as scope:
            threading.Thread(target=scope.handle, args=(_request(1),), daemon=True).start()
            while not (folder / "end").exists():
                time.sleep(0.01)
            (folder / "pid").write_text(str(process.pid))
            if give_up:
                scope.give_up()


def _request(number: int) -> LlmRequest:
    return chat(f"step={number}", model="m", text=f"call {number}", request_id=f"train-{number}")


def _prepare(folder: Path, point: str) -> None:
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(WITHOUT_LITELLM.format(point=point, at=CALLS, done=str(folder / "killed")))
    os.environ["PYTHONPATH"] = str(site)


def _arm(point: str) -> None:
    """Have this process killed at `point`, at the second time that it comes there."""
    places: dict[str, tuple[Any, str, bool]] = {
        "before the call is handed over": (provider_process._Child, "send", False),
        "the answer is handed on": (provider_process.RealProvider, "complete", True),
        "before the line": (Cassette, "add", False),
        "the line is there": (Cassette, "add", True),
        "the file is gone": (calls.JobCalls, "_pay", True),
    }
    if point in places:
        owner, name, after = places[point]
        setattr(owner, name, _killing(getattr(owner, name), after))
    elif point == "the call is handed over":
        inner = provider_process._Child._write

        def write(self: Any, frame: dict[str, Any]) -> None:
            inner(self, frame)
            if frame.get("id") == CALLS:
                os.kill(os.getpid(), signal.SIGKILL)

        provider_process._Child._write = write  # type: ignore[method-assign]


def _killing(inner: Callable[..., Any], after: bool) -> Callable[..., Any]:
    times = 0

    @functools.wraps(inner)
    def call(*args: Any, **options: Any) -> Any:
        nonlocal times
        times += 1
        if times == CALLS and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = inner(*args, **options)
        if times == CALLS and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return call


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
