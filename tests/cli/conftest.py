"""What a mistake on the command line must look like, whichever command it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli import Done, cli

NO_ENGINE = "unix:///nonexistent/trace-bench.sock"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of its own, which does not exist yet: whoever makes it has built or locked something."""
    return tmp_path / "home"


def refused(*arguments: str, code: int = 2, home: Path | None = None, cwd: Path | None = None, **env: str) -> str:
    """Run a command that must be refused; returns what it says, which is one line."""
    done = cli(*arguments, home=home, cwd=cwd, timeout=60, **env)
    assert_refused(done, code)
    return done.stderr.strip()


def assert_refused(done: Done, code: int) -> None:
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
