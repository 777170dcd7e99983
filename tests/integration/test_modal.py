"""A job on Modal's loopback server: what it says of itself, and what it is refused with."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.cli import cli, result_of, write_config
from tests.integration.modal_runs import REGISTRY, Pushed, modal_config, served
from tests.sandbox.conformance import Lab, content
from trace_bench.images.lock import read_lock
from trace_bench.sandbox.base import CONTROLS
from trace_bench.sandbox.modal import ModalBackend
from trace_bench.sandbox.modal.controls import CANNOT

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

pytestmark = pytest.mark.docker
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}


@pytest.fixture(scope="module")
def server(pushed: Pushed) -> Iterator[ModalServer]:
    with served(pushed) as found:
        yield found


def run(folder: Path, pushed: Pushed, server: ModalServer, **config: Any) -> dict[str, Any]:
    """One job there."""
    path = modal_config(folder, **{"tasks": ["internal:numeric_param"], "trainers": [SEARCH], "seeds": [1], **config})
    done = cli("run", "--config", str(path), "--json", home=pushed.home, **server.environment)
    assert done.stdout.startswith("{"), (done.returncode, done.stdout, done.stderr)
    return {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}


def test_a_job_there_is_protected_and_says_what_was_in_force(
    pushed: Pushed, server: ModalServer, tmp_path: Path
) -> None:
    done = run(tmp_path, pushed, server)
    assert done["code"] == 0, done["stderr"]
    (row,) = done["jobs"]
    meta = json.loads((Path(done["folder"]) / "jobs" / row["job_id"] / "job_meta.json").read_text())
    assert (meta["backend"], meta["integrity"], meta["warnings"]) == ("modal", "protected", [])
    assert meta["image"]["ref"].startswith(f"{REGISTRY}/trace-bench/core@sha256:")
    lacking = {control["name"] for control in meta["controls"] if not control["in_force"]}
    assert lacking == CANNOT.keys() & CONTROLS.keys()
    audit = cli("audit", done["folder"], home=pushed.home)
    assert audit.returncode == 0, audit.stdout


@pytest.mark.slow
def test_what_is_required_and_cannot_be_had_there_ends_in_one_sentence(
    pushed: Pushed, server: ModalServer, tmp_path: Path
) -> None:
    sandbox = {"require_controls": ["pids"]}
    path = modal_config(tmp_path, tasks=["internal:numeric_param"], trainers=[SEARCH], sandbox=sandbox)
    before = len(server.sandboxes())
    done = cli("run", "--config", str(path), home=pushed.home, **server.environment)
    assert (done.returncode, done.stdout, len(server.sandboxes())) == (3, "", before), done
    assert re.fullmatch(r"error: .* in force: pids \(the service has no .*\)\. Use --backend docker\.\n", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modal", "says"),
    [
        ({}, r"modal.image_registry: say where Modal is to pull the images from"),
        ({"image_registry": "else.where/x"}, r"trace-bench images push core --registry else\.where/x"),
    ],
)
def test_images_that_were_not_pushed_are_named_with_the_command(
    pushed: Pushed, server: ModalServer, tmp_path: Path, modal: dict[str, str], says: str
) -> None:
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=[SEARCH], backend="modal", modal=modal)
    done = cli("run", "--config", str(path), home=pushed.home, **server.environment)
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


@pytest.mark.slow
@pytest.mark.parametrize("family", ["core", "llm4ad"])
def test_a_candidate_finds_no_place_to_write_to(pushed: Pushed, server: ModalServer, family: str) -> None:
    """The root is writable there, for uid 0; nothing in an image may be open to others."""
    pin = read_lock(pushed.home).images[family]
    assert pin.repo_digest is not None
    with server.client() as client:
        lab = Lab(ModalBackend(client=client), pin.repo_digest)
        code = WRITABLE % {"uid": lab.backend.default_uid_base + 4}
        with lab.running(code) as (sandbox, _):
            ended = sandbox.wait(60)
            assert ended is not None and ended.code == 0, sandbox.last_words()
            assert set(json.loads(content(sandbox, "found"))) <= DEVICES
