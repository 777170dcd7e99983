"""A power cut at any instant: what was not flushed is gone. No job that was told to have finished is lost, nor any paid
answer, and nothing is read that was never written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, read, table
from tests.execution.disk import Disk, Image, restore
from tests.execution.listening import Listener
from tests.execution.supervisor import Script
from tests.execution.test_damage import is_whole, secret
from tests.integration.files import check_files
from trace_bench.artifacts import provenance
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import package_versions
from trace_bench.artifacts.writers import Journal, make_folders, read_journal, write_json
from trace_bench.execution.session import Session
from trace_bench.gateway.stub import StubProvider
from trace_bench.planning import planner
from trace_bench.planning.resume import is_recorded

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"]}
CALLS = 2


@dataclass(frozen=True)
class Cut:
    """A power cut: what is left, and what the world had been promised by then.

    Attributes:
        step: what would have come next.
        paid: answers that a sandbox had been given.
        finished: the job was told to have finished.
        ended: the run was told to have ended.
    """

    step: str
    image: Image
    paid: int
    finished: bool
    ended: bool


class Promises(Listener):
    """What was told to somebody."""

    def __init__(self) -> None:
        self.paid = 0
        self.is_finished = self.has_ended = False

    def job_finished(self, job: Any, row: Any) -> None:
        self.is_finished = True

    def run_ended(self, run: Any) -> None:
        self.has_ended = True


def watched(bench: Bench, patch: pytest.MonkeyPatch, **config: Any) -> list[Cut]:
    """Run `config`; the cuts that could have come on the way."""
    promises, cuts = Promises(), list[Cut]()
    real = Session._answer

    def answer(session: Session, request: Any, response: Any) -> None:
        promises.paid += response.status == 200
        real(session, request, response)

    patch.setattr(Session, "_answer", answer)
    patch.setattr(StubProvider, "paid", True)
    bench.backend.script = lambda job_id, number: Script(calls=CALLS)
    (bench.folder / "runs").mkdir(exist_ok=True)
    disk = Disk(bench.folder / "runs", patch)
    seen: list[Image] = []

    def look() -> None:
        for kind in ("least", "names"):
            image = disk.image(kind)
            step = f"{len(disk.steps)} ({kind}), after {disk.steps[-1] if disk.steps else 'nothing'}"
            cut = Cut(step, image, promises.paid, promises.is_finished, promises.has_ended)
            if image in seen:
                cuts[seen.index(image)] = cut  # with the same left, and more promised
            else:
                seen.append(image)
                cuts.append(cut)

    disk.before_step = look
    bench.run(promises, **config)
    look()
    disk.close()
    patch.undo()
    return cuts


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = package_versions()  # slow to find, and always the same
    for module in (planner, provenance):
        monkeypatch.setattr(module, "package_versions", lambda: versions)


def survives(cut: Cut, bench: Bench, salts: set[str], run_id: str | None = None) -> None:
    """The same command, on a machine whose power has come back: its engine has nothing of ours any more."""
    restore(cut.image, bench.folder / "runs")
    bench.backend.script = lambda job_id, number: Script(calls=CALLS)
    left = [RunLayout(root) for root in bench.runs()]
    (job,) = [job for run in left for job in run.job_dirs()] or [None]
    there = len(read_journal(job.cassette).lines) if job is not None else 0
    assert there >= cut.paid, f"{cut.step}: an answer that was paid for is lost"
    over = bool(left) and is_recorded(left[0])
    assert over or not cut.ended, f"{cut.step}: the run had ended"
    if over:
        assert is_whole(left[0]), f"{cut.step}: it is called finished and is not whole"
    result = bench.run(**ONE, run_id=left[0].run_id if cut.ended else run_id)
    layout, (row,) = result.layout, result.rows
    if cut.paid or cut.finished:
        assert layout.run_id == left[0].run_id, f"{cut.step}: it is continued"
        salts.add(secret(layout))
    if cut.finished:
        assert bench.backend.created == [], f"{cut.step}: a job that had finished runs again"
    assert result.ok, cut.step
    if not over:
        assert check_files(layout.root) and is_whole(layout), cut.step
    assert [line["status"] for line in table(layout)] == ["ok"], cut.step
    for path in (row.initial_state_path, row.best_state_path, row.state_history_path):
        assert path and (layout.root / path).stat().st_size, f"{cut.step}: {path}"
    job = layout.job(row.job_id)
    assert read(job.meta)["status"] == "ok" and len(read_journal(job.state_history).lines) == CALLS, cut.step
    calls = [json.loads(line) for line in job.cassette.read_text().splitlines()]
    assert [call["reused_from"] for call in calls].count(None) == CALLS, f"{cut.step}: an answer is paid twice"


def nothing(bench: Bench) -> dict[str, Any]:
    return {}


def failed(bench: Bench) -> dict[str, Any]:
    """A run whose job failed for the sandbox's sake is continued: the job makes room for another attempt."""
    bench.backend.script = lambda job_id, number: Script(calls=CALLS, failure="sandbox")
    assert not bench.run(**ONE).ok
    return {}


