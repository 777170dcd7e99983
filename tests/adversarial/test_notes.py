"""What one program leaves for a later one: processes that dodge the sweep, and bits in the page cache.

Each attack is also made against the defence as it once was (`inside/naive.py`), where it must win: an attack that does
not work proves nothing.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "perf"))
import spawned

from tests.integration.cli import cli

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code and system calls are those of x86_64"),
]

INSIDE = Path(__file__).parent / "inside"
SECRET = 0b1011_0010_1110_0101_0110_1001_1100_0111
TRIES, FEW = 200, 40
"""How often an attack is made that must not succeed: under --full, and without it."""


@pytest.fixture
def tries(request: pytest.FixtureRequest) -> int:
    return TRIES if request.config.getoption("--full") else FEW


def attack(image: str, program: str, *, weaker: tuple[str, ...] = (), slot: int = 0, **asked: Any) -> list[Any]:
    files = {"notes.py": INSIDE / "notes.py", "naive.py": INSIDE / "naive.py"}
    told = {"program": program, "weaker": weaker, "uid_base": spawned.UID_BASE + 16 * slot, **asked}
    return spawned.run(image, files, "notes", json.dumps(told))


@pytest.fixture(scope="session")
def image(images: Path) -> str:
    listed = json.loads(cli("images", "list", "--json", home=images).stdout)
    return str(next(item["pin"]["ref"] for item in listed if item["family"] == "core"))


@pytest.mark.parametrize("program", ["forking", "cloning"])
def test_a_process_that_changes_its_pid_dodges_a_sweep_that_looks_first(image: str, program: str) -> None:
    weaker = ("filter", "sweep")
    (found,) = attack(image, program, weaker=weaker, tries=900, until_first=True)
    assert found["survived"], "the attack does not work"


@pytest.mark.parametrize("program", ["forking", "cloning"])
def test_no_such_process_survives_the_sweep_that_kills_first(image: str, program: str, tries: int) -> None:
    (found,) = attack(image, program, weaker=("filter",), tries=tries)
    assert (found["survived"], found["refused"]) == (0, 0)


@pytest.mark.parametrize(("program", "says"), [("forking", "PermissionError"), ("cloning", "PermissionError")])
def test_no_program_can_start_such_a_process(image: str, program: str, says: str, tries: int) -> None:
    (found,) = attack(image, program, tries=tries)
    assert (found["survived"], found["refused"]) == (0, tries) and says in found["said"][0]


def test_a_task_that_declares_processes_leaves_none_either(image: str, tries: int) -> None:
    (found,) = attack(image, "forking", needs=["processes"], tries=tries)
    assert (found["survived"], found["refused"]) == (0, 0)


CACHE = ["reading", "calling", "system_call"]


@pytest.mark.parametrize("program", CACHE)
@pytest.mark.parametrize("containers", [1, 2])
def test_the_page_cache_carried_a_number_from_job_to_job(image: str, program: str, containers: int) -> None:
    """A busy machine evicts pages and takes its time, so that single bits are wrong. By chance 30 of 32 are right once
    in eight million."""
    tries = (carried(image, program, containers, ("filter",)) for _ in range(3))
    assert any(isinstance(found, int) and (found ^ SECRET).bit_count() <= 2 for found in tries), (
        "the attack does not work"
    )


@pytest.mark.parametrize("program", CACHE)
def test_no_program_can_write_to_the_page_cache_or_read_it(image: str, program: str) -> None:
    for answer in attack(image, program, numbers={"train": SECRET, "score": 0}):
        assert isinstance(answer, str) and "Permission" in answer
    assert isinstance(carried(image, program, 2, ()), str)


def carried(image: str, program: str, containers: int, weaker: tuple[str, ...]) -> Any:
    """What a program finds after one with another uid has left `SECRET`."""
    if containers == 1:
        return attack(image, program, weaker=weaker, numbers={"train": SECRET, "score": 0})[-1]
    attack(image, program, weaker=weaker, numbers={"train": SECRET})
    return attack(image, program, weaker=weaker, slot=1, numbers={"score": 0})[0]
