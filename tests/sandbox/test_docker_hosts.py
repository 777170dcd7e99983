"""Several engines as one backend: engines of this machine stand in for other machines'."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.engines import OtherEngine, engines
from tests.ssh_server import ssh_server
from trace_bench.cli.backends import backend_for
from trace_bench.config.places import DockerHostConfig
from trace_bench.errors import EnvironmentUnavailable, Interrupted, SandboxError
from trace_bench.images.build import KEY_LABEL
from trace_bench.images.engine import connect
from trace_bench.images.lock import ImagePin
from trace_bench.images.recipe import key_of_parts
from trace_bench.images.supply import supply
from trace_bench.planning.images import pinned_image
from trace_bench.sandbox import Sandbox, SandboxRequest, docker_hosts, get_backend
from trace_bench.sandbox import engine as engine_module
from trace_bench.sandbox.base import SeveralEngines
from trace_bench.sandbox.docker_hosts import DockerHosts
from trace_bench.sandbox.engine import Engine
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.labels import RUN, job_labels

pytestmark = pytest.mark.docker


@dataclass(frozen=True)
class Image:
    """An image of a few bytes, on the usual engine."""

    name: str
    key: str

    @property
    def pin(self) -> ImagePin:
        return ImagePin("core", self.name, self.key, "sha256:0", "layers:0", "2026", parts={"base": self.name})


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """An image as a build leaves it, of a recipe that nobody else has."""
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no engine answers")
    fake = f"trace-bench-test/{uuid.uuid4().hex}"
    key = key_of_parts("core", {"base": fake})
    tag = f"trace-bench/core:{key[:12]}"
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(info := tarfile.TarInfo("file"), io.BytesIO(b"0" * info.size))
    change = ["--change", f"LABEL {KEY_LABEL}={key}"]
    subprocess.run(["docker", "import", *change, "-", tag], input=tar.getvalue(), check=True, capture_output=True)
    yield Image(fake, key)
    subprocess.run(["docker", "rmi", tag], check=True, capture_output=True)


@pytest.fixture(scope="module")
def two() -> Iterator[list[OtherEngine]]:
    """Two engines that run; the first answers over TLS as well."""
    with engines(2, tls=1) as found:
        yield found


@pytest.fixture
def pair(two: list[OtherEngine]) -> list[OtherEngine]:
    for engine in two:
        if not engine.is_up:
            engine.start()
    return two


def hosts_of(pair: list[OtherEngine], **more: Any) -> DockerHosts:
    near, far = pair
    return DockerHosts(
        [
            DockerHostConfig(url=near.tcp_url, tls=str(near.tls), name="near", slots=3, labels=("fast", "x"), **more),
            DockerHostConfig(url=far.url, name="far", **more),
        ]
    )


def request_for(host: str, image: str, run: str = "hosts") -> SandboxRequest:
    name = f"trace-bench-test-{uuid.uuid4().hex[:12]}"
    labels = job_labels(run, name, 60)
    return SandboxRequest(name=name, image=image, command=("/file",), labels=labels, uid_base=0x70000000, host=host)


def swept(found: list[Sandbox]) -> None:
    for sandbox in found:
        sandbox.remove()


def test_sandboxes_are_made_where_the_request_says_and_found_on_all_hosts(
    pair: list[OtherEngine], image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/none.pem")  # about other servers than the engine's
    monkeypatch.setenv("CURL_CA_BUNDLE", "/etc/none.pem")
    backend = get_backend("docker", hosts=[m.setting for m in hosts_of(pair)._members.values()])
    assert isinstance(backend, DockerHosts) and isinstance(backend, SeveralEngines)
    near, far = backend.hosts()
    assert (near.name, near.slots, near.labels) == ("near", 3, {"fast", "x"})
    assert (far.name, far.slots, far.labels) == ("far", None, frozenset())
    assert near.scope != far.scope and near.memory_bytes and near.cpus

    said: list[str] = []
    ref = image.pin.ref

    tagged = replace(image.pin, ref=f"trace-bench/core:{image.key[:12]}")
    backend.supply_image(ref, lambda host, client, _: supply(tagged, Engine().sdk(60), client, host, said.append))
    made = [backend.create(request_for(host, ref)) for host in ("near", "far", "near")]
    try:
        assert [sandbox.host for sandbox in made] == ["near", "far", "near"]
        assert sorted(s.host for s in backend.find({RUN: "hosts"})) == ["far", "near", "near"]
        assert [len(engine.containers()) for engine in pair] == [2, 1]
        assert backend.uid_bases_in_use() == {0x70000000}
        assert sorted(line.partition(" in ")[0] for line in said) == [
            f"{host}: {what} {tagged.ref}{size}"
            for host in ("far", "near")
            for what, size in (("copied", ""), ("copying", " (0 MB)"))
        ], "once per host and image"
        with pytest.raises(SandboxError, match="no host is called 'nowhere'; there are near, far"):
            backend.create(request_for("nowhere", ref))
    finally:
        swept(made)
    assert backend.find({RUN: "hosts"}) == [] and [engine.volumes() for engine in pair] == [[], []]

    facts = json.loads(json.dumps(backend.describe()))
    assert facts["backend"] == "docker" and facts["engine"] and "memory_bytes" not in facts
    assert [facts["hosts"][name]["memory_bytes"] for name in ("near", "far")] == [near.memory_bytes, far.memory_bytes]
    assert backend.capabilities | backend.cannot.keys() >= {"network", "quota"}
    assert all(why.startswith("host near:") or why.startswith("host far:") for why in backend.cannot.values())


def test_a_host_that_is_gone_is_left_out_and_what_it_held_is_found_when_it_is_back(
    pair: list[OtherEngine], image: Image, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = hosts_of(pair)
    pair[1].load(f"trace-bench/core:{image.key[:12]}")
    left = backend.create(request_for("far", f"trace-bench/core:{image.key[:12]}"))
    pair[1].vanish()

    with pytest.raises(EngineGone) as gone:
        left.attach()
    assert gone.value.host == "far"
    assert [host.name for host in backend.hosts()] == ["near"] and backend.find({RUN: "hosts"}) == []
    assert list(backend.unreachable()) == ["far"] and "of host far (unix:" in backend.unreachable()["far"]
    backend.check()  # the other one is enough
    config = tmp_path / "config.json"
    near, far = ({"url": engine.url, "name": name} for engine, name in zip(pair, ("near", "far"), strict=True))
    config.write_text(json.dumps({"tasks": ["internal:numeric_param"], "docker": {"hosts": [near, far]}}))
    backend_for(config=config)
    assert "host far is left out: the Docker engine of host far" in capsys.readouterr().err
    assert "of host far" in backend.describe()["hosts"]["far"]["error"]
    for call in (left.status, left.attach, left.remove, lambda: backend.create(request_for("far", "any"))):
        with pytest.raises(EngineGone) as gone:
            call()
        assert gone.value.host == "far", call

    pair[1].start()
    assert [host.name for host in backend.hosts()] == ["near", "far"] and backend.unreachable() == {}
    (found,) = backend.find({RUN: "hosts"})
    assert (found.name, found.host) == (left.name, "far")
    found.remove()
    assert pair[1].containers() == pair[1].volumes() == []


def test_a_host_that_hangs_keeps_nobody_waiting(pair: list[OtherEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "PROBE", 1)
    monkeypatch.setattr(docker_hosts, "ASK", 0.5)
    monkeypatch.setattr(docker_hosts, "SOON", 0.2)
    backend = hosts_of(pair)
    backend.check()
    far = backend._members["far"].engine
    far.timeout = 2.0
    with pair[1].frozen():
        began = time.monotonic()
        assert backend.uid_bases_in_use() == frozenset() and time.monotonic() - began < 0.45
        backend._members["far"].silent_until = 0.0
        began = time.monotonic()
        assert backend.find({}) == []
        assert time.monotonic() - began < 1
        assert "did not answer within 0.5 seconds" in backend.unreachable()["far"]
        began = time.monotonic()
        assert backend.find({}) == [] and time.monotonic() - began < 0.3, "it is not asked again at once"
        began = time.monotonic()
        for _ in range(5):
            with pytest.raises(EngineGone, match="did not answer"):
                backend.create(request_for("far", "any"))
        assert time.monotonic() - began < 1.8, "no further call waits as long as the first"
    assert [host.name for host in backend.hosts()] == ["near", "far"]


def test_no_host_answers(tmp_path: Path) -> None:
    gone = [DockerHostConfig(url=f"unix://{tmp_path}/{name}", name=name) for name in ("one", "two")]
    with pytest.raises(
        EnvironmentUnavailable, match=r"none of the hosts in docker\.hosts answers: .*host one.*host two"
    ):
        get_backend("docker", hosts=gone)
    for call in (DockerHosts(gone).hosts, lambda: DockerHosts(gone).find({})):
        with pytest.raises(EngineGone):
            call()


def test_one_engine_under_two_names_is_refused(pair: list[OtherEngine]) -> None:
    near = pair[0]
    twins = [DockerHostConfig(url=near.url, name="one"), DockerHostConfig(url=near.tcp_url, tls=str(near.tls))]
    with pytest.raises(EnvironmentUnavailable, match=r"hosts one and 127\.0\.0\.1 in docker\.hosts are one engine"):
        DockerHosts(twins).check()


def test_certificates_and_contexts_that_are_wrong_are_named(
    pair: list[OtherEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = pair[0]
    with pytest.raises(EnvironmentUnavailable, match=r"cannot be reached: .*correct docker\.hosts"):
        DockerHosts([DockerHostConfig(url=near.tcp_url, tls=str(tmp_path))])
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (stranger / name).write_bytes((near.tls / name).read_bytes())
    (stranger / "ca.pem").write_bytes((near.tls / "cert.pem").read_bytes())
    with pytest.raises(EnvironmentUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        DockerHosts([DockerHostConfig(url=near.tcp_url, tls=str(stranger))]).check()

    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    files = ",".join(f"{key}={near.tls}/{key}.pem" for key in ("ca", "cert", "key"))
    subprocess.run(
        ["docker", "context", "create", "ours", "--docker", f"host={near.tcp_url},{files}"],
        check=True, capture_output=True,
    )  # fmt: skip
    backend = DockerHosts([DockerHostConfig(context="ours")])
    backend.check()
    assert [host.name for host in backend.hosts()] == ["ours"]
    with pytest.raises(EnvironmentUnavailable, match=r"'other' cannot be reached: .*other"):
        DockerHosts([DockerHostConfig(context="other")])


def test_an_engine_with_an_authority_of_its_own_is_asked_for_images_where_servers_have_another(
    pair: list[OtherEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    near = pair[0]
    monkeypatch.setenv("DOCKER_HOST", near.tcp_url)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(near.tls))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(near.tls / "cert.pem"))
    client = connect()
    assert client.info()["ID"] == Engine(near.url).info["ID"]
    client.close()


def test_an_engine_over_ssh_and_what_ssh_says(
    pair: list[OtherEngine], image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_server(pair[1]) as server:
        monkeypatch.setenv("PATH", server.path)
        backend = DockerHosts([DockerHostConfig(url=server.url, name="far")])
        backend.check()
        tagged = replace(image.pin, ref=f"trace-bench/core:{image.key[:12]}")
        backend.supply_image("x", lambda host, client, _: supply(tagged, Engine().sdk(60), client, host, print))
        sandbox = backend.create(request_for("far", "x"))
        sandbox.attach().close()
        swept(backend.find({RUN: "hosts"}))
        assert sandbox.status() == "removed"
        server.process.kill()
        server.process.wait()
        with pytest.raises(EngineGone, match=r"ssh says: .*Connection refused"):
            DockerHosts([DockerHostConfig(url=server.url, name="far")]).hosts()


def test_an_ssh_server_is_not_stormed(pair: list[OtherEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the eleventh unfinished connection on, a server drops some at random."""
    with ssh_server(pair[1]) as server, ThreadPoolExecutor(24) as threads:
        monkeypatch.setenv("PATH", server.path)
        engine = Engine(server.url)
        asked = [threads.submit(lambda: engine.client.ping()) for _ in range(24)]
        assert all(future.result() for future in asked)


