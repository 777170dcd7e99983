"""The same walk with containers of the local engine as sandboxes, and what only they have."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import modal
import pytest

from tests.engine import base_image, engine_answers
from tests.modal_server.conftest import REFERENCE, Account
from tests.modal_server.server import ModalServer
from tests.modal_server.walk import walk

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def containers() -> Iterator[Account]:
    if not engine_answers():
        pytest.skip("no engine answers")
    with ModalServer("docker", images={REFERENCE: base_image()}) as server, server.client() as client:
        yield Account(server, client, modal.App.lookup("tests", create_if_missing=True, client=client))
    left = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=modal-server={server.state}"], capture_output=True, check=True
    )
    assert not left.stdout


def test_the_client_goes_through_everything_in_containers(containers: Account, family: str, tmp_path: Path) -> None:
    walk(containers, tmp_path, f"walk-{family}")


def test_a_container_has_its_limits_and_no_network(containers: Account) -> None:
    sandbox = containers.create("sleep", "60", cpu=(0.5, 1.0), memory=(128, 256), block_network=True)
    script = "cat /proc/net/dev | tail -n +3 | cut -d: -f1; id -u; touch /anywhere && echo writable"
    assert sandbox.exec("sh", "-c", script).stdout.read().split() == ["lo", "0", "writable"]
    template = "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.NanoCpus}} {{.HostConfig.NetworkMode}}"
    command = ["docker", "inspect", "-f", template, f"modal-{sandbox.object_id}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert shown == [str(256 << 20), str(256 << 20), "1000000000", "none"]
    containers.server.vanish(sandbox.object_id)
    assert not _docker("ps", "-aq", "--filter", f"name=modal-{sandbox.object_id}")


def test_a_snapshot_is_an_image_for_another_sandbox(containers: Account) -> None:
    sandbox = containers.create("sleep", "60")
    sandbox.filesystem.write_text("kept\n", "/kept")
    image = sandbox.snapshot_filesystem()
    again = containers.create("cat", "/kept", image=image)
    again.wait()
    assert again.stdout.read() == "kept\n"
    sandbox.terminate()


@pytest.mark.slow
def test_an_image_is_pulled_by_its_digest(containers: Account, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    port = address.rpartition(":")[2]
    env = os.environ | {"TRACE_BENCH_REGISTRY_PORT": port, "TRACE_BENCH_REGISTRY_STATE": str(tmp_path / "state")}
    registry = [str(Path(__file__).parents[2] / "scripts" / "loopback-registry")]
    started = subprocess.run([*registry, "start"], env=env, capture_output=True, text=True, check=False)
    if started.returncode == 3:
        pytest.skip(started.stderr.strip())
    tag = f"{address}/modal/base:one"
    try:
        _docker("tag", base_image(), tag)
        _docker("push", "-q", tag)
        digest = _docker("inspect", "-f", "{{index .RepoDigests 0}}", tag).rpartition("@")[2]
        _docker("rmi", tag)
        reference = f"{address}/modal/base@{digest}"
        sandbox = containers.create("echo", "pulled", image=modal.Image.from_registry(reference))
        sandbox.wait()
        assert sandbox.stdout.read() == "pulled\n" and digest in _docker("inspect", "-f", "{{.RepoDigests}}", reference)
        _docker("rmi", reference)
    finally:
        subprocess.run([*registry, "stop"], env=env, check=True, capture_output=True)


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_an_image_that_cannot_be_had_fails_its_build(containers: Account) -> None:
    image = modal.Image.from_registry("127.0.0.1:9/none@sha256:" + "1" * 64)
    with pytest.raises(modal.exception.Error, match="failed with the exception"):
        containers.create("true", image=image)


def test_layers_on_top_of_an_image_are_built(containers: Account) -> None:
    image = modal.Image.from_registry(REFERENCE).run_commands("echo laid > /layer").env({"WHERE": "there"})
    sandbox = containers.create("sh", "-c", "cat /layer; echo $WHERE", image=image)
    sandbox.wait()
    assert sandbox.stdout.read() == "laid\nthere\n"
