"""Runs in a notebook: the display that is updated while one goes on, and the HTML of runs and tables."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import trace_bench
from tests.cli.sample_run import NASTY, STEP, failed, job, row, start
from tests.cli.test_hostile_texts import _going, hostile_run
from tests.hostile_texts import TEXTS
from trace_bench.analysis.leaderboard_table import MOST_ROWS
from trace_bench.display import markup
from trace_bench.display.table import Table
from trace_bench.display.text import HIDDEN
from trace_bench.execution.events import CandidateEvaluated, JobFinished, JobStarted
from trace_bench.execution.result import RunResult
from trace_bench.notebook import MOST_LINES, NotebookTable, in_notebook

ONE = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "backend": "local"}
TAGS = {"p", "b", "table", "thead", "tbody", "tr", "th", "td", "pre", "span"}


class Page(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_inert(html: str) -> Page:
    page = Page(html)
    assert page.tags <= TAGS and page.attributes <= {"style"}, html
    assert not HIDDEN.search(page.text.replace("\n", "")), page.text
    return page


# ------------------------------------------------------------------------------------------- in a real kernel


class Kernel:
    """A Jupyter kernel and its client."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str) -> list[dict[str, Any]]:
        """The messages of a cell."""
        said: list[dict[str, Any]] = []
        self._client.execute_interactive(code, output_hook=said.append, timeout=120)
        assert not [each for each in said if each["msg_type"] == "error"], said[-2:]
        return said

    def complete(self, code: str) -> list[str]:
        asked = self._client.complete(code)
        while (reply := self._client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != asked:
            pass
        matches: list[str] = reply["content"]["matches"]
        return matches


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    folder = tmp_path_factory.mktemp("notebook")
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder))
    yield Kernel(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_run_in_a_notebook_has_one_output_that_is_updated(kernel: Kernel) -> None:
    said = kernel.run(f"import trace_bench\nresult = trace_bench.run({ONE})")
    shown = [each["content"] for each in said if each["msg_type"] == "display_data"]
    updates = [each["content"] for each in said if each["msg_type"] == "update_display_data"]
    assert len(shown) == 1 and updates, [each["msg_type"] for each in said]
    assert {each["transient"]["display_id"] for each in updates} == {shown[0]["transient"]["display_id"]}
    assert "1/1 done   1 ok" in updates[-1]["data"]["text/plain"]
    assert "1/1 done   1 ok" in assert_inert(updates[-1]["data"]["text/html"]).text
    assert not [each for each in said if each["msg_type"] == "stream"]

    silent = kernel.run(f"trace_bench.run({ONE} | {{'seeds': [2]}}, progress=False)")
    (result,) = [each["content"]["data"] for each in silent if each["msg_type"] == "execute_result"]
    assert not [each for each in silent if each["msg_type"] == "display_data"]
    page = assert_inert(result["text/html"])
    assert (
        "1 of 1 jobs ok" in page.text and "internal:numeric_param" in page.text and "RunResult" in result["text/plain"]
    )


def test_completion_in_a_notebook_knows_the_api(kernel: Kernel) -> None:
    kernel.run("import trace_bench")
    assert {"load_config", "open_run", "run"} <= {name.rpartition(".")[2] for name in kernel.complete("trace_bench.")}


# --------------------------------------------------------------------------------------------- without a kernel


def test_outside_a_notebook_a_run_shows_itself_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not in_notebook()
    result = trace_bench.run(ONE)
    assert result.ok and capsys.readouterr() == ("", "")
    assert trace_bench.run(ONE, progress=True).ok
    out, err = capsys.readouterr()
    assert out == "" and re.search(rf"^ok     {result.rows[0].job_id} .*\[1/1\]$", err, re.MULTILINE)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_failures_stand_above_the_table_and_stay() -> None:
    shown: list[dict[str, str]] = []
    table = NotebookTable(publish=shown.append)
    jobs = [job(n) for n in range(MOST_LINES + 2)]
    table.notify(start(jobs, warnings=("a warning",)))
    table.notify(JobStarted(jobs[0], adopted=True))
    table.notify(CandidateEvaluated(jobs[0], STEP))
    _until(lambda: bool(shown) and "1 running" in shown[-1]["text/plain"])
    assert shown[-1]["text/plain"].startswith("warning: a warning\n")
    for each in jobs:
        table.notify(JobFinished(each, failed(each, feedback=f"<script>{NASTY}. More")))
    table.close(1)
    last = shown[-1]["text/plain"].splitlines()
    assert last[0] == "… 3 earlier lines" and last[1].startswith(f"failed {jobs[2].job_id}")
    assert any(line.startswith(f"{len(jobs)}/{len(jobs)} done") for line in last)
    assert "<script>" in assert_inert(shown[-1]["text/html"]).text


def test_what_goes_wrong_before_a_run_begins_is_shown() -> None:
    shown: list[dict[str, str]] = []
    table = NotebookTable(publish=shown.append)
    table.note("building the image core")
    table.close(3, "no engine")
    assert [each["text/plain"] for each in shown] == ["building the image core\n"]


def test_a_table_of_many_rows_counts_what_it_leaves_out() -> None:
    html = markup.html(Table.of(("a", "b"), [(n, "<b>") for n in range(MOST_ROWS + 5)], ("a",)).first(MOST_ROWS))
    page = assert_inert(html)
    assert (
        html.count("<tr>") == MOST_ROWS + 1 and page.text.endswith("5 more rows were left out.") and "<b>" in page.text
    )


def test_the_jobs_of_a_config_are_a_table() -> None:
    html = trace_bench.expand({**ONE, "seeds": [1, 2]})._repr_html_()
    assert re.findall(r"<td[^>]*>([^<]*)</td></tr>", html) == ["1", "2"] and assert_inert(html)


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_that_a_run_holds_acts_in_a_notebook(name: str, tmp_path: Path) -> None:
    run = hostile_run(tmp_path, "20260102-030405-0123abcd-" + str(list(TEXTS).index(name)), TEXTS[name])
    assert_inert(RunResult.read(run)._repr_html_())
    shown: list[dict[str, str]] = []
    table: Any = NotebookTable(publish=shown.append)
    _going(table, run)
    _until(lambda: bool(shown))
    assert_inert(shown[-1]["text/html"])


def test_a_run_says_what_did_not_count(tmp_path: Path) -> None:
    from tests.analysis.folders import make_run

    jobs = [job(n) for n in range(3)]
    rows = [row(jobs[0]), failed(jobs[1]), failed(jobs[2], failure_boundary="sandbox", failure_kind="gone")]
    layout = make_run(tmp_path, rows=rows)
    html = RunResult(layout.run_id, layout, tuple(rows), 4)._repr_html_()
    assert "1 of 4 jobs ok · 1 failed · 2 did not finish" in assert_inert(html).text
