"""Runs that were recorded at commit ac8e3bef: later code shows, audits, compares, rebuilds and replays them alike.

``tests/data/earlier-runs`` holds the archives (`trace-bench export`), the configs they were made from, and what the
code of that commit printed about them. The jobs ran in containers. ``search`` has three tasks, three trainers and two
seeds. In ``failures`` half of the jobs fail, by time-outs and by a task without a trainable parameter. ``replay``
repeats ``search``. ``compare.json`` was made again when `compare` got another test of single tasks, and
``search.results.json`` when intervals were cut at the declared bounds of scores.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.analysis.standings import page as standings_page
from trace_bench.analysis.standings import standings_of
from trace_bench.artifacts.layout import RunLayout
from trace_bench.records.reading import read_rows

EARLIER = REPOSITORY / "tests" / "data" / "earlier-runs"
PREFIX = "20261125-120000-"
NAMES = ("search", "failures", "replay")
COMPARED = (PREFIX + "search", PREFIX + "failures")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the three runs, imported from their archives."""
    folder = tmp_path_factory.mktemp("earlier")
    for name in NAMES:
        done = cli("import", str(EARLIER / f"{name}.tar.gz"), "--runs-dir", "runs", cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder / "runs"


def expected(name: str) -> Any:
    return json.loads((EARLIER / "expected" / f"{name}.json").read_text(encoding="utf-8"))


KNAPSACK = "llm4ad:optimization/knapsack_construct"
OTHER_TASKS = {
    "search": ("identity.tasks",),
    "replay": ("identity.tasks",),
    "failures": ("identity.tasks", "conduct.limits", "identity.fingerprints", "identity.matrix"),
}
"""Claims that cannot be checked since the runs' tasks have changed: in ``failures`` a task of default arguments has
other defaults."""
NEW: dict[str, Any] = {
    "evaluations_saved": None,
    "search_answers": None,
    "unusable_answers": None,
    "scoring_calls": None,
    "memo": False,
    "reader": 1,
    "fixture": False,
    "best_known": None,
}
"""Fields that these runs do not have, with what stands for them."""
ADDED = "answers"
"""A part of ``results --json`` that is derived from the events of these runs, and was not there then."""


def printed(runs: Path, *arguments: str) -> Any:
    """What a command prints about these runs, without the fields that they do not have."""
    done = cli(*arguments, "--runs-dir", ".", "--json", cwd=runs)
    assert done.returncode == 0, done.stderr

    def known(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in pairs if name != ADDED and (name not in NEW or value != NEW[name])}

    return json.loads(done.stdout, object_pairs_hook=known)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["show", "results"])
def test_an_earlier_run_is_shown_as_before(runs: Path, name: str, command: str) -> None:
    assert printed(runs, command, PREFIX + name) == expected(f"{name}.{command}")


def test_a_job_of_an_earlier_run_is_shown_as_before(runs: Path) -> None:
    job = min(path.name for path in RunLayout(runs / (PREFIX + "search")).jobs.iterdir())
    assert printed(runs, "show", PREFIX + "search", job) == expected("job")


def test_earlier_runs_are_compared_as_before(runs: Path) -> None:
    found = printed(runs, "compare", *COMPARED)
    (spending,) = found.pop("spending")  # what is said of budgets is newer than they are
    assert spending.endswith("set --budget to compare on equal terms.")
    found["notes"].remove(f"BUDGETS: {spending.rstrip('.')}")
    assert found == expected("compare")


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_run_is_audited_as_before(runs: Path, name: str) -> None:
    claims = printed(runs, "audit", PREFIX + name)["claims"]
    verdicts = {claim["claim"]: claim["verdict"] for claim in claims}
    of_this_code = dict.fromkeys(("identity.code", "identity.images"), "unverifiable")  # which did not make the run
    of_these_tasks = dict.fromkeys(OTHER_TASKS[name], "unverifiable")
    assert verdicts == {**expected("audit")[name], **of_this_code, **of_these_tasks}


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_an_earlier_run_are_rebuilt_to_the_byte(runs: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / (PREFIX + name)
    shutil.copytree(runs / copy.name, copy)
    tables = ("results.csv", "leaderboard.csv")
    before = {table: (copy / table).read_bytes() for table in (*tables, "leaderboard.md")}
    for table in before:
        (copy / table).unlink()
    done = cli("rebuild", copy.name, "--runs-dir", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {table: (copy / table).read_bytes() for table in tables} == {table: before[table] for table in tables}
    whole = standings_of(read_rows(RunLayout(copy)))
    assert standings_page(copy.name, whole).encode() == before["leaderboard.md"], "intervals were not cut then"
    is_cut = any(standing.test.interval and standing.test.interval[1] > 1 for standing in whole.standings)
    assert ((copy / "leaderboard.md").read_bytes() != before["leaderboard.md"]) == is_cut == (name != "failures")


@pytest.mark.docker
def test_an_earlier_run_is_replayed_with_equal_scores_where_its_tasks_are_the_same(
    runs: Path, images: Path, tmp_path: Path
) -> None:
    done = cli("run", "--replay", str(runs / (PREFIX + "search")), "--quiet", home=images, cwd=tmp_path, timeout=600)
    assert done.returncode == 1 and f"the task {KNAPSACK} has changed since" in done.stderr
    (replay,) = (tmp_path / "runs").iterdir()
    rows = read_rows(RunLayout(replay))
    assert len(rows) == 18 and {row.task_id for row in rows if row.status != "ok"} == {KNAPSACK}
    searches = [row for row in rows if row.task_id == KNAPSACK and row.llm_calls + (row.status != "ok")]
    assert [row.failure_kind for row in searches] == ["not_recorded"] * 4, "their prompts name a metric that is new"
    assert f"replay of {PREFIX}search: {18 - len(searches)} of 18 jobs came out equal" in done.stdout + done.stderr


def test_a_run_is_replayed_with_the_reader_of_answers_that_it_was_recorded_with(tmp_path: Path) -> None:
    """The model of ``thinking`` (recorded at commit 8869392e on the backend local) wrote a draft in <think>, a line end
    before it, and then its answer. The reader of that commit took the draft: its scores are 0, and the answer's are 1.
    """
    done = cli("import", str(EARLIER / "thinking.tar.gz"), "--runs-dir", "earlier", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (earlier,) = (tmp_path / "earlier").iterdir()
    done = cli("run", "--replay", str(earlier), "--backend", "local", "--quiet", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 jobs came out equal (to the bit)" in done.stdout + done.stderr
    (replay,) = (tmp_path / "runs").iterdir()
    rows = read_rows(RunLayout(replay))
    assert [row.score_best for row in rows] == [0.0, 0.0]
    assert {json.loads(path.read_text())["reader"] for path in replay.glob("jobs/*/job_meta.json")} == {1}
