"""A mirror that is started with a run: whatever becomes of its server, the run stays as it is."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, write_config
from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import load_config, parse_config
from trace_bench.errors import ConfigError
from trace_bench.identity import config_hash
from trace_bench.mirrors import attached, registry
from trace_bench.mirrors.attached import with_warnings
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


def bad(folder: Path, kind: str) -> None:
    """A run with a mirror to a server that is no good is the run without one, but for a line and a bounded wait."""
    with bad_server(kind) as address:
        folder.mkdir()
        path = write_config(
            folder, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="mirrored",
            mirrors={"mlflow": {"wait": 1.0}},
        )  # fmt: skip
        began = time.monotonic()
        done = cli(
            "run", "--config", str(path), home=folder / "home", cwd=folder,
            MLFLOW_TRACKING_URI=f"http://me:{SECRET}@{address}",
        )  # fmt: skip
        took = time.monotonic() - began
    assert done.returncode == 0 and took < 60, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("mirror mlflow: "), done.stderr
    assert "still at work in process" in said
    layout = RunLayout(folder / "runs" / "mirrored")
    (row,) = read_rows(layout)
    assert (row.status, row.score_best) == ("ok", row.score_initial)
    for found in (*folder.rglob("*"), folder / "config.json"):
        if found.is_file():
            assert SECRET.encode() not in found.read_bytes(), found
    assert "mirrors" not in layout.config_snapshot.read_text()
    assert SECRET not in done.stdout + done.stderr
    end_of_mirror(said)


def end_of_mirror(said: str) -> None:
    """It would go on for a minute."""
    words = said.split()
    os.kill(int(words[words.index("process") + 1].rstrip(",")), signal.SIGKILL)


@pytest.mark.slow
def test_a_server_that_hangs_harms_no_run_and_no_password_is_written(tmp_path: Path) -> None:
    bad(tmp_path / "hangs", "hangs")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refuses", "fails", "dies"])
def test_a_server_that_is_no_good_harms_no_run(kind: str, tmp_path: Path) -> None:
    bad(tmp_path / kind, kind)


@pytest.mark.slow
def test_a_run_is_mirrored_while_it_goes_on(tmp_path: Path, server: str) -> None:
    from mlflow import MlflowClient

    path = write_config(tmp_path, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="live",
                        mirrors={"mlflow": {"tracking_uri": server, "experiment": "live", "wait": 60}})  # fmt: skip
    done = cli("run", "--config", str(path), "--quiet", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"mirror mlflow: live: 1 job at {server} (experiment live)"
    client: Any = MlflowClient(server)
    found = client.search_runs([client.get_experiment_by_name("live").experiment_id])
    assert sorted(run.info.status for run in found) == ["FINISHED", "FINISHED"]
    index = json.loads((tmp_path / "runs" / "live" / "meta" / "files_index.json").read_text())
    assert not any("mirror" in entry["path"] for entry in index["files"])


def test_without_the_client_or_an_address_the_run_goes_on_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("tasks: [internal:numeric_param]\ntrainers: [NoOp]\nmirrors: [mlflow]\n")
    found = with_warnings(load_config(config), {})
    assert found.mirrors.mlflow is None
    (warning,) = found.warnings
    assert warning.startswith(f"{config}, line 3: mirrors.mlflow: the run is not mirrored, as no server is named")
    uri = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}
    assert with_warnings(load_config(config), uri).mirrors.mlflow is not None
    monkeypatch.setattr(registry.Kind, "missing", lambda kind: "mlflow is not installed: pip install it")
    (warning,) = with_warnings(load_config(config), uri).warnings
    assert "the run is not mirrored, as mlflow is not installed: pip install it; or copy it later" in warning
    assert attached.KINDS is registry.KINDS


def test_a_warning_is_recorded_with_the_run(tmp_path: Path) -> None:
    path = write_config(tmp_path, backend="local", tasks=["internal:numeric_param"], trainers=["NoOp"], run_id="w")
    done = cli("run", "--config", str(path), "--mirror", "mlflow", home=tmp_path / "home", cwd=tmp_path,
               MLFLOW_TRACKING_URI="")  # fmt: skip
    assert done.returncode == 0 and "warning: option --mirror: mirrors.mlflow: the run is not mirrored" in done.stderr
    manifest = read_manifest(RunLayout(tmp_path / "runs" / "w"))
    assert manifest is not None and any("is not mirrored, as no server is named" in w for w in manifest.warnings)


def test_who_looks_on_is_no_part_of_what_is_run(tmp_path: Path) -> None:
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
    ("written", "said"),
    [
        ("mlfow", "unknown key 'mirrors.mlfow'; did you mean 'mlflow'?"),
        ({"mlflow": {"tracking_uri": "http://me@host"}}, "must hold no user, password or query"),
        ({"mlflow": {"wait": -1}}, "mirrors.mlflow.wait"),
        (3, "mirrors"),
    ],
)
def test_a_mirror_that_is_written_wrongly_is_refused_in_a_sentence(written: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "mirrors": written})
    assert said in str(caught.value) and "\n" not in str(caught.value)
