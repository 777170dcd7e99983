"""Lines that were cut off, by a kill or a power cut: readers leave them out, and whoever writes on cuts them off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, read
from tests.execution.readers import commands, told
from tests.execution.supervisor import Script
from tests.integration.files import check_files
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import Journal, read_journal, repair_journal
from trace_bench.errors import HarnessError
from trace_bench.execution import job_runner
from trace_bench.execution.result import RunResult
from trace_bench.gateway.recorded import read_calls
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "retries": 1}
FILES = ("events.jsonl", "job/events.jsonl", "job/llm.jsonl", "job/artifacts/state_history.jsonl")
LINE = json.dumps({"t": 0.5, "event": "ä€𝄞", "nested": {"a": [1, None, '\\"']}}, ensure_ascii=False).encode() + b"\n"
ENDS = {
    **{f"cut at byte {cut}": LINE[:cut] for cut in range(1, len(LINE) - 1)},
    "zeros": bytes(100),
    "zeros and a newline": bytes(100) + b"\n",
    "half a line, and zeros": LINE[:20] + bytes(4096),
    "a line that begins with zeros": bytes(10) + LINE,
    "lines with holes": LINE[:9] + bytes(5) + LINE[14:] + bytes(50) + b"\n" + LINE[:3],
}
"""What may stand after the last whole line."""
MIDDLES = {
    "half a line": LINE[:20] + b"\n",
    "an empty line": b"\n",
    "zeros": bytes(50) + b"\n",
    "no object": b"[]\n",
}
"""What nobody who is cut off leaves before another line."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunResult]:
    """A run that is over, with an attempt that had failed before."""
    folder = tmp_path_factory.mktemp("torn")
    with pytest.MonkeyPatch.context() as patch:
        (folder / "locks").mkdir()
        patch.setenv(LOCK_DIR_VARIABLE, str(folder / "locks"))
        patch.setattr(job_runner, "FIRST_PAUSE", 0.01)
        bench = Bench(folder)
        bench.backend.script = lambda job_id, number: Script(calls=3, ends="dies" if number == 1 else "done")
        result = bench.run(**ONE)
        assert result.ok
        yield result


def copy(done: RunResult, folder: Path) -> RunLayout:
    shutil.copytree(done.layout.root.parent, folder / "runs")
    return RunLayout(folder / "runs" / done.run_id)


def place(run: RunLayout, name: str, job_id: str) -> Path:
    return run.job(job_id).root / name.removeprefix("job/") if name.startswith("job/") else run.root / name


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_torn_is_left_out_and_cut_off(tmp_path: Path, end: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(LINE * 2 + ENDS[end])
    found = read_journal(path)
    assert (len(found.lines), found.torn) == (2, 1)
    other = tmp_path / "other.jsonl"
    shutil.copy(path, other)
    repair_journal(other)
    assert other.read_bytes() == LINE * 2
    with Journal(path) as journal:
        assert journal.torn == 1
        assert journal.read(journal.append({"t": 1})) == {"t": 1}
    assert path.read_bytes() == LINE * 2 + b'{"t":1}\n'


@pytest.mark.parametrize("middle", MIDDLES)
def test_a_line_that_is_torn_before_another_one_is_named(tmp_path: Path, middle: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(LINE + MIDDLES[middle] + LINE)
    for reads in (read_journal, Journal):
        with pytest.raises(HarnessError, match=r"j\.jsonl, line 2: it is not"):
            reads(path)
    repair_journal(path)
    assert path.read_bytes() == LINE + MIDDLES[middle] + LINE, "nothing of it is thrown away"


def test_a_file_that_lacks_only_its_last_newline_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(LINE + LINE[:-1])
    repair_journal(path)
    assert path.read_bytes() == LINE * 2
    repair_journal(tmp_path / "not there")
    assert not (tmp_path / "not there").exists()


def ends_of(path: Path) -> Iterator[bytes]:
    """The file, cut at every byte of its last line, and with zeros for what was cut."""
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    step = max(1, (len(data) - last) // 40)
    for cut in {*range(last + 1, len(data) - 1, step), len(data) - 2, last + 1}:
        yield data[:cut]
        yield data[:cut].ljust(len(data), b"\0")


@pytest.mark.parametrize("name", FILES)
def test_whoever_reads_a_run_takes_a_torn_end_for_no_line(tmp_path: Path, done: RunResult, name: str) -> None:
    job_id = done.rows[0].job_id
    run = copy(done, tmp_path)
    path = place(run, name, job_id)
    whole = path.read_bytes()
    lines = whole.count(b"\n")
    for number, data in enumerate(ends_of(path)):
        path.write_bytes(data)
        assert len(read_journal(path).lines) == lines - 1
        if name.endswith("llm.jsonl"):
            assert len(list(read_calls(path))) == lines - 1
        if number % 20 == 0:
            for command, arguments in commands(run, job_id).items():
                code, out, err = told(*arguments)
                assert code == 0 and "Traceback" not in err, (command, err)
                assert "damaged" not in out + err and "error" not in err, (command, err)


@pytest.mark.parametrize("name", FILES)
def test_a_run_that_goes_on_mends_its_torn_ends(tmp_path: Path, done: RunResult, name: str) -> None:
    """The job is made again, after its controller, too, was cut off."""
    job_id = done.rows[0].job_id
    run = copy(done, tmp_path)
    path = place(run, name, job_id)
    data = path.read_bytes()
    path.write_bytes(data[: data.rstrip(b"\n").rfind(b"\n") + 20] + bytes(30))
    run.job(job_id).results.unlink()
    bench = Bench(tmp_path)
    bench.backend.script = lambda job_id, number: Script(calls=3)
    result = bench.run(**ONE, run_id=run.run_id)
    assert result.ok and check_files(run.root) > 20
    assert json.loads(run.files_index.read_bytes())["run_id"] == run.run_id
    index = {entry["path"]: entry["size"] for entry in read(run.files_index)["files"]}
    for line_file in run.root.rglob("*.jsonl"):
        assert read_journal(line_file).torn == 0, line_file
        assert index[run.relative(line_file)] == line_file.stat().st_size
    told_of = [call.status for call, _ in read_calls(run.job(job_id).cassette)]
    assert len(told_of) >= 3 and set(told_of) == {200}


@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("name", ["events.jsonl", "job/llm.jsonl"])
def test_a_damaged_line_in_a_run_is_reported_once_and_clearly(
    tmp_path: Path, done: RunResult, name: str, middle: str
) -> None:
    job_id = done.rows[0].job_id
    run = copy(done, tmp_path)
    path = place(run, name, job_id)
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([lines[0], MIDDLES[middle], *lines[1:]]))
    readers = ("llm ls", "llm show") if name.endswith("llm.jsonl") else ("show",)
    for command in readers:
        code, _, err = told(*commands(run, job_id)[command])
        assert code != 0 and err.count("\n") == 1 and err.count(f"{path.name}, line 2") == 1, (command, err)
        assert "Traceback" not in err


def test_a_replay_is_asked_for_with_a_torn_cassette(tmp_path: Path, done: RunResult) -> None:
    run = copy(done, tmp_path)
    cassette = run.job(done.rows[0].job_id).cassette
    whole = cassette.read_bytes()
    cassette.write_bytes(whole + whole.splitlines(True)[-1][:50])
    bench = Bench(tmp_path)
    bench.backend.script = lambda job_id, number: Script(calls=3)
    result = bench.run(**ONE, mode="replay", replay_from=str(run.root))
    assert result.replay is not None and result.replay.equal == 1, result.replay
