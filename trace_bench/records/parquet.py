"""``results.parquet``: the rows of ``results.csv`` with real types, for programs.

pyarrow takes a few tenths of a second to import, so that no module may import it at its top; `preload` does it early,
beside other work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from trace_bench import __version__
from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import write_bytes
from trace_bench.records.rows import metric_columns
from trace_bench.secrets import known

# NumPy, which pyarrow imports, sets this for the time of its import, and takes it away again. Another thread that asks
# for any variable in that instant ends the process: glibc's getenv reads what setenv moves. Set here, before there are
# threads, it is left alone. (It keeps OpenBLAS from binding this process to one processor.)
os.environ.setdefault("OPENBLAS_MAIN_FREE", "1")

_TYPES = {str: "string", int: "int64", float: "float64", bool: "bool", dict: "string"}
"""Arrow's type of each type of a field; a mapping is JSON text."""
_LARGEST = 2**63 - 1


def preload() -> None:
    """Import pyarrow: for a thread of its own while something else is waited for."""
    import_module("pyarrow.json")
    import_module("pyarrow.parquet")


def write_parquet(path: Path, rows: Sequence[Results]) -> None:
    """Replace `path` by `parquet_bytes` of `rows`. It is not flushed: it can be derived again."""
    write_bytes(path, parquet_bytes(rows), durable=False)


def parquet_bytes(rows: Sequence[Results]) -> bytes:
    """Return a table of `rows`.

    Columns and their order are those of ``results.csv``; texts are exact, without its escapes, and None is null. The
    types come from the fields of `Results` and never from the rows: an empty table, or a column without a value, has
    the types of any other. An integer beyond 64 bits, which only a worker that lies can hand back, is the largest of
    them. Equal rows give equal bytes under one version of pyarrow.
    """
    import pyarrow
    import pyarrow.json
    import pyarrow.parquet

    kinds = {name: _kind(field.annotation) for name, field in Results.model_fields.items()}
    metrics = metric_columns(rows)
    fields = [pyarrow.field(name, pyarrow.type_for_alias(_TYPES[kind])) for name, kind in kinds.items()]
    fields += [pyarrow.field(name, pyarrow.float64()) for name in metrics]
    schema = pyarrow.schema(fields, metadata={"trace_bench": __version__})
    records = (
        {name: arrow_value(getattr(row, name)) for name in kinds}
        | {name: value(row) for name, value in metrics.items()}
        for row in rows
    )
    # Neither `pyarrow.array` nor, for rows, `Schema.empty_table`: both import pandas.
    table = _read(pyarrow, schema, records) if rows else schema.empty_table()
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        table,
        sink,
        # Only of texts, which repeat; numbers hardly do.
        use_dictionary=[name for name, kind in kinds.items() if kind in (str, dict)],
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read(pyarrow: Any, schema: Any, records: Iterable[Mapping[str, Any]]) -> Any:
    """The table of `records`, at least one, which pyarrow reads as JSON lines."""
    lines = "\n".join(map(json.dumps, records)).encode()
    table = pyarrow.json.read_json(
        pyarrow.BufferReader(lines),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        read_options=pyarrow.json.ReadOptions(block_size=len(lines) + 1),
    )
    return table.combine_chunks().replace_schema_metadata(schema.metadata)


def _kind(annotation: Any) -> type:
    """The type that a field's values have beside None: a key of `_TYPES`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, UnionType):
        (one,) = {_kind(argument) for argument in arguments if argument is not NoneType}
        return one
    if origin is Literal:
        (one,) = {type(argument) for argument in arguments}
        return one
    plain = origin or annotation
    return next(kind for kind in (bool, *_TYPES) if issubclass(plain, kind))


def arrow_value(value: Any) -> Any:
    """Return `value` as Arrow takes it: mappings and lists as JSON, and integers of at most 64 bits."""
    if isinstance(value, dict | list | tuple):
        return known.text(jsonio.dumps(value))
    if isinstance(value, str):
        return known.text(str(value))  # in the file it is compressed, and no longer to be found
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_LARGEST - 1, min(value, _LARGEST))
    return value
