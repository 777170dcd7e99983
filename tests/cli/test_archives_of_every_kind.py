"""Whatever state a run is in, these commands do what they are for, or say in a sentence why not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis import kinds
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.diff import diff as diff_command
from trace_bench.cli.commands.export import export as export_command
from trace_bench.cli.commands.gc import gc
from trace_bench.cli.commands.import_ import import_
from trace_bench.cli.commands.rebuild import rebuild as rebuild_command
from trace_bench.cli.commands.rm import rm
from trace_bench.errors import TraceBenchError
from trace_bench.records.reading import read_rows
from trace_bench.records.rebuild import rebuild

NO_RUNS = ("empty", "no_run", "file")
WORK = ("archive", "table", "steps", "check", "diff", "gc")
"""What leaves a run as it is."""


def commands(run: RunLayout, out: Path) -> dict[str, Callable[[], object]]:
    runs, text = run.root.parent, str(run.root)

    def export(name: str, **options: object) -> None:
        plain = {"table": None, "where": None, "unfinished": True, "force": False, "as_json": False}
        export_command(text, out / name, runs_dir=runs, **{**plain, **options})  # type: ignore[arg-type]

    def diff() -> None:
        jobs = sorted(path.name for path in run.jobs.iterdir())[:2] if run.jobs.is_dir() else []
        diff_command([text, *(jobs or ["a", "b"])], runs_dir=runs, every=True, as_json=True)

    return {
        "archive": lambda: export("run.tar"),
        "table": lambda: export("scores.parquet"),
        "steps": lambda: export("steps.csv", table="steps"),
        "check": lambda: rebuild_command(text, jobs=True, check=True, every=True, runs_dir=runs, as_json=True),
        "diff": diff,
        "gc": lambda: gc("1s", keep=0, evidence=True, dry_run=True, runs_dir=runs, as_json=True),
    }


def refusal(command: Callable[[], object]) -> str:
    """What `command` says if it refuses: a sentence."""
    try:
        command()
    except TraceBenchError as error:
        said = str(error)
        assert len(said) > 20 and "\n" not in said
        return said
    return ""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in ("going_on", "killed", "mixed", "damaged_index") else pytest.mark.slow)
        for kind in (*kinds.KINDS, "version_1", *NO_RUNS)
    ],
)
def test_every_kind_of_run(kind: str, recorded: RunLayout, tmp_path: Path) -> None:
    run = kinds.make(kind, recorded, tmp_path / "runs")
    out = tmp_path / "out"
    out.mkdir()
    working = lock_run(run) if kind == "going_on" else contextlib.nullcontext()
    before = kinds.tree(tmp_path / "runs")
    with working:
        said = {name: refusal(command) for name, command in commands(run, out).items()}
    assert kinds.tree(tmp_path / "runs") == before
    refused = {name for name in WORK if said[name]}
    expected = {
        "going_on": {"archive", "check"},
        "planned": {"diff"},
        "without_manifest": {"diff"},
        "damaged_manifest": {"table", "steps", "check", "diff"},
        "damaged_row": {"table", "steps"},  # a check with --jobs derives it
        "damaged_record": {"check"},
        "damaged_index": {"archive"},
        "damaged_history": {"steps"},
        "newer": {"archive", "table", "steps", "check", "diff"},
        **dict.fromkeys(NO_RUNS, set(WORK) - {"gc"}),
    }.get(kind, set())
    assert refused == expected, {name: said[name] for name in refused ^ expected}


@pytest.mark.parametrize(
    "kind", ["mixed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("whole", "killed", "version_1"))]
)
def test_a_run_of_any_kind_travels_and_is_rebuilt(kind: str, recorded: RunLayout, tmp_path: Path) -> None:
    run = kinds.make(kind, recorded, tmp_path / "runs")
    commands(run, tmp_path)["archive"]()
    import_(tmp_path / "run.tar", tmp_path / "there", as_json=True)
    there = RunLayout(tmp_path / "there" / run.run_id)
    assert read_rows(there) == read_rows(run)
    rebuild(there)
    assert {file.found for file in rebuild(there, check=True)} == {"same"}
    with pytest.raises(TraceBenchError):
        rm([str(there.root)], runs_dir=there.root, as_json=True)
    rm([str(there.root)], yes=True, runs_dir=there.root, as_json=True)
    assert list((tmp_path / "there").iterdir()) == []
