"""The rows of data sets on the host: the few that come with this program, and those that were fetched."""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.resources import data_dir
from trace_bench.suites.data_files import FOLDER
from trace_bench.suites.hf import frozen
from trace_bench.suites.hf.frozen import Kept, Split, replacing
from trace_bench.suites.spec_tables import QaSpec

FIXTURES = "hf/fixtures"
"""Below ``benchmarks``: for each data set a folder with a file of JSON lines for each split."""
POOLS = ("train", "test")
MOST_BYTES = 12 << 20
"""Of the rows of a pool, as JSON lines."""
_VERSION = 1
"""Of the rule that chooses rows, and of their form as JSON lines."""
_UNREAD: Mapping[str, tuple[str, ...]] = {"musique": ("question_decomposition",)}
"""By kind of question: columns that neither agents nor metrics read."""
_BATCH_ROWS = 500


def packed(qa: QaSpec, *, rows: bool = True) -> tuple[tuple[str, bytes], ...]:
    """``(data/<pool>/<source>.jsonl, content)`` for the pools ``train`` (training and validation examples) and
    ``test``, of the sources ``fixture`` and, if the data set was fetched, ``rows``.

    Args:
        rows: take the rows of the data set too.

    Raises:
        ConfigError: what was fetched is damaged.
    """
    found = {f"{FOLDER}/{pool}/fixture.jsonl": b"".join(lines) for pool, lines in _fixture(qa).items()}
    if rows and (there := fetched(qa)) is not None:
        found |= {f"{FOLDER}/{pool}/rows.jsonl": content for pool, content in _rows(qa, there).items()}
    return tuple(sorted(found.items()))


def fetched(qa: QaSpec) -> Kept | None:
    """The data set of `qa`, if all splits that it reads were fetched."""
    there = frozen.kept(qa.dataset_id, qa.dataset_config)
    return there if there is not None and set(_splits(qa)) <= there.splits.keys() else None


def _fixture(qa: QaSpec) -> dict[str, list[bytes]]:
    folder = data_dir("benchmarks") / FIXTURES / qa.dataset_id.replace("/", "--")
    return pools(*(list(_lines(folder / f"{split}.jsonl")) for split in _splits(qa)))


def _splits(qa: QaSpec) -> list[str]:
    return list(dict.fromkeys((qa.train_split, qa.test_split)))


def pools(train: list[bytes], test: list[bytes] | None = None, *, held_out: float = 0.5) -> dict[str, list[bytes]]:
    """The rows of both pools. Of one split alone, the share `held_out` is held out, by the hashes of their contents."""
    if test is None:
        ordered = sorted(train, key=lambda line: hashlib.sha256(line).digest())
        kept = round(len(ordered) * (1 - held_out))
        train, test = ordered[:kept], ordered[kept:]
    return {"train": train, "test": test}


def _lines(path: Path) -> Iterator[bytes]:
    if path.is_file():
        yield from path.read_bytes().splitlines(keepends=True)


# ---------------------------------------------------------------------------------------------------- fetched rows


def _rows(qa: QaSpec, there: Kept) -> dict[str, bytes]:
    """The content of each pool. Of one split alone, twice the rows of a pool are chosen, and dealt."""
    unread = _UNREAD.get(qa.task_type, ())
    names = _splits(qa)
    limit = MOST_BYTES * (3 - len(names))
    contents = [_chosen(there.splits[name], limit, unread, f"{there.name}, split {name}") for name in names]
    dealt = pools(*(content.splitlines(keepends=True) for content in contents), held_out=qa.held_out)
    return {pool: b"".join(lines) for pool, lines in dealt.items()}


def _chosen(split: Split, limit: int, unread: tuple[str, ...], where: str) -> bytes:
    """The first rows of `split` in the order of the hashes of their contents, of `limit` bytes at most. They are kept
    under the hash of what determines them and their own, so that the next run reads no Parquet."""
    key = hashlib.sha256(json.dumps([split.sha256, _VERSION, limit, unread]).encode()).hexdigest()[:32]
    folder = frozen.home() / "packed"
    for path in folder.glob(f"{key}-*.jsonl"):
        content = path.read_bytes()
        if path.stem.partition("-")[2] == hashlib.sha256(content).hexdigest():
            return content
        path.unlink()
    if split.damaged:
        raise ConfigError(f"{where}: {split.path} is gone or has changed")
    content = b"".join(first_by_hash(_json_lines(split.path, unread), limit))
    try:
        folder.mkdir(exist_ok=True)
        with replacing(folder / f"{key}-{hashlib.sha256(content).hexdigest()}.jsonl") as path:
            path.write_bytes(content)
    except OSError as error:
        raise EnvironmentUnavailable(f"{folder}: rows cannot be kept there: {error.strerror or error}") from error
    return content


def first_by_hash(lines: Iterable[bytes], limit: int) -> list[bytes]:
    """The first of `lines` in the order of their SHA-256, as many as have `limit` bytes together: a sample that depends
    neither on their order nor on a seed. Equal lines count once; one that is longer than `limit` is left out.

    Holds no more than `limit` bytes and one line at a time.

    >>> first_by_hash([b"b\\n", b"a\\n", b"b\\n"], 100) == first_by_hash([b"a\\n", b"b\\n"], 100)
    True
    """
    chosen: dict[int, bytes] = {}
    last: list[int] = []  # hashes of `chosen`, negated: the first is the greatest
    size = 0
    for line in lines:
        order = int.from_bytes(hashlib.sha256(line).digest())
        if order in chosen or len(line) > limit or (size >= limit and order > -last[0]):
            continue
        chosen[order] = line
        heapq.heappush(last, -order)
        size += len(line)
        # Once the others alone have `limit` bytes, the last one cannot be among the first.
        while size - len(chosen[-last[0]]) >= limit:
            size -= len(chosen.pop(-heapq.heappop(last)))
    found = [chosen[order] for order in sorted(chosen)]
    return found[:-1] if size > limit else found


def _json_lines(path: Path, unread: tuple[str, ...]) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        columns = [name for name in file.schema_arrow.names if name not in unread]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            for row in batch.to_pylist():
                yield _json(row)


def _json(row: Mapping[str, Any]) -> bytes:
    try:
        text = _ENCODER.encode(row)
    except ValueError:  # a number that is none, or is infinite
        text = _ENCODER.encode(_finite(row))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _finite(value: Any) -> Any:
    """`value` with null for each number that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: object) -> str:
    """A value that JSON does not have, as text: bytes as UTF-8, or in Base64; dates as ISO 8601."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_text, allow_nan=False, check_circular=False
)
