"""Scoring ten thousand examples against as many bare HTTP requests to a server that answers at once.

    python benchmarks/perf/questions.py [--examples 10000] [--agent instructions]

The model is ``stub``, which answers at once: what is measured is loading, judging, and the way of a call. Rows are like
those of GSM8K. Prints seconds of the score phase, and the peak memory of a process, with a tenth of the examples and
with all of them; and their ratio to bare requests on loopback, one connection each, eight at a time. Backend ``local``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from trace_bench.worker.loopback import post

TRACE_BENCH = [sys.executable, "-m", "trace_bench"]


def fetch_rows(root: Path, rows: int) -> None:
    """Have GSM8K hold `rows` rows in each split, in a home of its own below `root`."""
    copy = root / "copy"
    copy.mkdir()
    for split in ("train", "test"):
        with (copy / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for n in range(rows):
                question = f"Ana has {n} boxes with 4 pens each ({split}). How many pens has she?"
                file.write(json.dumps({"question": question, "answer": f"She has {4 * n}.\n#### {4 * n}"}) + "\n")
    os.environ["TRACE_BENCH_HOME"] = str(root / "home")
    _call("data", "fetch", "hf:gsm8k", "--from", str(copy))


def _call(*arguments: str) -> None:
    done = subprocess.run([*TRACE_BENCH, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def measured(root: Path, examples: int, agent: str) -> tuple[float, float]:
    """Seconds of the score phase, and the largest resident size of a process in MiB."""
    config = {
        "mode": "stub", "backend": "local", "runs_dir": str(root / "runs"),
        "tasks": [{"id": "hf:gsm8k",
                   "eval_kwargs": {"num_train": 1, "num_validate": 1, "num_test": examples, "agent": agent}}],
        "trainers": ["NoOp"], "run_id": f"{agent}-{examples}", "score_timeout": 3600,
    }  # fmt: skip
    path = root / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    _call("run", str(path))
    (events,) = (root / "runs" / f"{agent}-{examples}").glob("jobs/*/events.jsonl")
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    (seconds,) = [line["seconds"] for line in lines if line.get("phase") == "score" and "seconds" in line]
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


class _Answers(BaseHTTPRequestHandler):
    """Answers each request at once."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"message": {"content": "The answer is 4."}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return None


def bare(examples: int) -> float:
    """Seconds of as many requests to a server on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda n: post(server.server_port, "/", {"question": n}, {}), range(examples)):
            pass
    seconds = time.monotonic() - began
    server.shutdown()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--agent", choices=("instructions", "extractor"), default="instructions")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fetch_rows(root, asked.examples + 10)
        for examples in (asked.examples // 10, asked.examples):
            seconds, size = measured(root, examples, asked.agent)
            ratio = seconds / bare(examples)
            what = f"{asked.agent}: {examples} examples"
            print(f"{what} in {seconds:.1f} s, {ratio:.1f} times bare requests; {size:.0f} MiB")


if __name__ == "__main__":
    main()