def whole(bench: Bench) -> dict[str, Any]:
    """A run that is finished is made again, and pays again."""
    bench.backend.script = lambda job_id, number: Script(calls=CALLS)
    return {"run_id": bench.run(**ONE).run_id, "resume": "none"}


@pytest.mark.parametrize("before", [nothing, failed, whole])
def test_after_a_power_cut_at_any_instant_nothing_that_was_promised_is_lost(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Bench], dict[str, Any]],
) -> None:
    config = before(bench)
    with monkeypatch.context() as patch:
        cuts = watched(bench, patch, **ONE, **config)
    assert len(cuts) > 50 and any(cut.ended for cut in cuts) and any(cut.finished and not cut.ended for cut in cuts)
    salts: set[str] = set()
    for number, cut in enumerate(cuts):
        survives(cut, Bench(tmp_path / str(number)), salts, config.get("run_id"))
    assert len(salts) == 1, "held-out data are drawn with the same salt"


def test_a_result_is_flushed_then_named_and_then_its_name_is_flushed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.folder / "runs").mkdir()
    with monkeypatch.context() as patch:
        disk = Disk(bench.folder / "runs", patch)
        result = bench.run(**ONE)
        disk.close()
    folder = result.layout.job(result.rows[0].job_id).root
    job = str(folder.relative_to(bench.folder / "runs"))
    steps = [(name, path.removeprefix(job).lstrip("/")) for name, path in disk.steps if path.startswith(job)]
    (named,) = [at for at, step in enumerate(steps) if step == ("replace", "results.json")]
    name, temporary = steps[named - 1]
    assert name == "fsync" and temporary.startswith(".results.json.") and temporary.endswith(".tmp")
    assert steps[named + 1] == ("fsync", "")
    flushed = {path for name, path in steps[:named] if name == "fsync"}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert there - flushed == {"results.json"}, "all that belongs to it is on the disk before it is"


@pytest.mark.parametrize("before", [nothing, failed, whole])
def test_every_file_of_an_index_is_flushed_before_the_index_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, before: Callable[[Bench], dict[str, Any]]
) -> None:
    config = before(bench)
    bench.backend.script = lambda job_id, number: Script(calls=CALLS)
    (bench.folder / "runs").mkdir(exist_ok=True)
    with monkeypatch.context() as patch:
        disk = Disk(bench.folder / "runs", patch)
        last: list[Image] = []
        disk.before_step = lambda: last.append(disk.image("least"))
        result = bench.run(**ONE, **config)
        disk.close()
    index = f"{result.run_id}/{result.layout.relative(result.layout.files_index)}"
    (named,) = [at for at, (name, path) in enumerate(disk.steps) if name == "replace" and path == index]
    listed = {entry["path"]: entry["sha256"] for entry in read(result.layout.files_index)["files"]}
    flushed = {path: file.content for path, file in last[named].items() if file is not None}
    on_disk = {path: hashlib.sha256(flushed.get(f"{result.run_id}/{path}", b"")).hexdigest() for path in listed}
    assert len(listed) > 15 and on_disk == listed


def test_folders_that_are_made_are_flushed_into_those_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        disk = Disk(tmp_path, patch)
        write_json(tmp_path / "a" / "b" / "c.json", {})
        with Journal(tmp_path / "d" / "e.jsonl", durable=True) as journal:
            journal.append({"x": 1})
            least = disk.image("least")
        make_folders(tmp_path / "f", durable=False)
        assert "f" not in disk.image("least")
        disk.close()
    assert {path: file and file.content for path, file in least.items()} == {
        "a": None, "a/b": None, "a/b/c.json": b"{}\n", "d": None, "d/e.jsonl": b'{"x":1}\n',
    }  # fmt: skip


def test_a_result_that_makes_room_is_gone_for_good_before_its_files_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could leave a result that counts, without what belongs to it."""
    config = whole(bench)
    with monkeypatch.context() as patch:
        disk = Disk(bench.folder / "runs", patch)
        result = bench.run(**ONE, **config)
        disk.close()
    job = f"{result.run_id}/jobs/{result.rows[0].job_id}"
    moved = disk.steps.index(("replace", f"{job}/attempts/1/results.json"))
    assert disk.steps[moved + 1 : moved + 3] == [("fsync", f"{job}/attempts/1"), ("fsync", job)]
    assert disk.steps[moved + 3][0] == "replace"
