"""Reads the rows of Parquet, JSON and CSV files in batches of one schema. On the host."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trace_bench.errors import ConfigError
from trace_bench.suites.hf.split_files import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 500


class RowFiles:
    """The rows of some files of one kind, one after the other.

    Args:
        files: name, for messages, and path of each.
    """

    def __init__(self, files: Sequence[tuple[str, Path]]) -> None:
        self._files = files

    def schema(self) -> pa.Schema:
        """Names and types of the columns that all files together have.

        Raises:
            ConfigError: a file cannot be read, or files differ in the type of a column.
        """
        import pyarrow as pa

        known: pa.Schema | None = None
        for name, path in self._files:
            with _understood(name):
                for schema in _schemas(name, path):
                    if schema != known:
                        schemas = [schema] if known is None else [known, schema]
                        known = pa.unify_schemas(schemas, promote_options="permissive")
        if known is None or not known.names:
            raise ConfigError(f"{self._files[0][0]}: has no rows")
        fields = [field if field.type != pa.null() else pa.field(field.name, pa.string()) for field in known]
        return pa.schema([pa.field(field.name, field.type) for field in fields])

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of `schema`; what a file does not have is null."""
        for name, path in self._files:
            with _understood(name):
                yield from _batches(name, path, schema)


class _understood:
    """An error of a reader becomes a sentence that names the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowException | ValueError | EOFError) and not isinstance(error, ConfigError):
            said = " ".join(str(error).split())[:200]
            raise ConfigError(f"{self._name}: cannot be read as rows: {said}") from None


def _schemas(name: str, path: Path) -> Iterator[pa.Schema]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind_of(name) == ".parquet":
        yield pq.read_schema(path).remove_metadata()
    elif kind_of(name) == ".csv":
        yield _csv(path).schema
    else:
        for rows in _json_rows(name, path):
            yield pa.RecordBatch.from_pylist(rows).schema


def _batches(name: str, path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind_of(name) == ".parquet":
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                yield _with_columns(batch, schema)
    elif kind_of(name) == ".csv":
        for batch in _csv(path).to_batches(max_chunksize=BATCH_ROWS):
            yield _with_columns(batch, schema)
    else:
        for rows in _json_rows(name, path):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    if batch.schema.names == schema.names:
        return batch
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _csv(path: Path) -> pa.Table:
    import pyarrow.csv as csv

    with _opened(path) as file:
        return csv.read_csv(file, parse_options=csv.ParseOptions(newlines_in_values=True))


def _json_rows(name: str, path: Path) -> Iterator[list[dict[str, Any]]]:
    """Rows of JSON lines, or of a file that is a list of them."""
    rows = _json_array(path) if kind_of(name) == ".json" else None
    if rows is None:
        with _opened(path) as file:
            yield from _checked(name, (json.loads(line) for line in file if line.strip()))
    else:
        yield from _checked(name, rows)


def _json_array(path: Path) -> list[Any] | None:
    """The rows of a file that is one value: a list, or an object whose ``data`` is one. None of JSON lines."""
    with _opened(path) as file:
        first = next((line.strip() for line in file if line.strip()), b"")
    try:
        found = json.loads(first)
    except ValueError:
        with _opened(path) as file:
            found = json.load(file)
    rows = found.get("data") if isinstance(found, dict) else found
    return rows if isinstance(rows, list) else None


def _checked(name: str, rows: Iterable[Any]) -> Iterator[list[dict[str, Any]]]:
    number, source = 0, iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        for row in batch:
            number += 1
            if not isinstance(row, dict):
                raise ConfigError(f"{name}, row {number}: is not a JSON object")
        yield batch


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]
