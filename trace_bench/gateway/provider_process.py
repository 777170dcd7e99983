"""Real models: one process beside the controller that holds litellm and the keys, and asks the providers.

The controller stays small and starts fast, and nothing that a library does (print, hang, leak, crash) happens in the
process that holds the run. The keys travel over the pipe; the process is started with an environment that holds none.
Each call is written down beside the cassette before it is sent, and its answer before it is handed on (`asked`): a
controller that dies loses no answer. A process that dies or hangs is replaced, and the calls that it had under way are
asked again. What it had sent may have been paid: the cassette says so (``docs/design/gateway.md``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import LlmTry
from trace_bench.artifacts.usage import NO_ANSWER
from trace_bench.config.frozen import thaw
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.gateway import frames
from trace_bench.gateway.asked import Keep, left_at
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.estimates import split
from trace_bench.gateway.prices import cost, known_price
from trace_bench.gateway.real import GET_LITELLM, OnWait, RealModel, model_to
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
"""A process that says nothing for so long hangs; it says that it lives every five."""
WATCH_SECONDS = 5.0
"""How often it is looked whether the process still speaks."""
CLOSE_SECONDS = 3.0
"""How long it may take to end by itself."""
LOST = "the process that asks the providers ended, and the answer with it: it may have been paid"
"""What a try says whose answer is lost."""


class ProviderProcess:
    """Providers for all real models of a run. Thread-safe; close it when the run ends.

    Args:
        models: with distinct ids.
        limits_folder: where this host keeps what was asked of providers (`HostLimits`).
        on_wait: told of every wait of a call, for a limit or before it is asked again.

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
            "models": [thaw(model_to(model)) for model in models],
            "limits_folder": str(limits_folder),
            "backoff": [backoff.first, backoff.cap],
        }
        self._on_wait = on_wait or (lambda job_id, seconds, why: None)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._closed = False

    def start(self) -> None:
        """Start importing litellm now, and not at the first call. Returns at once."""
        self._living()

    def provider(self, model_id: str) -> RealProvider:
        """Raises KeyError for a model that was not given."""
        return RealProvider(self, self._models[model_id])

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        with self._lock:
            return self._child.pid if self._child is not None and not self._child.ended else None

    def ask(
        self, model: RealModel, call: frames.Frame, job_id: str = "", keep: Keep | None = None
    ) -> tuple[frames.Frame, tuple[LlmTry, ...]]:
        """The last frame about `call`, and every try but those that `keep` was told of.

        Raises:
            ProviderError: the processes died more often than `model` allows tries.
        """
        tries: list[LlmTry] = []
        made = 0
        while True:
            outcome = self._living().ask({**call, "tries": made}, partial(self._on_wait, job_id))
            if outcome.frame is not None:
                return outcome.frame, (*tries, *outcome.tries)
            if self._closed:
                raise ProviderError("the run ended before an answer came", tries=(*tries, *outcome.tries))
            made += len(outcome.tries) + 1
            left = left_at(keep.path) if keep is not None else None
            if left is not None and left.answer is not None:
                return dict(left.answer), (*tries, *left.tries)  # it was written down, and not handed on
            if keep is not None and left is not None and left.lost:
                keep.lost(left.tries)
            else:
                tries += [*outcome.tries, LlmTry(error=outcome.death)]
                if keep is not None:
                    keep.path.unlink(missing_ok=True)
            if outcome.useless or made > model.retries:
                raise ProviderError(f"{outcome.death}.", tries=tuple(tries))

    def close(self) -> None:
        """End the process; calls that are under way get no answer. Twice does no harm.

        A process that has sent requests which it writes down ends by itself, once it has written down their answers.
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

    def _living(self) -> _Child:
        with self._lock:
            if self._closed:
                raise ProviderError("the run has ended; no model is asked any more")
            if self._child is None or self._child.ended:
                self._child = _Child(self._hello)
            return self._child


class RealProvider:
    """One real model, asked through the process that it shares with the others of the run."""

    paid = True
    wants_hints = False
    quick = False

    def __init__(self, process: ProviderProcess, model: RealModel) -> None:
        self.name = model.provider
        self._process = process
        self._model = model
        self._prices = known_price(model)

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that can change an answer and is no part of `ModelRef`; see `Addressed`."""
        model = self._model
        return {
            "base_url": model.base_url,
            "temperature": model.temperature,
            "top_p": model.top_p,
            "max_tokens": model.max_tokens,
            "send_seed": model.send_seed,
            "options": thaw(dict(model.options)),
        }

    def estimate(self, request: ProviderRequest) -> tuple[int, float | None]:
        """Tokens and US dollars that `request` may come to; see `Estimating`."""
        added = additions(self._model, request.path, request.body, request.sample_seed)
        prompt, answer = split({**request.body, **added})
        expected = Counted(prompt=prompt, completion=answer)
        return prompt + answer, None if self._prices is None else cost(expected, self._prices)

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """See `Provider`. What the provider says of the request itself (4xx) is a reply."""
        model = self._model
        added = additions(model, request.path, request.body, request.sample_seed)
        call = {
            "model": model.id,
            "path": request.path,
            "body": {**thaw(dict(request.body)), **added},
            "added": [name for name in added if request.body.get(name) is None],
        }
        if (keep := request.keep) is not None:
            head = {**thaw(dict(keep.head)), "added": added, "timeout": model.timeout}
            call["keep"] = {"path": str(keep.path.absolute()), "head": known.value(head)}
        frame, tries = self._process.ask(model, call, request.job_id, keep)
        return self._reply(frame, added, tries)

    def recover(
        self, head: Mapping[str, Any], answer: Mapping[str, Any] | None, tries: tuple[LlmTry, ...]
    ) -> ProviderReply:
        """See `Recovering`."""
        if answer is not None:
            return self._reply(answer, head["added"], tries)
        prompt, completion = split({**head["body"], **head.get("added", {})})
        counted = Counted(prompt=prompt, completion=completion)
        return ProviderReply(
            status=NO_ANSWER,
            body=Refusal(NO_ANSWER, "answer_lost", f"{LOST}.").body(),
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=cost(counted, self._prices),
            estimated=True,
            tries=(*tries, LlmTry(error=LOST)),
        )

    def _reply(self, frame: Mapping[str, Any], added: Mapping[str, Any], tries: tuple[LlmTry, ...]) -> ProviderReply:
        model = self._model
        if "error" in frame:
            times = "1 try" if len(tries) == 1 else f"{len(tries)} tries"
            raise ProviderError(
                f"{model.id} ({model.provider}) gave no answer in {times}: {frame['error']}", tries=tries
            )
        counted = Counted(**frame["counted"])
        dropped = {"dropped": sorted(frame["dropped"])} if frame["dropped"] else {}
        return ProviderReply(
            status=frame["status"],
            body=frame["body"],
            prompt_tokens=counted.prompt,
            completion_tokens=counted.completion,
            cached_tokens=counted.cached,
            reasoning_tokens=counted.reasoning,
            cost_usd=cost(counted, self._prices),
            estimated=frame["estimated"],
            sent={**{k: v for k, v in added.items() if k not in frame["dropped"]}, **dropped},
            tries=tries,
        )


