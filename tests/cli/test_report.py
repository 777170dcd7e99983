"""``trace-bench report``: where it writes, what it refuses, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli import cli
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.report import report as report_command
from trace_bench.errors import ConfigError


def report(run: RunLayout, output: Path | None, *more: str, force: bool = False, as_json: bool = False) -> None:
    report_command([str(run.root), *more], output, no_audit=True, runs_dir=Path("runs"), force=force, as_json=as_json)


def test_the_page_lies_in_the_current_folder_and_is_written_again(
    recorded: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    report(recorded, None)
    path = Path(f"report-{recorded.run_id}.html")
    assert capsys.readouterr().out == f"{path}\n" and path.stat().st_size > 1_000_000
    report(recorded, path)
    report(recorded, Path("report.md"), as_json=True)
    said = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert said["format"] == "md" and said["jobs"] == 18 and said["bytes"] == Path("report.md").stat().st_size
    assert said["audit"] == {recorded.run_id: "not audited"}
    report(recorded, Path("report.md"))


def test_a_report_has_the_audits_verdict(copied: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copied.summary.write_bytes(copied.summary.read_bytes().replace(b'"total_jobs": 18', b'"total_jobs": 19'))
    report_command([str(copied.root)], tmp_path / "r.md", runs_dir=Path("runs"), force=False, as_json=False)
    text = (tmp_path / "r.md").read_text()
    verdict = text[text.index("### The audit's verdict") :]
    assert "contradicted" in verdict and "tables.summary" in verdict and "Digest of the run" in verdict
    assert "the audit contradicts a claim" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["r.md", "r.html"])
def test_keys_of_this_environment_are_in_no_report(
    name: str, copied: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ("zq-plain-value-1234567", 'zq_with_<marks>&"more"_9')
    monkeypatch.setenv("FIRST_API_KEY", secrets[0])
    monkeypatch.setenv("OTHER_TOKEN", secrets[1])
    job = next(iter(copied.job_dirs()))
    row = {**json.loads(job.results.read_text()), "status": "failed", "failure_boundary": "trainer"}
    row |= {"failure_kind": "x", "feedback": f"said {secrets[0]} and {secrets[1]}", "resolved_guide": secrets[1]}
    job.results.write_text(json.dumps(row))
    report(copied, tmp_path / name)
    text = (tmp_path / name).read_text().replace("\\", "")
    assert "said *** and ***" in text and "zq" not in text.partition("plotly.js v")[0]


def test_only_a_report_is_written_over(recorded: RunLayout, tmp_path: Path) -> None:
    mine = tmp_path / "mine.md"
    mine.write_text("# my notes\n")
    with pytest.raises(ConfigError, match="is there and no report of ours"):
        report(recorded, mine)
    assert mine.read_text() == "# my notes\n"
    report(recorded, mine, force=True)
    assert mine.read_text().startswith("<!-- trace-bench report -->")


def test_where_a_report_cannot_be(recorded: RunLayout, tmp_path: Path) -> None:
    for place, said in (
        (tmp_path / "x.txt", "call it .html or .md"),
        (tmp_path / "none" / "x.html", "no such folder"),
        (recorded.root / "x.html", "lies in the folder of a run"),
        (recorded.jobs / "x.md", "lies in the folder of a run"),
    ):
        with pytest.raises(ConfigError, match=said):
            report(recorded, place)
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        report(recorded, tmp_path / "folder.md", force=True)
    with pytest.raises(ConfigError, match="named twice"):
        report(recorded, tmp_path / "x.md", str(recorded.root))


def test_the_command_says_where_the_report_is_and_a_mistake_in_one_line(recorded: RunLayout, tmp_path: Path) -> None:
    done = cli("report", str(recorded.root), "-o", "r.md", "--no-audit", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "r.md\n", ""), "all of the run was read"
    assert "gap: 0 is the template, 1 is the task's reference program" in (tmp_path / "r.md").read_text()
    done = cli("report", "nothing", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("error: there is no run 'nothing'") and not done.stdout
