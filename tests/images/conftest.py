"""A checkout of one's own: tests that edit recipes must not edit ours, nor meet somebody who does."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]

_PRELUDE = """
import json, os, sys
from dataclasses import asdict
from trace_bench.errors import TraceBenchError
from trace_bench.images import build, layers, pins, recipe, registry
def said(call):
    try:
        return asdict(call())
    except TraceBenchError as error:
        return {"error": str(error), "exit_code": int(error.exit_code)}
answer = None
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of the package and its recipes, with a lock of its own."""

    folder: Path
    home: Path

    def python(self, code: str, **environment: str) -> Any:
        """Run `code` with this copy's package; returns what it leaves in ``answer``."""
        code = _PRELUDE + code + '\nprint("ANSWER" + json.dumps(answer))'
        env = os.environ | {"PYTHONPATH": str(self.folder), "TRACE_BENCH_TEST_HOME": str(self.home)} | environment
        done = subprocess.run([sys.executable, "-c", code], cwd=self.folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.rpartition("ANSWER")[2])

    def call(self, what: str, *arguments: object, **keywords: object) -> dict[str, Any]:
        """``call("pins.ensure", "core")``: the pin as a dict, or ``{"error", "exit_code"}``."""
        given = [*(repr(a) for a in arguments), *(f"{k}={v!r}" for k, v in keywords.items())]
        place = "home=__import__('pathlib').Path(os.environ['TRACE_BENCH_TEST_HOME'])"
        answer: dict[str, Any] = self.python(f"answer = said(lambda: {what}({', '.join([*given, place])}))")
        return answer

    def edit(self, name: str, extra: str = "\n# another line\n") -> None:
        with (self.folder / name).open("a") as file:
            file.write(extra)


def copy_checkout(folder: Path, home: Path) -> Checkout:
    residue = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
    for name in ("trace_bench", "images"):
        shutil.copytree(TOP / name, folder / name, ignore=residue)
    return Checkout(folder, home)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return copy_checkout(tmp_path / "checkout", tmp_path / "home")


@pytest.fixture(scope="session")
def remove_later(engine: Any) -> Iterator[Callable[[str], None]]:
    """Names images that the session removes at its end."""
    from docker.errors import ImageNotFound

    refs: list[str] = []
    yield refs.append
    for ref in dict.fromkeys(refs):
        with contextlib.suppress(ImageNotFound):
            engine.images.remove(ref, force=True)


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    from trace_bench.images.engine import connect

    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, remove_later: Callable[[str], None]
) -> tuple[Checkout, dict[str, Any]]:
    """A checkout whose worker is like no other's, and the pin of the image that was built from it."""
    top = tmp_path_factory.mktemp("built")
    made = copy_checkout(top / "checkout", top / "home")
    made.edit("trace_bench/worker/__init__.py", f"\n# {uuid.uuid4()}\n")
    pin = made.call("build.build", "core")
    assert "error" not in pin, pin
    remove_later(pin["ref"])
    return made, pin
