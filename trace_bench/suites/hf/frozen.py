"""Data sets of the hub as they were fetched: rows in Parquet files that are named after their content, and a lock file
with the origin of each. On the host.

Below ``data/hf`` among the user's data: ``objects/<sha256>.parquet``, ``lock.json``, and ``packed/`` with what can be
made again (`trace_bench.suites.hf.data`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench.errors import ConfigError
from trace_bench.homes import data_home
from trace_bench.suites.data_sources import sum_of

if TYPE_CHECKING:
    import pyarrow as pa

LOCAL = "local"
"""The revision of a copy that was on disk."""
GROUP_ROWS = 1000
"""Rows of a row group. It is fixed: equal rows make equal files."""


@dataclass(frozen=True)
class Split:
    """The rows of a split.

    Attributes:
        sha256: of the Parquet file.
        bytes: size of that file.
        files: SHA-256 of each file of the data set that the rows come from, by name.
    """

    sha256: str
    rows: int
    columns: tuple[str, ...]
    bytes: int
    files: Mapping[str, str]

    @property
    def path(self) -> Path:
        return home() / "objects" / f"{self.sha256}.parquet"

    @property
    def damaged(self) -> bool:
        """Whether the file is gone or has another content. Reads all of it."""
        return not self.path.is_file() or sum_of(self.path) != self.sha256


@dataclass(frozen=True)
class Kept:
    """A config of a data set that was fetched.

    Attributes:
        config: name of a part of the data set; empty where it has only one, or the user named none.
        revision: the commit of its repository, or `LOCAL`.
        fetched: date.
    """

    dataset: str
    config: str
    revision: str
    fetched: str
    licence: str
    cite: str
    splits: Mapping[str, Split]

    @property
    def name(self) -> str:
        return shown_name(self.dataset, self.config)

    @property
    def rows(self) -> int:
        return sum(split.rows for split in self.splits.values())

    @property
    def size(self) -> int:
        """Bytes of its files on this machine."""
        return sum(split.bytes for split in self.splits.values())

    def damaged(self) -> list[str]:
        """Splits whose file is gone or has changed."""
        return [name for name, split in self.splits.items() if split.damaged]


def shown_name(dataset: str, config: str) -> str:
    """``openai/gsm8k main``."""
    return f"{dataset} {config}".strip()


def home() -> Path:
    """The folder of all that was fetched. May not exist."""
    return data_home() / "data" / "hf"


def everything() -> list[Kept]:
    """All that the lock file has, by name.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = home() / "lock.json"
    try:
        raw = json.loads(path.read_bytes())
        return [_kept(dataset, config, entry) for dataset in sorted(raw) for config, entry in raw[dataset].items()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); delete it, and fetch the data sets again") from None


def kept(dataset: str, config: str) -> Kept | None:
    """What was fetched of a config of a data set; None if nothing was."""
    return next((one for one in everything() if (one.dataset, one.config) == (dataset, config)), None)


def record(new: Kept) -> Kept:
    """Put `new` into the lock file in place of what is there of that config. Splits of the same revision that `new`
    does not have stay; returns all of them."""
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        found = {(one.dataset, one.config): one for one in everything()}
        before = found.get((new.dataset, new.config))
        if before is not None and before.revision == new.revision != LOCAL:
            new = replace(new, splits={**before.splits, **new.splits})
        found[new.dataset, new.config] = new
        raw: dict[str, dict[str, Any]] = {}
        for one in sorted(found.values(), key=lambda one: (one.dataset, one.config)):
            entry = asdict(one)
            raw.setdefault(entry.pop("dataset"), {})[entry.pop("config")] = entry
        with replacing(folder / "lock.json") as part:
            part.write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    finally:
        os.close(descriptor)
    return new


def freeze(batches: Iterable[pa.RecordBatch], schema: pa.Schema, files: Mapping[str, str]) -> Split:
    """Write rows to a Parquet file that is named after its content. One row group is in memory at a time.

    Args:
        schema: of the rows; what it says beside names and types is left out.
        files: SHA-256 by name of each file that the rows come from.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = pa.schema([pa.field(field.name, field.type) for field in schema])
    objects = home() / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    rows = 0
    with tempfile.NamedTemporaryFile(dir=objects, prefix=".", suffix=".part") as part:
        with pq.ParquetWriter(part, plain, compression="zstd", store_schema=False) as writer:
            for group in _groups(batches, plain):
                writer.write_table(group, row_group_size=GROUP_ROWS)
                rows += group.num_rows
        part.flush()
        made = Path(part.name)
        split = Split(sum_of(made), rows, tuple(plain.names), made.stat().st_size, dict(files))
        with replacing(split.path) as path:
            os.link(made, path)
    return split


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in tables of `GROUP_ROWS`; the last one may have fewer."""
    import pyarrow as pa

    held: list[pa.Table] = []
    count = 0
    for batch in batches:
        held.append(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
        count += batch.num_rows
        while count >= GROUP_ROWS:
            joined = pa.concat_tables(held)
            yield joined.slice(0, GROUP_ROWS)
            held, count = [joined.slice(GROUP_ROWS)], count - GROUP_ROWS
    if count:
        yield pa.concat_tables(held)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path for a new content of `path`, beside it, which takes its place at the end."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.chmod(0o644)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _kept(dataset: str, config: str, entry: Mapping[str, Any]) -> Kept:
    splits = {name: Split(**{**split, "columns": tuple(split["columns"])}) for name, split in entry["splits"].items()}
    return Kept(dataset, config, **{**entry, "splits": splits})
