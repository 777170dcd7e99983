"""Real models: one process beside the controller that holds litellm and the keys, and sends requests to providers.

The controller stays small and starts fast, and nothing that a library does (print, hang, leak, crash) happens in the
process that holds the run. The keys travel over a socket, and the environment of the process holds none.
Each call is recorded in a file before it is sent, and its answer before the controller gets it (`pending`), so a
controller that dies loses no answer. A process that dies or hangs is replaced, and its calls are sent again. What it
had sent may have been paid: the cassette records that (``docs/design/gateway.md``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from trace_bench.artifacts.calls import LlmTry
from trace_bench.artifacts.usage import NO_ANSWER
from trace_bench.config.frozen import thaw
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.estimates import split
from trace_bench.gateway.pending import PendingRecord, read_pending
from trace_bench.gateway.prices import cost, known_price
from trace_bench.gateway.real import GET_LITELLM, MAX_MESSAGE, Message, OnWait, RealModel
from trace_bench.gateway.retries import Backoff
from trace_bench.gateway.sampling import additions
from trace_bench.gateway.usage import Counted
from trace_bench.secrets import known
from trace_bench.worker.sentences import signal_name

INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
"""All that the process gets of the controller's environment."""
START_SECONDS = 180.0
"""How long importing litellm may take."""
SILENCE_SECONDS = 60.0
"""A process that sends nothing for so long hangs. It sends a sign of life every five seconds."""
WATCH_SECONDS = 5.0
"""Interval between two checks whether the process has sent something."""
CLOSE_SECONDS = 3.0
"""How long it may take to end by itself."""
LOST = "the process that asks the providers ended, and the answer with it: it may have been paid"
"""Error of a try whose answer is lost."""


class ProviderProcess:
    """Providers for all real models of a run. Thread-safe. Close it when the run ends.

    Args:
        models: with distinct ids.
        limits_folder: where this host counts its requests to providers (`HostLimits`).
        on_wait: called before every wait of a call, for a limit or before a further try.

    Raises:
        EnvironmentUnavailable: litellm is not installed.
    """

    def __init__(
        self,
        models: Sequence[RealModel],
        limits_folder: Path,
        *,
        backoff: Backoff | None = None,
        on_wait: OnWait | None = None,
    ) -> None:
        if importlib.util.find_spec("litellm") is None:
            raise EnvironmentUnavailable(f"real models need litellm, which is not installed: {GET_LITELLM}")
        self._models = {model.id: model for model in models}
        backoff = backoff or Backoff()
        self._hello = {
            "models": [asdict(model) for model in models],
            "limits_folder": str(limits_folder),
            "backoff": [backoff.first, backoff.cap],
        }
        self._on_wait = on_wait or (lambda job_id, seconds, why: None)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._closed = False

    def start(self) -> None:
        """Start importing litellm now, and not at the first call. Returns at once."""
        self._running_child()

    def provider(self, model_id: str) -> RealProvider:
        """Raises KeyError for a model that was not given."""
        return RealProvider(self, self._models[model_id])

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        with self._lock:
            return self._child.pid if self._child is not None and not self._child.ended else None

    def ask(
        self, model: RealModel, call: Message, job_id: str = "", record: PendingRecord | None = None
    ) -> tuple[Message, tuple[LlmTry, ...]]:
        """The answer to `call`, and all tries but those that `record` was given as lost.

        Raises:
            ProviderError: the processes died more often than `model` allows tries.
        """
        tries: tuple[LlmTry, ...] = ()
        made = 0
        while True:
            pending = self._running_child().send({**call, "tries": made}, partial(self._on_wait, job_id))
            try:
                return pending.answer.result(), (*tries, *pending.tries)
            except _ProcessEnded as end:
                if self._closed:
                    message = "the run ended before an answer came"
                    raise ProviderError(message, tries=(*tries, *pending.tries)) from None
                made += len(pending.tries) + 1
                recorded = read_pending(record.path) if record is not None else None
                if recorded is not None and recorded.answer is not None:
                    return dict(recorded.answer), (*tries, *recorded.tries)
                if record is not None and recorded is not None and recorded.lost:
                    record.on_lost(recorded.tries)
                else:
                    tries = (*tries, *pending.tries, LlmTry(error=str(end)))
                    if record is not None:
                        record.path.unlink(missing_ok=True)
                if end.at_start or made > model.retries:
                    raise ProviderError(f"{end}.", tries=tries) from None

    def close(self) -> None:
        """End the process; calls under way get no answer. May be called twice.

        A process that waits for answers to recorded requests ends by itself, once it has recorded them.
        """
        with self._lock:
            self._closed = True
            child = self._child
        if child is not None:
            child.close()

    def __enter__(self) -> ProviderProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _running_child(self) -> _Child:
        with self._lock:
            if self._closed:
                raise ProviderError("the run has ended; no model is asked any more")
            if self._child is None or self._child.ended:
                self._child = _Child(self._hello)
            return self._child


