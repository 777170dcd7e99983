"""A job whose connection to the engine is cut again and again, inside frames, comes to the same end as one that is left
alone: in one attempt, with no event, call or line of history lost or there twice."""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, environment, history, result_of, run, write_config
from tests.integration.files import paid_calls

ENGINE = Path("/var/run/docker.sock")
pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not ENGINE.is_socket(), reason="the engine is not behind /var/run/docker.sock"),
]
CUTS = 6
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 4, "num_candidates": 2, "num_proposals": 2}}
CONFIG: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": [SEARCH], "seeds": [3], "retries": 0}


class Scissors:
    """Stands before the engine, and cuts attached streams after so many bytes in one direction or the other.

    Attributes:
        cuts: how many there were, by container and direction.
    """

    def __init__(self, path: Path) -> None:
        self.cuts: Counter[tuple[str, str]] = Counter()
        self._chance = random.Random(7)
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(str(ENGINE))
        with suppress(OSError):
            first = client.recv(1 << 16)
            engine.sendall(first)
            attached = re.match(rb"POST /v[\d.]+/containers/(\w+)/attach", first)
            limits = self._limits(attached[1].decode()) if attached else {}
            ends = ((client, engine, "in"), (engine, client, "out"))
            threads = [
                threading.Thread(target=self._pass_on, args=(*ends_, limits.get(ends_[2])), daemon=True)
                for ends_ in ends
            ]
            for thread in threads:
                thread.start()

    def _limits(self, container: str) -> dict[str, int]:
        """After how many bytes this stream is cut, one direction at a time; nowhere after `CUTS` cuts."""
        with self._lock:
            made = sum(count for (name, _), count in self.cuts.items() if name == container)
            if made >= CUTS:
                return {}
            direction = "out" if made % 3 else "in"
            self.cuts[container, direction] += 1
            # "in" holds the 64 KiB of padding that follow a new attachment, or the job and its task.
            return {direction: self._chance.randrange(200, 4000) if direction == "out" else 400 + 66_000 * (made > 0)}

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, _: str, left: int | None) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if left is not None and len(data) >= left:
                    target.sendall(data[:left])
                    for end in (source, target):
                        end.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
                left = None if left is None else left - len(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def scissors(engine: str) -> Iterator[tuple[Scissors, Path]]:
    with tempfile.TemporaryDirectory(prefix="tb-cut-", dir="/tmp") as folder:  # a socket's path must be short
        path = Path(folder) / "s"
        cutter = Scissors(path)
        yield cutter, path
        cutter.close()


def events(folder: Path, job_id: str) -> list[Any]:
    lines = (folder / "jobs" / job_id / "events.jsonl").read_text().splitlines()
    return [(event["event"], event.get("step"), event.get("phase")) for event in map(json.loads, lines)]


@pytest.mark.slow
def test_a_connection_that_is_cut_inside_frames_changes_nothing(
    images: Path, tmp_path: Path, scissors: tuple[Scissors, Path]
) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole", images, **CONFIG)
    cutter, path = scissors
    config = write_config(tmp_path / "cut", **CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "trace_bench", "run", "--config", str(config), "--root", str(TASKS), "--json"],
        capture_output=True, text=True, timeout=240, env=environment(images, DOCKER_HOST=f"unix://{path}"), check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    cut = result_of(done.stdout)
    assert sum(cutter.cuts.values()) == CUTS and {way for _, way in cutter.cuts} == {"in", "out"}

    (one,), (two,) = whole["jobs"], cut["jobs"]
    assert two["status"] == "ok", two["feedback"]
    for key in ("job_id", "score_initial", "score_best", "score_final", "evaluations", "llm_calls", "total_tokens"):
        assert one[key] == two[key], key
    first, second = history(whole, one), history(cut, two)
    for line in (*first, *second):
        line.pop("seconds")
    assert first == second
    folder = Path(cut["folder"])
    assert events(folder, two["job_id"]) == events(Path(whole["folder"]), one["job_id"])
    assert len(paid_calls(folder)) == len(set(paid_calls(folder))) == two["llm_calls"]
    meta = json.loads((folder / "jobs" / two["job_id"] / "job_meta.json").read_text())
    assert [attempt["status"] for attempt in meta["attempts"]] == ["ok"]
    (warning,) = [text for text in meta["warnings"] if "the connection to the sandbox broke" in text]
    assert f"broke {CUTS} times" in warning
