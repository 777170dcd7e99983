"""How a base is made out of Debian packages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images import debian


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
    engine: Any = None
    with pytest.raises(EnvironmentUnavailable, match=r"exit -9: 1"):
        debian.make_base(engine, lambda _: None)
    assert str(place) not in Path("/proc/self/mounts").read_text()