class RealProvider:
    """One real model. It shares its process with the other models of the run."""

    paid = True
    uses_hints = False
    quick = False

    def __init__(self, process: ProviderProcess, model: RealModel) -> None:
        self.name = model.provider
        self._process = process
        self._model = model
        self._prices = known_price(model)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that can change an answer and is no part of `ModelRef`; see `Addressed`."""
        names = ("base_url", "temperature", "top_p", "max_tokens", "send_seed", "options")
        return {name: thaw(getattr(self._model, name)) for name in names}

    def estimate(self, request: ProviderRequest) -> tuple[int, float | None]:
        """Expected tokens and US dollars of `request`; see `Estimating`."""
        prompt, completion = split({**request.body, **self._added(request)})
        price = None if self._prices is None else cost(Counted(prompt, completion), self._prices)
        return prompt + completion, price

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """See `Provider`. A provider's refusal of the request itself (4xx) is a reply."""
        model, added = self._model, self._added(request)
        call: Message = {
            "model": model.id,
            "path": request.path,
            "body": {**thaw(dict(request.body)), **added},
            "added": [name for name in added if request.body.get(name) is None],
        }
        if (record := request.record) is not None:
            head = {**thaw(dict(record.head)), "added": added, "timeout": model.timeout}
            call["record"] = {"path": str(record.path.absolute()), "head": known.value(head)}
        answer, tries = self._process.ask(model, call, request.job_id, record)
        return self._reply(answer, added, tries)

    def recover(
        self, head: Mapping[str, Any], answer: Mapping[str, Any] | None, tries: tuple[LlmTry, ...]
    ) -> ProviderReply:
        """See `Recovering`."""
        if answer is not None:
            return self._reply(answer, head["added"], tries)
        prompt, completion = split({**head["body"], **head.get("added", {})})
        return ProviderReply(
            status=NO_ANSWER,
            body=Refusal(NO_ANSWER, "answer_lost", f"{LOST}.").body(),
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=cost(Counted(prompt, completion), self._prices),
            estimated=True,
            tries=(*tries, LlmTry(error=LOST)),
        )

    def _added(self, request: ProviderRequest) -> dict[str, Any]:
        return additions(self._model, request.path, request.body, request.sample_seed)

    def _reply(self, answer: Mapping[str, Any], added: Mapping[str, Any], tries: tuple[LlmTry, ...]) -> ProviderReply:
        if "error" in answer:
            times = "1 try" if len(tries) == 1 else f"{len(tries)} tries"
            name = f"{self._model.id} ({self.name})"
            raise ProviderError(f"{name} gave no answer in {times}: {answer['error']}", tries=tries)
        counted, dropped = Counted(**answer["counted"]), answer["dropped"]
        sent = {name: value for name, value in added.items() if name not in dropped}
        return ProviderReply(
            status=answer["status"],
            body=answer["body"],
            prompt_tokens=counted.prompt,
            completion_tokens=counted.completion,
            cached_tokens=counted.cached,
            reasoning_tokens=counted.reasoning,
            cost_usd=answer["cost"],
            estimated=answer["estimated"],
            sent={**sent, "dropped": sorted(dropped)} if dropped else sent,
            tries=tries,
        )


class _ProcessEnded(Exception):
    """The process ended before the answer came. `at_start`: before it was ready, so that another one would too."""

    def __init__(self, why: str, *, at_start: bool = False) -> None:
        super().__init__(why)
        self.at_start = at_start


@dataclass
class _Pending:
    """A call that was given to the process. Its `answer` may be a `_ProcessEnded`."""

    on_wait: Callable[[float, str], None]
    recorded: bool
    answer: Future[Message] = field(default_factory=Future)
    tries: list[LlmTry] = field(default_factory=list)


