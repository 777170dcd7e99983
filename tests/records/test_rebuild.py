"""Tables follow from job files: whatever was done to them, rebuild makes them what they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.folders import make_run, row
from tests.recorded import RUN_ID
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.versions import SCHEMA_VERSION
from trace_bench.artifacts.writers import write_bytes
from trace_bench.errors import HarnessError
from trace_bench.records.reading import read_rows
from trace_bench.records.rebuild import Rebuilt, is_of_other_code, rebuild


def differing(found: list[Rebuilt]) -> dict[str, str]:
    return {file.path: file.found for file in found if file.found != "same"}


def content(run: RunLayout) -> dict[str, bytes]:
    return {path.relative_to(run.root).as_posix(): path.read_bytes() for path in run.root.rglob("*") if path.is_file()}


def a_front(run: RunLayout) -> Path:
    return next(path for path in sorted(run.jobs.glob("*/artifacts/pareto.json")))


def test_a_run_is_written_in_todays_version(recorded: RunLayout) -> None:
    for path in (recorded.manifest, recorded.lock):
        assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION


def test_of_a_run_as_the_controller_left_it_everything_is_the_same(recorded: RunLayout) -> None:
    found = rebuild(recorded, jobs=True, check=True)
    assert differing(found) == {}
    named = {file.path for file in found}
    assert named >= {"results.csv", "results.parquet", "summary.json", "leaderboard.csv", "meta/files_index.json"}
    assert sum(path.endswith("/results.json") for path in named) == 18
    assert sum(path.endswith("/pareto.json") for path in named) == len(
        list(recorded.jobs.glob("*/artifacts/pareto.json"))
    )


CHANGES: dict[str, tuple[Callable[[RunLayout], Path], str]] = {
    "results.csv": (lambda run: run.results_csv, "differs"),
    "results.parquet": (lambda run: run.results_parquet, "differs"),
    "summary.json": (lambda run: run.summary, "differs"),
    "leaderboard.csv": (lambda run: run.leaderboard, "differs"),
    "pareto.json": (a_front, "differs"),
    "files_index.json": (lambda run: run.files_index, "differs"),
    "gone": (lambda run: run.results_csv, "missing"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_table_that_was_changed_is_named_and_comes_out_as_it_was(copied: RunLayout, what: str) -> None:
    place, word = CHANGES[what]
    before, path = content(copied), place(copied)
    if word == "missing":
        path.unlink()
    else:
        data = path.read_bytes()
        write_bytes(path, data.replace(b"1", b"2") if b"1" in data else data.replace(b"r", b"s", 1))
    name = path.relative_to(copied.root).as_posix()
    checked = differing(rebuild(copied, check=True))
    assert checked[name] == word and checked.keys() <= {name, "meta/files_index.json"}
    assert content(copied) != before
    assert differing(rebuild(copied))[name] == word
    after = content(copied)
    assert {path for path in before if before[path] != after[path]} <= {"summary.json", "meta/files_index.json"}
    assert differing(rebuild(copied, check=True)) == {}


def test_tables_of_another_version_are_this_ones_when_any_was_rebuilt(copied: RunLayout) -> None:
    summary = json.loads(copied.summary.read_text())
    write_bytes(copied.summary, json.dumps({**summary, "package_hash": "0" * 64}).encode())
    assert is_of_other_code(copied)
    assert differing(rebuild(copied, check=True)).keys() == {"meta/files_index.json"}
    with copied.leaderboard_md.open("a") as page:
        page.write("more")
    assert differing(rebuild(copied)).keys() == {"leaderboard.md", "meta/files_index.json"}
    assert not is_of_other_code(copied)


def test_a_check_writes_nothing(copied: RunLayout) -> None:
    copied.results_csv.unlink()
    (copied.meta / ".x.tmp").write_text("half")
    before = content(copied)
    rebuild(copied, jobs=True, check=True)
    assert content(copied) == before


def test_rows_are_derived_from_what_the_sandboxes_left(copied: RunLayout) -> None:
    rows = read_rows(copied)
    gone, forged = rows[14], rows[16]
    copied.job(gone.job_id).results.unlink()
    path = copied.job(forged.job_id).results
    path.write_text(path.read_text().replace('"score_best": ', '"score_best": 9'))
    assert [one.score_best for one in read_rows(copied)] != [one.score_best for one in rows]
    found = differing(rebuild(copied, jobs=True))
    assert found[f"jobs/{gone.job_id}/results.json"] == "missing"
    assert found[f"jobs/{forged.job_id}/results.json"] == "differs"
    again = {one.job_id: one for one in read_rows(copied)}
    for one in rows:
        seconds = again[one.job_id].time_seconds if one is gone else one.time_seconds
        assert again[one.job_id] == one.model_copy(update={"time_seconds": seconds})


def test_a_front_that_follows_from_nothing_goes(copied: RunLayout) -> None:
    job = next(job for job in copied.job_dirs() if not job.pareto.exists())
    job.pareto.write_bytes(a_front(copied).read_bytes())
    name = job.pareto.relative_to(copied.root).as_posix()
    assert differing(rebuild(copied))[name] == "left over"
    assert not job.pareto.exists()


def test_a_run_that_was_killed_gets_the_tables_it_never_had(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", rows=[row(0)], planned=3, ended=False)
    assert differing(rebuild(run)) == {"results.parquet": "missing", "meta/files_index.json": "missing"}
    assert json.loads(run.summary.read_text())["counts"]["pending"] == 2
    (run.job(row(0).job_id).results).write_text("{")
    with pytest.raises(HarnessError, match=r"results\.json: "):
        rebuild(run)


def test_a_run_in_a_renamed_folder_is_itself_and_a_hostile_name_leads_nowhere(copied: RunLayout) -> None:
    moved = RunLayout(copied.root.rename(copied.root.with_name("renamed")))
    assert differing(rebuild(moved, check=True)) == {}
    moved.manifest.write_text(moved.manifest.read_text().replace(RUN_ID, "../../../escaped", 1))
    assert "summary.json" in differing(rebuild(moved, check=True))
    assert not Path("/escaped").exists() and not Path("/tmp/escaped").exists()
