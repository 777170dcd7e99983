"""The mirror of a run in progress: whatever its server does, the run stays as it is."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, write_config
from trace_bench import mirrors
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.mirror import mirror
from trace_bench.config import load_config, parse_config
from trace_bench.errors import ConfigError
from trace_bench.execution.events import Event, JobFinished, RunEnded, RunStarted
from trace_bench.identity import config_hash
from trace_bench.mirrors.attached import mirrored, with_warnings
from trace_bench.records.reading import read_manifest, read_rows

pytest.importorskip("mlflow")

SECRET = "a-password-of-mine"
ANSWERS = {
    "hangs": None,
    "refuses": b"",
    "fails": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops",
    "dies": b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{",
}


@contextmanager
def bad_server(kind: str) -> Iterator[str]:
    """The address of a server that takes connections and then does what `kind` says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        if kind == "refuses":
            listening.close()
            yield address
            return
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                kept.append(connection)
                answer = ANSWERS[kind]
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield address
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_bad_server_costs_no_event_and_gives_one_warning(kind: str, recorded: RunLayout) -> None:
    rows = read_rows(recorded)
    row_events: list[Any] = [JobFinished(None, row) for row in rows]  # type: ignore[arg-type]
    events = [RunStarted(recorded.run_id, recorded, (), 1), *row_events, RunEnded(recorded.run_id, recorded, rows)]
    seen: list[Event] = []
    lines: list[str] = []
    with bad_server(kind) as address:
        settings = {"mlflow": {"tracking_uri": f"http://{address}", "wait": 1}}
        config = parse_config({"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "mirrors": settings})
        began = time.monotonic()
        with mirrored(config, seen.append, lines.append) as notify:
            for event in events:
                notify(event)
        took = time.monotonic() - began
    assert seen == events and took < 30  # one failure is awaited, not one for each of the 18 jobs
    (line,) = lines
    assert line.startswith(f"mirror mlflow: http://{address} (experiment trace-bench): ")
    assert line.endswith(f"; the copy is incomplete; send the run again: trace-bench mirror mlflow {recorded.run_id}")


@pytest.mark.slow
def test_a_server_that_fails_harms_no_run_and_no_password_is_written(tmp_path: Path) -> None:
    with bad_server("fails") as address:
        path = write_config(
            tmp_path, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="mirrored",
            mirrors={"mlflow": {"wait": 1}},
        )  # fmt: skip
        done = cli(
            "run", "--config", str(path), home=tmp_path / "home", cwd=tmp_path,
            MLFLOW_TRACKING_URI=f"http://me:{SECRET}@{address}",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].startswith("mirror mlflow: "), done.stderr
    layout = RunLayout(tmp_path / "runs" / "mirrored")
    (row,) = read_rows(layout)
    assert (row.status, row.score_best) == ("ok", row.score_initial)
    for file in (*tmp_path.rglob("*"), tmp_path / "config.json"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
    assert "mirrors" not in layout.config_snapshot.read_text()
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_run_is_on_the_server_when_it_ends(tmp_path: Path, server: str) -> None:
    from mlflow import MlflowClient

    path = write_config(tmp_path, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="live",
                        mirrors={"mlflow": {"tracking_uri": server, "experiment": "live", "wait": 60}})  # fmt: skip
    done = cli("run", "--config", str(path), "--quiet", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"mirror mlflow: live: 1 job at {server} (experiment live)"
    client: Any = MlflowClient(server)
    copies = client.search_runs([client.get_experiment_by_name("live").experiment_id])
    assert sorted(copy.info.status for copy in copies) == ["FINISHED", "FINISHED"]
    digests = [copy.data.tags["trace_bench.digest"] for copy in copies if "mlflow.parentRunId" not in copy.data.tags]
    assert len(digests) == 1  # the copy of the run is made after its index of files
    again = cli("mirror", "mlflow", "live", "--tracking-uri", server, "--experiment", "live", cwd=tmp_path)
    assert again.stdout == f"live: 1 job at {server} (experiment live), 0 of them changed\n", again.stderr


def test_a_run_in_progress_is_not_sent_again(copied: RunLayout) -> None:
    with lock_run(copied), pytest.raises(ConfigError, match="a controller is at work in it"):
        mirror("mlflow", str(copied.root), tracking_uri="http://127.0.0.1:9")


def test_without_the_client_or_an_address_the_run_goes_on_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("tasks: [internal:numeric_param]\ntrainers: [NoOp]\nmirrors: [mlflow]\n")
    changed = with_warnings(load_config(config), {})
    assert changed.mirrors.mlflow is None
    (warning,) = changed.warnings
    assert warning.startswith(f"{config}, line 3: mirrors.mlflow: the run is not mirrored, as no server is named")
    uri = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}
    assert with_warnings(load_config(config), uri).mirrors.mlflow is not None
    monkeypatch.setitem(mirrors.PACKAGES, "mlflow", "no_such_package")
    (warning,) = with_warnings(load_config(config), uri).warnings
    assert "as no_such_package is not installed: pip install 'trace-bench[mlflow]'; or copy it later" in warning


def test_a_warning_is_recorded_with_the_run(tmp_path: Path) -> None:
    path = write_config(tmp_path, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="w")
    done = cli("run", "--config", str(path), "--mirror", "mlflow", home=tmp_path / "home", cwd=tmp_path,
               MLFLOW_TRACKING_URI="")  # fmt: skip
    assert done.returncode == 0 and "warning: option --mirror: mirrors.mlflow: the run is not mirrored" in done.stderr
    manifest = read_manifest(RunLayout(tmp_path / "runs" / "w"))
    assert manifest is not None and any("is not mirrored, as no server is named" in w for w in manifest.warnings)


def test_a_mirror_changes_nothing_in_a_run(tmp_path: Path) -> None:
    plain = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"]}
    one = parse_config(plain)
    for written in ("mlflow", ["mlflow"], {"mlflow": None}, {"mlflow": {"tracking_uri": "http://h", "wait": 3}}):
        other = parse_config({**plain, "mirrors": written})
        assert other.mirrors.mlflow is not None and other.to_snapshot() == one.to_snapshot()
        assert config_hash(other.to_snapshot(), {}) == config_hash(one.to_snapshot(), {})
    path = tmp_path / "c.json"
    path.write_text(json.dumps({**plain, "mirrors": {"mlflow": {"experiment": "mine"}}}))
    both = load_config(path, {"mirror": ["mlflow"]}).mirrors.mlflow
    assert both is not None and both.experiment == "mine"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("mlfow", "unknown key 'mirrors.mlfow'; did you mean 'mlflow'?"),
        ({"mlflow": {"tracking_uri": "http://me@host"}}, "must hold no user, password or query"),
        ({"mlflow": {"wait": -1}}, "mirrors.mlflow.wait"),
        (3, "mirrors"),
    ],
)
def test_an_invalid_mirror_is_refused_in_a_sentence(written: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "mirrors": written})
    assert message in str(caught.value) and "\n" not in str(caught.value)
