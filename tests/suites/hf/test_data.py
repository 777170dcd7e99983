"""The rows that go into jobs: few, fixed, held out, and read from Parquet once."""

from __future__ import annotations

import datetime
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites.hf import data, frozen
from trace_bench.suites.hf.frozen import Kept
from trace_bench.suites.spec_tables import QaSpec

TWO = QaSpec(dataset_id="some/set", task_type="hfqa")
ONE = QaSpec(dataset_id="some/set", task_type="hfqa", train_split="all", test_split="all")


def keep(splits: dict[str, list[dict[str, Any]]], schema: pa.Schema | None = None) -> None:
    made = {}
    for name, rows in splits.items():
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        made[name] = frozen.freeze([batch], batch.schema, {f"{name}.parquet": "0" * 64})
    frozen.record(Kept("some/set", "", "0" * 40, "2026-01-01", "MIT", "", made))


def rows_of(qa: QaSpec) -> dict[str, list[dict[str, Any]]]:
    packed = {name.split("/")[1]: text for name, text in data.packed(qa) if name.endswith("/rows.jsonl")}
    return {pool: [json.loads(line) for line in text.splitlines()] for pool, text in packed.items()}


def questions(count: int, name: str = "q", size: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"{name}{n}", "answer": "a" * size} for n in range(count)]


def test_two_splits_are_the_pools_in_an_order_that_is_not_the_files(home: Path) -> None:
    assert not any("rows.jsonl" in name for name, _ in data.packed(TWO))
    keep({"train": questions(2500), "test": questions(10, "t")})
    found = rows_of(TWO)
    assert {row["question"][0] for row in found["test"]} == {"t"} and len(found["train"]) == 2500
    assert sorted(found["train"], key=lambda row: int(row["question"][1:])) == questions(2500) != found["train"]
    shuffled = questions(2500)
    random.Random(1).shuffle(shuffled)
    keep({"train": shuffled, "test": questions(10, "t")})
    assert rows_of(TWO) == found


def test_one_split_is_dealt_in_halves_that_share_no_row(home: Path) -> None:
    keep({"all": questions(165)})
    found = rows_of(ONE)
    assert [len(found[pool]) for pool in ("train", "test")] == [82, 83]
    train, test = ({row["question"] for row in found[pool]} for pool in ("train", "test"))
    assert not train & test and len(train | test) == 165


def test_a_pool_has_a_limit_and_is_a_sample(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_BYTES", 20_000)
    keep(
        {
            "train": questions(400, size=1000),
            "test": questions(3),
            "all": [*questions(400, size=1000), *questions(1, "huge", 50_000)],
        }
    )
    packed = dict(data.packed(TWO))
    train = rows_of(TWO)["train"]
    assert 18_000 < len(packed["data/train/rows.jsonl"]) <= 20_000 and len(train) == 19
    assert max(int(row["question"][1:]) for row in train) > 200, "not the first rows of the file"
    dealt = rows_of(ONE)
    assert [len(dealt[pool]) for pool in ("train", "test")] == [19, 19], "twice the limit, dealt"
    assert {row["question"] for row in train} <= {row["question"] for row in dealt["train"] + dealt["test"]}


def test_chosen_lines_are_the_first_by_hash() -> None:
    lines = [f"{n}{'x' * (n % 40)}\n".encode() for n in range(500)]
    for limit in (1, 10, 100, 1000, 5000, 100_000):
        found = data.first_by_hash(lines, limit)
        assert found == data.first_by_hash(lines[::-1] + lines, limit)
        fitting = [line for line in lines if len(line) <= limit]
        assert found == data.first_by_hash(fitting, 1 << 30)[: len(found)]
        assert sum(map(len, found)) <= limit
        if len(found) < len(fitting):
            following = data.first_by_hash(fitting, 1 << 30)[len(found)]
            assert sum(map(len, found)) + len(following) > limit


def test_values_that_json_lacks_are_text_and_unread_columns_are_left_out(home: Path) -> None:
    row = {"b": b"\xc3\xa9", "raw": b"\xff\x00", "day": datetime.date(2024, 2, 29), "no": float("nan"),
           "at": datetime.datetime(2024, 2, 29, 1, 2, 3), "question_decomposition": [{"id": 1}]}  # fmt: skip
    keep({"train": [row], "test": [row]})
    expected = {"b": "é", "raw": "/wA=", "day": "2024-02-29", "at": "2024-02-29 01:02:03", "no": None}
    assert rows_of(TWO.model_copy(update={"task_type": "musique"}))["train"] == [expected]
    assert rows_of(TWO)["train"][0].keys() == row.keys()


def test_packed_rows_are_kept_and_made_again_where_they_are_damaged(home: Path) -> None:
    keep({"train": questions(5), "test": questions(5)})
    found = rows_of(TWO)
    objects = list((home / "data" / "hf" / "objects").iterdir())
    for path in objects:
        path.rename(path.with_suffix(".away"))
    assert rows_of(TWO) == found, "no Parquet is read again"
    for path in (home / "data" / "hf" / "packed").iterdir():
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ConfigError, match=r"some/set, split train: .* is gone or has changed"):
        rows_of(TWO)
    for path in objects:
        path.with_suffix(".away").rename(path)
    assert rows_of(TWO) == found


def test_a_data_set_without_a_split_that_is_read_counts_as_not_fetched(home: Path) -> None:
    keep({"train": questions(5)})
    assert data.fetched(TWO) is None and rows_of(TWO) == {}
    keep({"test": questions(5)})
    there = data.fetched(TWO)
    assert there is not None and list(there.splits) == ["train", "test"], "splits of one revision are joined"


def test_a_lock_that_cannot_be_read_is_one_sentence(home: Path) -> None:
    keep({"train": questions(5), "test": questions(5)})
    (home / "data" / "hf" / "lock.json").write_text('{"some/set": {"": {}}}')
    with pytest.raises(ConfigError, match=r"lock\.json: cannot be read"):
        data.packed(TWO)
