"""Whole runs on Modal's loopback server, beside the same runs on the engine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS, cli, result_of, write_config
from tests.integration.service import REGISTRY, Service, service
from tests.sandbox.conformance import Lab, content
from trace_bench.images.lock import read_lock
from trace_bench.sandbox.modal import ModalBackend

pytestmark = pytest.mark.docker
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}


@pytest.fixture(scope="module")
def there(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(images, tmp_path_factory.mktemp("service")) as found:
        yield found


def run(folder: Path, home: Path, environment: dict[str, str] | None = None, **config: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    path = write_config(folder, **{"tasks": ["internal:numeric_param"], "trainers": [SEARCH], "seeds": [1], **config})
    done = cli("run", "--config", str(path), "--root", str(TASKS), "--json", home=home, **(environment or {}))
    assert done.stdout.startswith("{"), (done.returncode, done.stdout, done.stderr)
    return {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}


CLOCKS = ("seconds", "latency", "t", "time_seconds", "train_seconds", "backend", "run_id")


def essence(result: dict[str, Any]) -> dict[str, Any]:
    """What each job came to, without what clocks have to do with it: row, states, cassette and history."""
    found = {}
    for row in result["jobs"]:
        folder = Path(result["folder"])
        job = folder / "jobs" / row["job_id"]
        found[row["job_id"]] = {
            "row": _timeless(row),
            "states": {path.name: path.read_text() for path in sorted(job.glob("artifacts/*_state.yaml"))},
            "cassette": [_timeless(json.loads(line)) for line in (job / "llm.jsonl").read_text().splitlines()],
            "history": [
                _timeless(json.loads(line)) for line in (folder / row["state_history_path"]).read_text().splitlines()
            ],
        }
        assert len(found[row["job_id"]]["states"]) == 3
    return found


def _timeless(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in CLOCKS}


def test_a_job_there_comes_to_what_it_comes_to_here_and_says_what_was_in_force(
    there: Service, images: Path, tmp_path: Path
) -> None:
    here = run(tmp_path / "here", images)
    gone = run(tmp_path / "there", there.home, there.environment, **there.config)
    assert (here["code"], gone["code"]) == (0, 0), gone["stderr"]
    assert essence(gone) == essence(here)
    (row,) = gone["jobs"]
    meta = json.loads((Path(gone["folder"]) / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert (meta["backend"], meta["integrity"], meta["warnings"]) == ("modal", "protected", [])
    assert meta["image"]["ref"].startswith(f"{REGISTRY}/trace-bench/core@sha256:")
    lacking = {control["name"] for control in meta["controls"] if not control["in_force"]}
    assert {"pids", "read_only_root"} <= lacking and not lacking & {"network", "capabilities", "memory"}
    assert there.server.running() == [], "no sandbox is left behind"
    audit = cli("audit", gone["folder"], home=there.home)
    assert audit.returncode == 0, audit.stdout


def test_what_is_required_and_cannot_be_had_there_ends_in_one_sentence(there: Service, tmp_path: Path) -> None:
    done = run(
        tmp_path, there.home, there.environment, **there.config, sandbox={"require_controls": ["read_only_root"]}
    )
    assert (done["code"], done["jobs"]) == (3, []), done
    assert "cannot put in force: read_only_root (the service makes the root writable" in done["stderr"]


@pytest.mark.parametrize(
    ("modal", "says"),
    [
        ({}, r"modal.image_registry: say where Modal is to pull the images from"),
        ({"image_registry": "else.where/x"}, r"trace-bench images push core --registry else\.where/x"),
    ],
)
def test_images_that_were_not_pushed_are_named_with_the_command(
    there: Service, tmp_path: Path, modal: dict[str, str], says: str
) -> None:
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=[SEARCH], backend="modal", modal=modal)
    done = cli("run", "--config", str(path), home=there.home, **there.environment)
    assert done.returncode in (2, 3) and re.search(says, done.stderr), done.stderr
    assert os.fspath(tmp_path) in done.stderr or modal


WRITABLE = """
for shared in ("/tmp", "/run"):
    os.chmod(shared, 0o755)  # as the worker does, first of all
os.chmod(OUT, 0o750)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setgroups([]), os.setgid(%(uid)d), os.setuid(%(uid)d)
    found = []
    for path, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(path, name) not in ("/proc", "/sys")]
        found += [place for place in (path, *(os.path.join(path, name) for name in names))
                  if not os.path.islink(place) and os.access(place, os.W_OK)]
    os.write(writer, json.dumps(found).encode()), os._exit(0)
os.close(writer)
put("found", os.fdopen(reader, "rb").read())
"""
DEVICES = {f"/dev/{name}" for name in ("full", "null", "ptmx", "pts/ptmx", "random", "tty", "urandom", "zero")}


@pytest.mark.parametrize("family", ["core", "llm4ad"])
def test_a_candidate_finds_no_place_to_write_to(there: Service, family: str) -> None:
    """The root is writable there, for uid 0; nothing in an image may be open to others."""
    pin = read_lock(there.home).images[family]
    assert pin.repo_digest is not None
    with there.server.client() as client:
        lab = Lab(ModalBackend(client=client), pin.repo_digest)
        code = WRITABLE % {"uid": lab.backend.default_uid_base + 4}
        with lab.running(code) as (sandbox, _):
            ended = sandbox.wait(60)
            assert ended is not None and ended.code == 0, sandbox.last_words()
            assert set(json.loads(content(sandbox, "found"))) <= DEVICES