class _Child:
    """One process, from start to end, and the thread that reads its messages."""

    def __init__(self, hello: Message) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the process has ended
        self._socket, theirs = socket.socketpair()
        # A process that stops in the middle of a message counts as one that hangs.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(SILENCE_SECONDS), 0))
        root = str(Path(__file__).parents[2])
        path = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "trace_bench.gateway.litellm_worker"],
                stdin=theirs.fileno(),
                stdout=self._output,
                stderr=self._output,
                env={
                    **{name: os.environ[name] for name in INHERITED if name in os.environ},
                    "PYTHONPATH": os.pathsep.join(path),
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                    "LITELLM_MODE": "PRODUCTION",  # or it reads a .env from around here
                    "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",  # or it fetches addresses, from this host's network
                },
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal is for the controller
            )
        self._connection = Connection(os.dup(self._socket.fileno()))
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._end: _ProcessEnded | None = None
        self._ready = False
        self._write(hello)
        self._reader = threading.Thread(target=self._run, name="provider-process", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        with self._lock:
            return self._end is not None

    def send(self, call: Message, on_wait: Callable[[float, str], None]) -> _Pending:
        """Give `call` to the process."""
        pending = _Pending(on_wait, "record" in call)
        with self._lock:
            if self._end is not None:
                pending.answer.set_exception(self._end)
                return pending
            number = next(self._numbers)
            self._pending[number] = pending
        self._write({**call, "id": number})
        return pending

    def close(self) -> None:
        """Have the process end, by force if it does not do so by itself; see `ProviderProcess.close`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)  # also ends a write to a process that does not read
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            with self._lock:
                records_answers = any(pending.recorded for pending in self._pending.values())
            if records_answers:
                self._fail_all(_ProcessEnded("the run ended"))
                return
            self._process.kill()
        self._reader.join()

    def _write(self, message: Message) -> None:
        with self._writing, contextlib.suppress(OSError):  # the process has ended, which the reader notices
            self._connection.send_bytes(json.dumps(message).encode("ascii"))

    def _run(self) -> None:
        """Read messages until the process ends or hangs."""
        broken = ""
        try:
            broken = self._read_all()
        except (EOFError, ConnectionError):
            pass
        except BlockingIOError:
            broken = f"it said nothing for {SILENCE_SECONDS:g} seconds"
        except Exception as error:  # an odd message must not leave callers waiting
            if "end of file" not in str(error):
                broken = f"{type(error).__name__}: {error}"
        self._process.kill()
        code = self._process.wait()
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        why = broken or (how if self._ready else f"{how}; {self._last_line()}")
        self._fail_all(_ProcessEnded(f"the process that asks the providers ended ({why})", at_start=not self._ready))
        self._output.close()
        with self._writing:
            self._connection.close()
            self._socket.close()

    def _read_all(self) -> str:
        """Why the process is of no more use.

        Raises:
            EOFError: it has ended.
        """
        silent = 0
        while True:
            # Counted in checks, not in seconds: after a machine slept, the first check comes too soon.
            if self._connection.poll(WATCH_SECONDS):
                silent = 0
                message = json.loads(self._connection.recv_bytes(MAX_MESSAGE))
                if "broken" in message:
                    return str(message["broken"])
                self._take(message)
                continue
            silent += 1
            patience = SILENCE_SECONDS if self._ready else START_SECONDS
            if silent * WATCH_SECONDS >= patience:
                return f"it said nothing for {patience:g} seconds"

    def _take(self, message: Message) -> None:
        if "ready" in message:
            self._ready = True
            return
        with self._lock:
            pending = self._pending.get(message.get("id", 0))
            if pending is not None and "try" not in message and "wait" not in message:
                del self._pending[message["id"]]
        if pending is None:
            return
        if "try" in message:
            pending.tries.append(LlmTry.model_validate(message["try"]))
        elif "wait" in message:
            pending.on_wait(float(message["wait"]), str(message["why"]))
        else:
            pending.answer.set_result(message)

    def _fail_all(self, end: _ProcessEnded) -> None:
        with self._lock:
            self._end = end
            pending, self._pending = list(self._pending.values()), {}
        for call in pending:
            call.answer.set_exception(end)

    def _last_line(self) -> str:
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - 4096))
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it printed nothing"
