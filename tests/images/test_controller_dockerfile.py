"""The Dockerfile at the top: its stages, what it is given, and its first stage run by a shell in place of an engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY
from trace_bench.images.base import OFFICIAL

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
LINES = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()


def stage(name: str) -> list[str]:
    start = next(i for i, line in enumerate(LINES) if line.endswith(f" AS {name}"))
    return LINES[start + 1 : next(i for i, line in enumerate(LINES) if i > start and line.startswith("FROM "))]


def first_stage(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the first stage's command with `folder` in place of the root."""
    (command,) = [line.removeprefix("RUN ") for line in stage("fetch") if line.startswith("RUN ")]
    for name in ("context", "wheelhouse"):
        command = re.sub(rf"(?<![\w/])/{name}\b", str(folder / name), command)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(folder), "REQUIREMENTS": "host", "PIP_CONFIG_FILE": os.devnull, **environment}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, env=env)


def checkout(folder: Path) -> Path:
    context = folder / "context"
    context.mkdir()
    for name in ("requirements", "images"):
        (context / name).symlink_to(REPOSITORY / name)
    return context


def test_it_has_a_base_by_default_and_every_stage_stands_on_it() -> None:
    assert LINES[0] == f"ARG BASE={OFFICIAL}"
    assert [line for line in LINES if line.startswith("FROM ")] == [
        "FROM ${BASE} AS fetch", "FROM ${BASE} AS wheels", "FROM ${BASE}",
    ]  # fmt: skip
    assert [line for line in LINES if line.startswith("COPY ")] == [
        "COPY . /context", "COPY --from=fetch /wheelhouse /wheelhouse",
        "COPY --from=wheels /install /opt/trace-bench/host",
    ]  # fmt: skip
    assert not any("PIP_INDEX_URL" in line for line in LINES[LINES.index("FROM ${BASE} AS wheels") :]), "in no layer"


def test_every_download_is_checked_by_hash() -> None:
    commands = " ".join(stage("fetch")).split(";")
    downloads = [c for c in commands if re.search(r"pip (download|install)", c)]
    assert len(downloads) == 2 and all("--require-hashes" in c and "--only-binary=:all:" in c for c in downloads)
    (wheel,) = [c for c in commands if "pip wheel" in c]
    assert "--no-index" in wheel and "--no-build-isolation" in wheel


def test_the_context_holds_what_the_wheel_is_made_of_and_no_secrets() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*" and all((REPOSITORY / name).exists() for name in allowed)
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    included = re.findall(r'^(\w+) = "trace_bench/_data/', pyproject, re.MULTILINE)
    assert {*included, "trace_bench", "README.md", "pyproject.toml", "requirements", "LICENSE"} <= allowed
    assert ".env" not in allowed and "runs" not in allowed


def test_a_wheelhouse_in_the_context_is_taken_and_nothing_downloaded(tmp_path: Path) -> None:
    given = tmp_path / "context" / "wheelhouse"
    given.mkdir(parents=True)
    (given / "requirements.txt").write_text("x")
    done = first_stage(tmp_path, PIP_NO_INDEX="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "wheelhouse" / "requirements.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PIP_NO_INDEX": "1"}, "error: the wheels of requirements/host.txt cannot be downloaded; name an index"),
        ({"REQUIREMENTS": "nope"}, "error: there is no requirements/nope.txt; use host or llm; or run scripts/"),
    ],
)
def test_without_an_index_one_sentence_says_what_to_do(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    checkout(tmp_path)
    done = first_stage(tmp_path, **environment)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith(said), done.stderr
    assert last.endswith("or run scripts/build-controller, which downloads the wheels on the host")


def test_the_wheels_that_build_this_checkout_are_pinned_with_hashes(tmp_path: Path) -> None:
    checkout(tmp_path)
    first_stage(tmp_path, PIP_NO_INDEX="1")
    text = (tmp_path / "wheelhouse" / "build.txt").read_text()
    names = re.findall(r"^([\w-]+)==", text, re.MULTILINE)
    assert names == ["hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"]
    assert text.count("--hash=sha256:") >= len(names) and not text.rstrip().endswith("\\")
