"""The rows of data sets on the host: the few that come with this program, and those that were fetched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trace_bench.resources import data_dir
from trace_bench.suites.data_files import FOLDER
from trace_bench.suites.spec_tables import QaSpec

FIXTURES = "hf/fixtures"
"""Below ``benchmarks``: for each data set a folder with a file of JSON lines for each split."""
POOLS = ("train", "test")


def packed(qa: QaSpec) -> tuple[tuple[str, bytes], ...]:
    """``(data/<pool>/<source>.jsonl, content)`` for the pools ``train`` (training and validation examples) and
    ``test``, of the sources ``fixture`` and, if the data set was fetched, ``rows``."""
    return tuple(sorted((f"{FOLDER}/{pool}/fixture.jsonl", b"".join(rows)) for pool, rows in _fixture(qa).items()))


def _fixture(qa: QaSpec) -> dict[str, list[bytes]]:
    folder = data_dir("benchmarks") / FIXTURES / qa.dataset_id.replace("/", "--")
    return pools(*(list(_lines(folder / f"{split}.jsonl")) for split in _splits(qa)))


def _splits(qa: QaSpec) -> list[str]:
    return list(dict.fromkeys((qa.train_split, qa.test_split)))


def pools(train: list[bytes], test: list[bytes] | None = None) -> dict[str, list[bytes]]:
    """The rows of both pools. Of one split alone, half are held out, by the hashes of their contents."""
    if test is None:
        ordered = sorted(train, key=lambda line: hashlib.sha256(line).digest())
        train, test = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]
    return {"train": train, "test": test}


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        yield from path.read_bytes().splitlines(keepends=True)
