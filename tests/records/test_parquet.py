"""``results.parquet`` is ``results.csv`` with types."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.artifacts.samples import RESULTS
from trace_bench import __version__
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import write_csv
from trace_bench.display.text import csv_cell
from trace_bench.records.parquet import write_parquet
from trace_bench.records.tables import COLUMNS

FAILED = {
    "job_id": "fedcba987654",
    "status": "failed",
    "failure_kind": "bad_answer",
    "failure_boundary": "candidate",
    "feedback": "=cmd|' /C calc'!A0\nsecond line\t\u2028 ü 😀",
    "seed": 2**63 - 1,
    "score_initial": -1.5,
    "score_best": 0.1,
    "stub_inert": True,
    "resolved_trainer_kwargs": {"num_steps": 3, "nested": {"b": [1, None], "a": "é"}},
}


def row(**change: Any) -> Results:
    return Results.model_validate({**RESULTS, **change})


def required() -> dict[str, Any]:
    """Only what a row must have: every other column is at its default."""
    return {name: RESULTS[name] for name, field in Results.model_fields.items() if field.is_required()}


def written(path: Path, *rows: Results) -> pyarrow.Table:
    write_parquet(path, rows)
    return pyarrow.parquet.read_table(path)


def as_cell(column: str, value: Any) -> str:
    """What the CSV file shows for a value of the parquet file."""
    annotation = Results.model_fields[column].annotation
    return csv_cell(json.loads(value) if value is not None and "dict" in str(annotation) else value)


def test_it_says_the_same_as_the_csv_file(tmp_path: Path) -> None:
    rows = [row(), row(**FAILED), Results.model_validate(required())]
    table = written(tmp_path / "results.parquet", *rows)
    write_csv(tmp_path / "results.csv", COLUMNS, ([getattr(r, c) for c in COLUMNS] for r in rows))
    with (tmp_path / "results.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    assert tuple(table.column_names) == COLUMNS
    assert [{c: as_cell(c, value) for c, value in r.items()} for r in table.to_pylist()] == expected


def test_texts_are_exact_and_json_reads_back(tmp_path: Path) -> None:
    (read,) = written(tmp_path / "r.parquet", row(**FAILED)).to_pylist()
    assert read["feedback"] == FAILED["feedback"]
    assert json.loads(read["resolved_trainer_kwargs"]) == FAILED["resolved_trainer_kwargs"]
    assert (read["seed"], read["stub_inert"], read["score_best"]) == (2**63 - 1, True, 0.1)
    assert read["failure_boundary"] == "candidate"


TYPES = {
    "run_id": "string", "seed": "int64", "status": "string", "failure_kind": "string", "stop_reason": "string",
    "score_best": "double", "time_seconds": "double", "evaluations": "int64", "cost_usd": "double",
    "eval_kwargs": "string", "failure_boundary": "string", "stub_inert": "bool", "tb_logdir": "string",
}  # fmt: skip


@pytest.mark.parametrize("rows", [[], [required()], [RESULTS], [RESULTS, {**RESULTS, **FAILED}]], ids=len)
def test_types_do_not_depend_on_the_rows(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    table = written(tmp_path / "r.parquet", *(Results.model_validate(r) for r in rows))
    assert {name: str(table.schema.field(name).type) for name in TYPES} == TYPES
    assert {str(field.type) for field in table.schema} == {"string", "int64", "double", "bool"}
    assert table.num_rows == len(rows) and tuple(table.column_names) == COLUMNS


def test_a_column_without_a_value_is_null_and_typed(tmp_path: Path) -> None:
    table = written(tmp_path / "r.parquet", Results.model_validate(required()), Results.model_validate(required()))
    for name, kind in (("score_best", "double"), ("failure_kind", "string"), ("failure_boundary", "string")):
        assert table.column(name).null_count == 2 and str(table.schema.field(name).type) == kind
    assert table.column("eval_kwargs").to_pylist() == ["{}", "{}"]


def test_the_version_is_in_the_schema_and_texts_are_dictionaries(tmp_path: Path) -> None:
    rows = [row(seed=seed) for seed in range(5)]
    table = written(tmp_path / "r.parquet", *rows)
    assert table.schema.metadata == {b"trace_bench": __version__.encode()}
    group = pyarrow.parquet.ParquetFile(tmp_path / "r.parquet").metadata.row_group(0)
    encoded = {group.column(i).path_in_schema: group.column(i).encodings for i in range(group.num_columns)}
    assert "RLE_DICTIONARY" in encoded["task_id"] and "RLE_DICTIONARY" in encoded["eval_kwargs"]
    assert "RLE_DICTIONARY" not in encoded["seed"] and "RLE_DICTIONARY" not in encoded["score_best"]


def test_equal_rows_give_equal_bytes_whichever_process_writes_them(tmp_path: Path) -> None:
    rows = [row(), row(**FAILED)]
    write_parquet(tmp_path / "one.parquet", rows)
    (tmp_path / "rows.json").write_text(json.dumps([r.model_dump(mode="json") for r in rows]))
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom trace_bench.artifacts.records import Results\n"
        "from trace_bench.records.parquet import preload, write_parquet\npreload()\n"
        "rows = [Results.model_validate(r) for r in json.loads(Path(sys.argv[1]).read_text())]\n"
        "write_parquet(Path(sys.argv[2]), rows)\n"
    )
    arguments = [str(tmp_path / "rows.json"), str(tmp_path / "two.parquet")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.parquet", "rows.json", "two.parquet"]


def test_an_integer_beyond_64_bits_is_the_largest(tmp_path: Path) -> None:
    (read,) = written(tmp_path / "r.parquet", row(evaluations=10**30)).to_pylist()
    assert read["evaluations"] == 2**63 - 1


@pytest.mark.parametrize("module", ["trace_bench.cli.app", "trace_bench.records.parquet", "trace_bench.cli.run"])
def test_nothing_imports_pyarrow_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_it_beside_other_threads_leaves_the_environment_alone() -> None:
    """A thread that asks for a variable while another sets one may end the process."""
    code = (
        "import sys\n"
        "from trace_bench.records import parquet\n"
        "changed = []\n"
        "sys.addaudithook(lambda name, args: changed.append(args) if name in ('os.putenv', 'os.unsetenv') else None)\n"
        "parquet.preload()\n"
        "assert 'pyarrow.parquet' in sys.modules and changed == [], changed\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_writing_rows_imports_no_pandas(tmp_path: Path) -> None:
    """Its import takes longer than a small run."""
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps(RESULTS), encoding="utf-8")
    code = (
        "import json, pathlib, sys\n"
        "from trace_bench.artifacts.records import Results\n"
        "from trace_bench.records.parquet import write_parquet\n"
        "row = Results.model_validate(json.loads(pathlib.Path(sys.argv[1]).read_text()))\n"
        "write_parquet(pathlib.Path(sys.argv[2]), [row])\n"
        "sys.exit('pandas' in sys.modules)"
    )
    arguments = [str(rows), str(tmp_path / "one.parquet")]
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False).returncode == 0