# -- images -----------------------------------------------------------------------------------------------------------


def test_an_image_comes_by_digest_or_as_a_copy_and_only_once(pair: list[OtherEngine], image: Image) -> None:
    target, source = Engine(pair[1].url).sdk(60), Engine().sdk(60)
    tag = f"trace-bench/core:{image.key[:12]}"
    with suppress(AssertionError):
        pair[1].docker("rmi", tag)
    said: list[str] = []
    # A registry that this host does not reach, and a name that no copy has.
    elsewhere = f"127.0.0.1:1/trace-bench/core@sha256:{'0' * 64}"
    pushed = replace(image.pin, ref=tag, repo_digest=elsewhere)
    assert supply(pushed, source, target, "far", said.append) == tag
    assert [line.partition(" (")[0].partition(" in ")[0] for line in said] == [
        f"far: pulling {elsewhere}", said[1], f"far: copying {tag}", f"far: copied {tag}",
    ]  # fmt: skip
    assert "far: cannot pull" in said[1]
    said.clear()
    assert supply(replace(pushed, ref=elsewhere), source, target, "far", said.append) == tag and said == []

    other = replace(image.pin, ref=tag, parts={"base": "another recipe"})
    with pytest.raises(EnvironmentUnavailable, match="cannot read trace-bench"):
        supply(replace(other, ref="trace-bench/core:nothing"), source, target, "far", said.append)