@dataclass(frozen=True)
class _Outcome:
    """`frame` is None where the process ended first; then `death` says how, and `useless` that another would, too."""

    frame: frames.Frame | None
    tries: tuple[LlmTry, ...]
    death: str = ""
    useless: bool = False


@dataclass
class _Pending:
    on_wait: Callable[[float, str], None]
    kept: bool
    outcome: Future[_Outcome] = field(default_factory=Future)
    tries: list[LlmTry] = field(default_factory=list)


class _Child:
    """One process, from start to end, and the thread that reads what it says."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the process has ended
        root = str(Path(__file__).parents[2])
        path = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trace_bench.gateway.litellm_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={
                **{name: os.environ[name] for name in INHERITED if name in os.environ},
                "PYTHONPATH": os.pathsep.join(path),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_MODE": "PRODUCTION",  # or it reads a .env from around here
                "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",  # or it fetches addresses, from this host's network
            },
            cwd="/",
            start_new_session=True,  # Ctrl-C at the terminal is for the controller to hear
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._ended: _Outcome | None = None
        self._ready = False
        self._broken = ""
        self._heard = 0
        self._over = threading.Event()
        self._write(dict(hello))
        self._reader = threading.Thread(target=self._read, name="provider-process", daemon=True)
        self._reader.start()
        threading.Thread(target=self._watch, name="provider-process-watch", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        with self._lock:
            return self._ended is not None

    def ask(self, call: frames.Frame, on_wait: Callable[[float, str], None]) -> _Outcome:
        """Send `call`, and wait until it is answered or the process ends."""
        return self._send(call, on_wait).result()

    def _send(self, call: frames.Frame, on_wait: Callable[[float, str], None]) -> Future[_Outcome]:
        pending = _Pending(on_wait, "keep" in call)
        with self._lock:
            if self._ended is not None:
                pending.outcome.set_result(self._ended)
                return pending.outcome
            number = next(self._numbers)
            self._pending[number] = pending
        self._write({**call, "id": number})
        return pending.outcome

    def close(self) -> None:
        # A thread that writes to a process that does not read holds the pipe until that process is gone.
        if self._writing.acquire(timeout=CLOSE_SECONDS):
            try:
                with contextlib.suppress(OSError):
                    self._stdin.close()
            finally:
                self._writing.release()
        else:
            self._process.kill()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            if self._leave():
                return
            self._process.kill()
        self._reader.join()

    def _leave(self) -> bool:
        """Leave the process to itself, if it writes down answers that it waits for."""
        with self._lock:
            if not any(pending.kept for pending in self._pending.values()):
                return False
            left, self._pending = list(self._pending.values()), {}
            self._ended = _Outcome(None, (), "the run ended")
        self._over.set()
        for pending in left:
            pending.outcome.set_result(_Outcome(None, tuple(pending.tries), "the run ended"))
        return True

    def _write(self, frame: frames.Frame) -> None:
        with self._writing, contextlib.suppress(OSError, ValueError):  # it has ended: the reader tells
            self._stdin.write(frames.encode(frame))
            self._stdin.flush()

    def _read(self) -> None:
        try:
            while (frame := frames.read(self._stdout)) is not None:
                self._heard += 1
                self._take(frame)
        except Exception as error:  # whatever it wrote, the callers are told
            self._broken = f"{type(error).__name__}: {error}"
        self._process.kill()
        self._end(self._process.wait())

    def _watch(self) -> None:
        """End the process if it says nothing for too long."""
        heard, silent = 0, 0
        while not self._over.wait(WATCH_SECONDS):
            # Counted in looks, not in seconds: after a machine slept, the first look comes too soon.
            heard, silent = self._heard, silent + 1 if self._heard == heard else 0
            patience = SILENCE_SECONDS if self._ready else START_SECONDS
            if silent * WATCH_SECONDS >= patience:
                self._broken = f"it said nothing for {patience:g} seconds"
                self._process.kill()
                return

    def _take(self, frame: frames.Frame) -> None:
        if "ready" in frame:
            self._ready = True
        elif "broken" in frame:
            self._broken = str(frame["broken"])
        elif "id" in frame:
            with self._lock:
                pending = self._pending.get(frame["id"])
                if pending is not None and "try" not in frame and "wait" not in frame:
                    del self._pending[frame["id"]]
            if pending is None:
                return
            if "try" in frame:
                pending.tries.append(LlmTry.model_validate(frame["try"]))
            elif "wait" in frame:
                pending.on_wait(float(frame["wait"]), str(frame["why"]))
            else:
                pending.outcome.set_result(_Outcome(frame, tuple(pending.tries)))

    def _end(self, code: int) -> None:
        how = signal_name(-code) if code < 0 else f"exit code {code}"
        why = self._broken or (how if self._ready else f"{how}; {self._last_error()}")
        death = f"the process that asks the providers ended ({why})"
        with self._lock:
            self._ended = _Outcome(None, (), death, useless=not self._ready)
            left, self._pending = list(self._pending.values()), {}
        self._over.set()
        for pending in left:
            pending.outcome.set_result(_Outcome(None, tuple(pending.tries), death, useless=not self._ready))
        for stream in (self._stdout, self._errors):
            stream.close()
        with self._writing, contextlib.suppress(OSError):
            self._stdin.close()

    def _last_error(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4096))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return jsonio.printable(lines[-1], 300) if lines else "it printed nothing"
