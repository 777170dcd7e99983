"""The largest volumes that the limits let pass, or just do not, in a process that may take little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BODY = """
import json, resource, sys, tarfile
from pathlib import Path
from tests.execution import volumes
from tests.artifacts.archives import GOOD
from tests.artifacts.samples import RESULT
from trace_bench.artifacts.collector import collect
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import CollectError

def used():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

limit = used() + {megabytes} * (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
{code}
try:
    collect(make(GOOD), Path(sys.argv[1]) / "out")
except CollectError as error:
    print("refused:", error)
else:
    print("taken")
"""
LARGE = {
    "a result of 1 GB": ('make = volumes.huge("result.json", 1 << 30)', "is the limit"),
    "a file of 1 GB whose size is a lie": (
        'make = volumes.huge("extra/big", 1 << 30, claimed=1 << 10)', "has no valid checksum"),
    "a log of 127 MB": ('make = volumes.huge("stdout.log", 127 << 20)', "taken"),
    "a volume of 1 GB": ("make = volumes._flood", "the archive is larger than"),
    "a result of millions of lists": (
        'make = volumes.with_file("result.json", b"[" + b"[]," * 8_000_000 + b"[]]")', "values"),
    "a result of millions of texts": (
        'make = volumes.with_file("result.json", b"[" + b\'"",\' * 8_000_000 + b\'""]\')', "values"),
    "a result of one text": (
        'make = volumes.with_file("result.json", b\'{"a":"\' + b"[,{" * 8_000_000 + b\'"}\')', "$."),
    "an unfinished text of quotes": (
        'make = volumes.with_file("result.json", b\'"\' + b\'\\\\"\' * 15_000_000)', "Unterminated"),
    "a hundred thousand examples": (
        'make = volumes.changed("result.json", lambda r: {**RESULT, "scores": {"best": {"examples": '
        'volumes.examples(100_000)}}})', "taken"),
    "a hundred thousand lines": (
        'make = volumes.with_file("events.jsonl", b\'{"t":0,"event":"a"}\\n\' * 100_000)', "taken"),
    "a line of 4 MB": (
        'make = volumes.with_file("events.jsonl", b\'{"t":0,"event":"a","x":[\' + b"[]," * 1_300_000 + b"0]}\\n")',
        "taken"),
    "a million names": ("make = volumes.many(1_000_000, str)", "more than 10000 files"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    # One in six: each is a process that holds what is large.
    [pytest.param(name, marks=pytest.mark.slow if number % 6 else []) for number, name in enumerate(LARGE)],
)
def test_what_is_large_takes_little_memory(tmp_path: Path, name: str) -> None:
    code, said = LARGE[name]
    done = subprocess.run(
        [sys.executable, "-c", BODY.format(code=code, megabytes=700), str(tmp_path)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert said in done.stdout, done.stdout + done.stderr
    assert not list(tmp_path.glob(".*")), "nothing half collected is left"