def test_an_image_is_passed_on_in_pieces(image: Image) -> None:
    """What is in memory at a time is a piece, however large the image."""
    pieces: list[int] = []

    class Target:
        class api:
            @staticmethod
            def load_image(data: Iterator[bytes]) -> list[Any]:
                assert not isinstance(data, bytes | list)
                pieces.extend(len(piece) for piece in data)
                return []

        class images:
            @staticmethod
            def get(_: str) -> None:
                from docker.errors import ImageNotFound

                raise ImageNotFound("none")

    tagged = replace(image.pin, ref=f"trace-bench/core:{image.key[:12]}")
    with pytest.raises(EnvironmentUnavailable, match="is not the image of family core"):
        supply(tagged, Engine().sdk(60), Target(), "far", lambda _: None)  # type: ignore[arg-type]
    assert pieces and max(pieces) <= 1 << 20

    asked: list[None] = []

    def stopped() -> bool:
        asked.append(None)
        return True

    with pytest.raises(Interrupted, match="was copied to host far"):
        supply(tagged, Engine().sdk(60), Target(), "far", lambda _: None, stopped)  # type: ignore[arg-type]
    assert len(asked) == 1, "nothing more is sent"


def test_the_first_host_makes_the_images_where_this_machine_has_no_engine(
    pair: list[OtherEngine], image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_bench.config.models import ImagesConfig
    from trace_bench.planning import images

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    asked: list[str] = []

    def ensure(family: str, *, engine: Any, **_: Any) -> ImagePin:
        asked.append(engine.api.base_url)
        return replace(image.pin, ref="made", parts={"base": "nobody's"})

    monkeypatch.setattr(images, "ensure", ensure)
    backend = hosts_of(pair)
    assert pinned_image("core", ImagesConfig(), backend, build=True, say=print).ref == "made"
    assert asked == [pair[0].tcp_url.replace("tcp:", "https:")]
    with pytest.raises(SandboxError, match="host far was not given image made: cannot read made"):
        backend.create(request_for("far", "made"))
