"""What the gateway adds to an LLM call, how many recorded calls it gives again, and what memory many calls leave.

    python benchmarks/perf/gateway.py [--rounds 5] [--calls 300] [--many 100000] [--quick]
                                      [--only latency,container,litellm,reuse,replay,memory,child]

* latency: calls of one job through a scope, with a cassette whose lines are flushed to the disk as those of paid models
  are, against the same calls straight to the same server.
* container: the same from inside a real container, through relay and control stream. Needs an engine.
* litellm: through the process that holds litellm and the keys, against litellm itself. Needs litellm.
* reuse: recorded answers given again to eight jobs at once, on one core: calls a second.
* replay: the calls of eight recorded jobs answered in mode `replay`, on one core: calls a second.
* memory: what the controller's memory grows by over many calls of many jobs.
* child: the same of the process that holds litellm, eight calls at a time. Needs litellm. A fifth as many calls, as
  each of them takes milliseconds; only where it is asked for.

The provider is a small server of this script on loopback. Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from timing import environment, load

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

PATH = "/v1/chat/completions"
PROMPT = "Improve this program.\n" * 100
ANSWER = "x = 1\n" * 100
LIMIT_P50, LIMIT_P99 = 3.0, 15.0
"""Milliseconds that a call may take longer."""
LIMIT_AGAIN = 400
"""Calls a second."""
JOBS = 8
CALLS_OF_A_JOB = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=300, help="calls of a round")
    parser.add_argument("--many", type=int, default=100_000, help="calls of `memory`")
    parser.add_argument("--only", default="latency,container,litellm,reuse,replay,memory")
    parser.add_argument("--quick", action="store_true", help="two rounds of 50 calls, 2,000 for memory: seconds")
    parser.add_argument("--inside", nargs=2, metavar=("WHAT", "CALLS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        INSIDE[chosen.inside[0]](int(chosen.inside[1]))
        return
    if chosen.quick:
        chosen.rounds, chosen.calls, chosen.many = 2, 50, 2000
    only = chosen.only.split(",")
    print(f"({load()})")
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name, server() as port:
        folder = Path(name)
        if "latency" in only:
            latency(folder, port, chosen.rounds, chosen.calls)
        if "container" in only:
            container(folder, port, chosen.rounds, chosen.calls)
        if "litellm" in only:
            litellm(folder, port, chosen.rounds, chosen.calls)
        if "child" in only:
            child(folder, port, chosen.many // 5)
    for again in ("reuse", "replay"):
        if again in only:
            alone(again, chosen.calls, "taskset", "-c", str(min(os.sched_getaffinity(0))))
    if "memory" in only:
        alone("memory", chosen.many)
    if "litellm" in sys.modules:
        sys.stdout.flush()
        os._exit(0)  # what litellm has loaded does not end cleanly


def alone(what: str, calls: int, *before: str) -> None:
    """One part of this script in a process of its own."""
    command = [*before, sys.executable, __file__, "--inside", what, str(calls)]
    if subprocess.run(command, env=environment(), check=False).returncode != 0:
        sys.exit(f"{what} failed")


def line(what: str, value: str, limit: str = "") -> None:
    print(f"{what:52} {value:>16}" + (f"   limit {limit}" if limit else ""), flush=True)


# ------------------------------------------------------------------------------------------------- a small provider


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": ANSWER}
        answer = {
            "id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 200, "total_tokens": 700},
        }  # fmt: skip
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None: ...


def serve(_: int) -> None:
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # when the script is gone
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    print(found.server_port, flush=True)
    found.serve_forever()


@contextlib.contextmanager
def server() -> Iterator[int]:
    """Its port. It is a process of its own: a thread would take its clients' time."""
    command = [sys.executable, __file__, "--inside", "serve", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


class Client:
    """One connection to the server for each thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._local = threading.local()

    def post(self, body: bytes) -> dict[str, Any]:
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection("127.0.0.1", self._port)
        connection = self._local.connection
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found


class Straight:
    """A provider that asks the server, and does nothing else."""

    name, paid, uses_hints, quick = "straight", True, False, False

    def __init__(self, client: Client) -> None:
        self._client = client

    def complete(self, request: Any) -> Any:
        from trace_bench.gateway.base import ProviderReply

        body = self._client.post(json.dumps(dict(request.body)).encode())
        used = body["usage"]
        return ProviderReply(200, body, used["prompt_tokens"], used["completion_tokens"], cost_usd=0.001)


def body_of(n: int) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": f"{n} {PROMPT}"}]}).encode()


def request_of(n: int) -> Any:
    from trace_bench.gateway.base import LlmRequest

    return LlmRequest(f"train-{n}", "POST", PATH, {"x-trace-bench-slot": f"step={n}"}, body_of(n))


@contextlib.contextmanager
def scope_of(provider: Any, path: Path, attempt: int = 1, job: int = 0) -> Iterator[Any]:
    from trace_bench.artifacts.contract import ModelRef
    from trace_bench.gateway.server import Gateway

    with Gateway({"m": provider}).open(f"{job:012x}", 1, ModelRef(id="m"), path, attempt=attempt) as scope:
        yield scope


# ------------------------------------------------------------------------------------------------- what a call takes


def timed(call: Callable[[int], object], calls: int) -> list[float]:
    """Seconds of each of some calls, one after the other."""
    found = []
    for n in range(calls):
        started = time.perf_counter()
        call(n)
        found.append(time.perf_counter() - started)
    return found


def compare(title: str, direct: Sequence[float], ours: Sequence[float], limits: bool = True) -> None:
    """Median and 99th percentile of both, in milliseconds, and what the second has more."""
    print(f"\n{title}, {len(ours)} calls ({load()})")
    for name, at in (("p50", 0.5), ("p99", 0.99)):
        base, mine = (1e3 * sorted(times)[min(int(len(times) * at), len(times) - 1)] for times in (direct, ours))
        limit = f"{LIMIT_P50 if name == 'p50' else LIMIT_P99:g} ms" if limits else ""
        line(f"  {name}: {mine:.2f} ms against {base:.2f} ms, added", f"{mine - base:.2f} ms", limit)


def latency(folder: Path, port: int, rounds: int, calls: int) -> None:
    client = Client(port)
    direct: list[float] = []
    ours: list[float] = []
    bare: list[float] = []
    for number in range(rounds + 1):
        straight = timed(lambda n: client.post(body_of(n)), calls)
        with scope_of(Straight(client), folder / f"latency-{number}.jsonl") as scope:
            through = timed(lambda n, scope=scope: scope.handle(request_of(n)), calls)  # type: ignore[misc]
        flushed = flushes(folder / "flush", calls)
        if number:  # the first is a rehearsal
            direct, ours, bare = direct + straight, ours + through, bare + flushed
    compare("through a scope, against straight to the server", direct, ours)
    line("  of it, the flush of a line of that size (p50)", f"{1e3 * statistics.median(bare):.2f} ms")


def flushes(path: Path, calls: int) -> list[float]:
    """Seconds that the disk takes for what a cassette's line costs at least."""
    data = json.dumps({"request": body_of(0).decode(), "response": ANSWER}).encode()
    with path.open("ab", buffering=0) as file:
        return timed(lambda _: (file.write(data), os.fsync(file.fileno())), calls)


TASK = """\
title = "Asks"
statement = "Ask."
interaction = "value"
suite = "internal"

[score]
direction = "maximize"
failure = -1.0

[eval_kwargs.calls]
type = "int"
default = 100
doc = "how often it asks"
"""

PROBLEM = """\
import http.client, json, time
from pathlib import Path
from trace_bench.worker.problem import Parameter, Problem, examples

BODY = @BODY@
TOLD = []

def relay():
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    for port in {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/v1/models")
            if connection.getresponse().read():
                return connection
        except (OSError, http.client.HTTPException):
            pass
    raise RuntimeError("no relay")

def build(context):
    def guide(query, response, reference):
        if not TOLD:
            connection, times = relay(), []
            for n in range(context.eval_kwargs["calls"]):
                started = time.perf_counter()
                body = BODY.replace("@N@", str(n))
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                json.loads(answer.read())
                assert answer.status == 200, answer.status
                times.append(time.perf_counter() - started)
            TOLD.append(print("TIMES", json.dumps(times), flush=True))
        return 1.0, "asked"
    return Problem(parameters=(Parameter("x", 0.0, "float"),), guide=guide, train=examples(["only"]),
                   objective="Ask.", direction="maximize", failure_score=-1.0)
"""


class Providers(dict[str, Any]):
    def __enter__(self) -> Providers:
        return self

    def __exit__(self, *exc: object) -> None: ...


def container(folder: Path, port: int, rounds: int, calls: int) -> None:
    from trace_bench.config import parse_config
    from trace_bench.execution import run
    from trace_bench.execution.start import run_config

    task = folder / "tasks" / "asks"
    task.mkdir(parents=True)
    body = json.dumps({"messages": [{"role": "user", "content": f"@N@ {PROMPT}"}]})
    (task / "task.toml").write_text(TASK)
    (task / "problem.py").write_text(PROBLEM.replace("@BODY@", repr(body)))
    client = Client(port)
    inner = run.providers_of
    run.providers_of = lambda *_, **__: Providers(stub=Straight(client))  # type: ignore[assignment, misc]
    direct: list[float] = []
    ours: list[float] = []
    try:
        for number in range(rounds):
            direct += timed(lambda n: client.post(body_of(n)), calls)
            config = parse_config({
                "tasks": [{"id": "internal:asks", "eval_kwargs": {"calls": calls}}], "trainers": ["NoOp"], "seeds": [1],
                "runs_dir": str(folder / "runs"), "run_id": f"r{number}", "images": {"accept_drift": True},
            })  # fmt: skip
            result = run_config(config, roots=[folder / "tasks"])
            if not result.ok:
                sys.exit(f"the job failed: {result.rows[0].feedback}")
            (log,) = result.layout.jobs.glob("*/stdout.log")
            for text in log.read_text().splitlines():
                if "TIMES" in text:
                    ours += json.loads(text.partition("TIMES")[2])
    finally:
        run.providers_of = inner
    compare("from inside a container, against straight to the server", direct, ours)


def litellm(folder: Path, port: int, rounds: int, calls: int) -> None:
    if importlib.util.find_spec("litellm") is None:
        print("\nlitellm is not installed: its part is left out")
        return
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from trace_bench.gateway.provider_process import ProviderProcess

    started = time.perf_counter()
    import litellm as library

    line("\nimport of litellm", f"{time.perf_counter() - started:.1f} s")
    model = real_model(port)
    arguments = {"model": "openai/m", "api_base": model.base_url, "api_key": "none", "max_retries": 0}
    loop = asyncio.new_event_loop()

    def straight(n: int) -> object:
        return library.completion(messages=json.loads(body_of(n))["messages"], **arguments)

    def waited_for(n: int) -> object:
        return loop.run_until_complete(library.acompletion(messages=json.loads(body_of(n))["messages"], **arguments))

    direct: list[float] = []
    awaited: list[float] = []
    ours: list[float] = []
    worked = [0.0, 0.0, 0.0]
    process = ProviderProcess([model], folder / "limits")
    provider = process.provider("m")

    def through(n: int) -> object:
        return provider.complete(asked(n))

    try:
        for number in range(rounds + 1):
            found, spent = [], [processor(process.pid)]
            for case in (straight, waited_for, through):
                found.append(timed(case, calls))
                spent.append(processor(process.pid))
            if number:
                direct, awaited, ours = direct + found[0], awaited + found[1], ours + found[2]
                worked = [total + spent[n + 1] - spent[n] for n, total in enumerate(worked)]
    finally:
        process.close()
    compare("through the process that holds litellm, against litellm's completion", direct, ours)
    compare("the same, against litellm's acompletion, which that process uses", awaited, ours, limits=False)
    for what, seconds in zip(("litellm's completion", "its acompletion", "ours, both processes"), worked, strict=True):
        line(f"  processor time of a call, {what}", f"{1e3 * seconds / len(ours):.2f} ms")


def real_model(port: int) -> Any:
    from trace_bench.gateway.real import RealModel

    base = f"http://127.0.0.1:{port}/v1"
    return RealModel(id="m", provider="openai", model="m", base_url=base, api_key="none", send_seed=False)


def asked(n: int) -> Any:
    from trace_bench.artifacts.contract import ModelRef
    from trace_bench.gateway.base import ProviderRequest

    return ProviderRequest(PATH, json.loads(body_of(n)), ModelRef(id="m", provider="openai", model="m"), 1, f"{n}")


def processor(pid: int | None) -> float:
    """Processor time of this process and of one of its children so far, seconds."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] if pid else ()
    return time.process_time() + sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def child(folder: Path, port: int, calls: int) -> None:
    if importlib.util.find_spec("litellm") is None:
        print("\nlitellm is not installed: its part is left out")
        return
    from trace_bench.gateway.provider_process import ProviderProcess

    print(f"\nmemory of the process that holds litellm, {calls:,} calls, {JOBS} at a time")
    process = ProviderProcess([real_model(port)], folder / "limits")
    provider = process.provider("m")
    seen: list[float] = []
    try:
        with ThreadPoolExecutor(JOBS) as pool:
            for part in range(11):
                started = time.perf_counter()
                for _ in pool.map(lambda n: provider.complete(asked(n)).status, range(max(1, calls // 11))):
                    pass
                seconds = time.perf_counter() - started
                seen.append(resident(process.pid))
                done = (part + 1) * max(1, calls // 11)
                line(f"  after {done:,} ({calls // 11 / seconds:.0f} a second)", f"{seen[-1]:.1f} MB")
    finally:
        process.close()
    line("  growth since the first", f"{seen[-1] - seen[0]:.1f} MB")


# ------------------------------------------------------------------------------------------------- many calls


class Computed:
    """A provider that answers at once and for nothing."""

    name, paid, uses_hints, quick = "computed", False, False, True

    def complete(self, request: Any) -> Any:
        from trace_bench.gateway.base import ProviderReply

        message = {"role": "assistant", "content": ANSWER}
        return ProviderReply(200, {"choices": [{"index": 0, "message": message}]}, 500, 200)


def reuse(calls: int) -> None:
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        paths = [Path(name) / f"{job}.jsonl" for job in range(JOBS)]
        for path in paths:
            with scope_of(Computed(), path) as scope:
                timed(lambda n, scope=scope: scope.handle(request_of(n)), calls)  # type: ignore[misc]
        at_once("recorded answers", calls, lambda job: scope_of(Computed(), paths[job], attempt=2, job=job))


def replay(calls: int) -> None:
    from trace_bench.gateway.replay import RecordedJob, ReplayProvider

    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        recorded = {f"{job:012x}": RecordedJob(Path(name) / f"{job}.jsonl") for job in range(JOBS)}
        for one in recorded.values():
            with scope_of(Computed(), one.cassette) as scope:
                timed(lambda n, scope=scope: scope.handle(request_of(n)), calls)  # type: ignore[misc]
        provider = ReplayProvider(recorded.__getitem__)
        at_once("in mode replay", calls, lambda job: scope_of(provider, Path(name) / f"{job}-again.jsonl", job=job))


def at_once(title: str, calls: int, open_scope: Callable[[int], contextlib.AbstractContextManager[Any]]) -> None:
    """Every call of `JOBS` jobs, each from a thread of its own."""
    requests = [request_of(n) for n in range(calls)]

    def again(job: int) -> None:
        with open_scope(job) as scope:
            barrier.wait()
            for request in requests:
                assert scope.handle(request).status == 200

    barrier = threading.Barrier(JOBS + 1)
    with ThreadPoolExecutor(JOBS) as pool:
        jobs = [pool.submit(again, job) for job in range(JOBS)]
        barrier.wait()
        started, worked = time.perf_counter(), time.process_time()
        for job in jobs:
            job.result()
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
    title = f"{title}, {JOBS} jobs, {JOBS * calls:,} calls, cores {len(os.sched_getaffinity(0))}"
    line(f"\n{title}", f"{JOBS * calls / seconds:.0f} a second", f"{LIMIT_AGAIN}")
    line("  processor time of a call", f"{1e3 * worked / JOBS / calls:.2f} ms")


def memory(calls: int) -> None:
    print(f"\nmemory, {calls:,} calls, {min(CALLS_OF_A_JOB, calls)} a job")
    seen: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory(prefix="trace-bench-perf-") as name:
        done = 0
        while done < calls:
            of_job = min(CALLS_OF_A_JOB, calls - done)
            path = Path(name) / "job.jsonl"
            with scope_of(Computed(), path) as scope:
                timed(lambda n, scope=scope: scope.handle(request_of(n)), of_job)  # type: ignore[misc]
            path.unlink()
            done += of_job
            if not seen or done >= seen[-1][0] + calls / 10 or done == calls:
                seen.append((done, resident()))
                line(f"  after {done:,}", f"{seen[-1][1]:.1f} MB")
    line("  growth since the first", f"{seen[-1][1] - seen[0][1]:.1f} MB")


def resident(pid: int | None = None) -> float:
    """Memory that a process has now, this one if no other is named, MB."""
    pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


INSIDE: dict[str, Callable[[int], None]] = {"serve": serve, "reuse": reuse, "replay": replay, "memory": memory}


if __name__ == "__main__":
    main()
