"""Parquet files with a few rows."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def gsm8k(*numbers: int) -> bytes:
    return parquet([{"question": f"What is {n} and {n}?", "answer": f"Double it. #### {2 * n}"} for n in numbers])
