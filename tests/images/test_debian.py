"""How a base is made out of Debian packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.engine import engine_answers
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images import debian
from trace_bench.images.engine import connect


def may_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="this machine allows no mount namespaces")
def test_what_the_maker_of_a_base_mounts_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, place = tmp_path / "bin" / "mmdebstrap", tmp_path / "mounted"
    program.parent.mkdir()
    place.mkdir()
    program.write_text(f"#!/bin/sh\nmount -t tmpfs none {place} && grep -c {place} /proc/self/mounts >&2\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(debian, "hindrance", lambda: None)
    monkeypatch.setattr(debian, "_sources", list)
    nothing: Any = None
    with pytest.raises(EnvironmentUnavailable, match=r"exit -9: 1"):
        debian.make_base(nothing, lambda _: None)
    assert str(place) not in Path("/proc/self/mounts").read_text()


AS_A_USER = """
mount --bind "$1/ids" /etc/subuid && mount --bind "$1/ids" /etc/subgid
exec setpriv --reuid nobody --regid nogroup --groups "$2" "$3" -c '
from trace_bench.images import debian
from trace_bench.images.engine import connect
from trace_bench.images.engine import connect
print(debian.hindrance(), debian.make_base(connect(None), lambda _: None))'
"""
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming a user that has subordinate ids needs root")
@pytest.mark.skipif(shutil.which("newuidmap") is None, reason="the package uidmap is not installed")
def test_a_base_is_made_without_root_and_is_that_of_root() -> None:
    if not engine_answers():
        pytest.skip("no engine answers")
    ours = debian.make_base(connect(None), lambda _: None)
    socket = Path(os.environ.get("DOCKER_HOST", "/var/run/docker.sock").removeprefix("unix://"))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: PTH101
        Path(folder, "ids").write_text("nobody:200000:65536\n")
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", AS_A_USER, "sh", folder, str(socket.stat().st_gid), sys.executable],
            env={**os.environ, "HOME": folder, "TMPDIR": folder, "XDG_CACHE_HOME": folder},
            cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    hindrance, made = done.stdout.split()
    assert (hindrance, made) == ("None", ours)


def test_without_root_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/etc/debian_version").exists():
        pytest.skip("this is no Debian")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in ("apt-get", "mmdebstrap"):
        (tmp_path / command).write_text("#!/bin/sh\n")
        (tmp_path / command).chmod(0o755)
    assert "without root needs uidmap (as root: apt install" in str(debian.hindrance())
    (tmp_path / "newuidmap").write_text("#!/bin/sh\n")
    (tmp_path / "newuidmap").chmod(0o755)
    assert "usermod --add-subuids" in str(debian.hindrance())
