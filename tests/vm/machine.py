"""A virtual machine of scripts/vm-host, as the tests see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine import BASE_IMAGE
from tests.integration.cli import REPOSITORY, environment
from trace_bench.sandbox.labels import RUN

SCRIPT = REPOSITORY / "scripts" / "vm-host"
BOOT = 1200.0
"""Seconds that building and booting a machine may take."""


def script(release: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "--release", release, *arguments], capture_output=True, text=True, timeout=BOOT, check=False
    )


@dataclass
class Machine:
    """A machine that runs.

    Attributes:
        was_up: it ran before, and is left running.
        env: variables with which ``docker``, and the command, use its engine.
    """

    release: str
    was_up: bool = field(init=False)
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.was_up = script(self.release, "status").returncode == 0
        self.start()
        lines = script(self.release, "env").stdout.splitlines()
        # Clients of the SDK's own believe these bundles before they believe the engine's authority.
        self.env = {"REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": "", **dict(line.split("=", 1) for line in lines)}

    def start(self, *arguments: str) -> None:
        done = script(self.release, "start", "--while", str(os.getpid()), *arguments)
        if done.returncode == 3:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stderr

    def pull_the_plug(self) -> None:
        assert script(self.release, "stop").returncode == 0

    def link(self, state: str) -> None:
        done = script(self.release, "link", state)
        assert done.returncode == 0, done.stderr

    @property
    def tls_host(self) -> dict[str, Any]:
        """An entry of ``docker.hosts``."""
        return {"url": self.env["DOCKER_HOST"], "tls": self.env["DOCKER_CERT_PATH"], "name": "far", "slots": 2}

    @property
    def ssh_host(self) -> dict[str, Any]:
        return {"url": self.env["TRACE_BENCH_VM_SSH"], "name": "far", "slots": 2}

    def docker(self, *arguments: str, **options: Any) -> str:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, env={**os.environ, **self.env}, timeout=1200,
            check=False, **options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def left(self, run: str) -> list[str]:
        """Containers and volumes of the run."""
        of_it = ("-q", "--filter", f"label={RUN}={run}")
        return [*self.docker("ps", "-a", *of_it).split(), *self.docker("volume", "ls", *of_it).split()]

    def give_images(self, home: Path) -> None:
        """Copy the images of the lock in `home`, and what they stand on, where they are not there yet. Its base, which
        has a Python in it, serves as the image of the tests too."""
        lock = json.loads((home / "images.lock.json").read_text())
        refs = [lock["images"][family]["ref"] for family in ("core", "llm4ad")]
        bases = {lock["images"][family]["base"].removeprefix("packages:")[:12] for family in ("core", "llm4ad")}
        base, *others = [f"trace-bench/debian:{identity}" for identity in bases]
        assert others == []
        there = self.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
        if missing := [ref for ref in (base, *refs) if ref not in there]:
            with subprocess.Popen(["docker", "save", *missing], stdout=subprocess.PIPE) as save:
                self.docker("load", "-q", stdin=save.stdout)
            assert save.returncode == 0
        self.docker("tag", base, BASE_IMAGE)

    def pytest(self, home: Path, *arguments: str, marked: str = "docker", timeout: float = 3000) -> str:
        """Run tests with its engine; what pytest says. They do not know that it is another machine's."""
        env = environment(
            None, **self.env, TRACE_BENCH_TEST_HOME=str(home), TRACE_BENCH_REQUIRE="docker", TRACE_BENCH_SLOWNESS="10"
        )
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-m", marked, "-p", "no:cacheprovider", *arguments],
            cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
        assert "failed" not in done.stdout and " passed" in done.stdout
        return done.stdout
