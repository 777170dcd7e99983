"""The jobs of a run in groups: what is averaged, what is not, and how it is shown."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.analysis.folders import entry, job_id, make_run, row
from tests.analysis.test_mixed_rows import FAR, ROWS
from tests.cli.conftest import refused
from tests.hostile_texts import FORGED, TEXTS
from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.group_tables import aside_table, csv_table, main_table, methods, notes, short_table
from trace_bench.analysis.groups import Group, Summary, jobs_of, summarise_groups
from trace_bench.analysis.proposals import proposals_of
from trace_bench.analysis.where import parse_by
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cli.commands.results import results as results_command
from trace_bench.display.markup import csv_text, markdown, tex
from trace_bench.display.terminal import Screen
from trace_bench.errors import ConfigError
from trace_bench.execution.result import RunResult
from trace_bench.records.reading import read_rows

KNAPSACK = "llm4ad:optimization/knapsack_construct"


def summarised(rows: Sequence[Results], by: str = "task,trainer", **options: Any) -> Summary:
    return summarise_groups(jobs_frame(rows), parse_by(by), **options)


def one(summary: Summary, **keys: str) -> Group:
    (found,) = [group for group in summary.groups if all(group.keys[key] == value for key, value in keys.items())]
    return found


def normalised(number: int, task: str, value: float, **change: Any) -> Results:
    return row(number, **{"task_id": task, "score_initial": 0.0, "score_best": 1000 * value,
               "metrics_initial": {"normalised": 0.1}, "metrics_best": {"normalised": value},
               "metrics_test": {"normalised": value / 2}, **change})  # fmt: skip


# ---------------------------------------------------------------------------------------------------- what is averaged


def test_a_real_run_by_task_and_trainer(recorded_result: RunResult) -> None:
    jobs = recorded_result.jobs()
    summary = summarise_groups(jobs_of(recorded_result.layout), parse_by("task,trainer"))
    assert summary.joined == ["variant"] and len(summary.groups) == 9, "unlike parameters are not averaged"
    assert summary.unprotected and all(group.marked for group in summary.groups), "there are no others"
    means = jobs.groupby(["task_id", "trainer_id", "variant"])[["score_best", "score_test", "normalised_test"]].mean()
    for group in summary.groups:
        score, test, held_out = means.loc[(group.keys["task"], group.keys["trainer"], group.keys["variant"])]
        assert group.score.n == group.counted == 2 and group.score.mean == pytest.approx(score)
        assert (group.test.mean is None and np.isnan(test)) or group.test.mean == pytest.approx(test)
        assert (group.normalised_test.mean or 0) == pytest.approx(np.nan_to_num(held_out))
    searched = [group for group in summary.groups if group.keys["trainer"] == "PrioritySearch"]
    assert {group.keys["task"] for group in searched if (group.improvement.mean or 0) > 0} == {KNAPSACK}


def test_the_interval_is_over_the_seeds() -> None:
    scores = [1.0, 2.0, 4.0, 9.0]
    group = one(summarised([row(n, score_initial=1.0, score_best=s) for n, s in enumerate(scores)], level=0.9))
    expected = stats.ttest_1samp(scores, 0).confidence_interval(0.9)
    assert group.score.interval == pytest.approx((expected.low, expected.high)) and group.score.iqm == 3.0
    assert group.improvement.mean == 3.0 and group.score.coverage is not None


def test_scores_that_depend_on_the_hardware_are_averaged_on_one_alone() -> None:
    rows = [row(n, score_best=1.0 + n, hardware="A" if n < 2 else "B") for n in range(4)]
    summary = summarised(rows)
    assert [(group.keys["hardware"], group.score.mean) for group in summary.groups] == [("A", 1.5), ("B", 3.5)]
    assert any("different hardware (A; B)" in note for note in notes(summary))
    same = summarised(rows[:2])
    assert same.joined == [] and not any("hardware" in note for note in notes(same))
    of_tasks = summarised([normalised(0, "s:timed", 0.2, hardware="A"), normalised(1, "s:other", 0.4)], "trainer")
    assert [group.tasks for group in of_tasks.groups] == [2], "tasks are averaged as long as there is one hardware"


def test_a_job_that_did_not_come_to_tell_its_hardware_is_counted_beside_the_others(tmp_path: Path) -> None:
    lost = {"status": "failed", "failure_boundary": "sandbox", "failure_kind": "sandbox_gone"}
    elsewhere = row(2, task_id="s:other", score_best=1.0, hardware="B")
    run = make_run(tmp_path, rows=[row(0, score_best=1.0, hardware="A"), row(1, **lost), elsewhere])
    summary = summarise_groups(jobs_of(run), parse_by("task,trainer"))
    assert [(group.jobs, group.counted) for group in summary.groups] == [(2, 1), (1, 1)] and summary.joined == []


def test_improvement_is_better_when_larger_in_either_direction() -> None:
    down = [row(n, score_initial=5.0, score_best=3.0 + n, score_direction="minimize", cost_usd=0.25) for n in range(2)]
    group = one(summarised(down))
    assert group.improvement.mean == 1.5 and group.per_dollar == 6.0 and group.direction == "minimize"
    assert one(summarised([row(0, score_initial=0.0, score_best=1.0)])).per_dollar is None, "nothing was spent"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("variant", ["a", "b"]), ("model", ["m", "n"]), ("resolved_optimizer", ["OPRO", "TextGrad"]),
        ("resolved_trainer_kwargs", [{"num_steps": 1}, {"num_steps": 2}]), ("trainer_id", ["A", "B"]),
        ("resolved_guide", ["default", "LLMJudge"]), ("resolved_guide_kwargs", [{"a": 1}, {}]),
        ("resolved_optimizer_kwargs", [{"memory": 1}, {}]), ("eval_kwargs", [{"size": 1}, {"size": 2}]),
    ],
)  # fmt: skip
def test_unlike_jobs_are_never_averaged_and_the_label_says_how_they_differ(column: str, values: list[Any]) -> None:
    rows = [row(n, score_best=float(n), **{column: value}) for n, value in enumerate(values)]
    summary = summarised(rows, "task")
    assert [group.score.n for group in summary.groups] == [1, 1] and len(summary.joined) == 1
    assert len({tuple(group.keys.values()) for group in summary.groups}) == 2


def test_of_different_tasks_only_normalised_scores_are_averaged_each_task_with_the_same_weight() -> None:
    rows = [normalised(0, "s:a", 0.2), normalised(1, "s:a", 0.4), normalised(2, "s:b", 0.9, cost_usd=0.5),
            row(3, task_id="s:raw", score_best=1e6, cost_usd=9.0)]  # fmt: skip
    group = one(summarised(rows, "trainer"))
    assert group.score.n == 0 and group.test.n == 0, "no mean of raw scores of different tasks"
    assert group.normalised.mean == pytest.approx((0.3 + 0.9) / 2) and group.normalised.unit == "tasks"
    assert group.normalised_test.mean == pytest.approx(0.3) and (group.tasks, group.tasks_without) == (3, 1)
    assert group.improvement.mean == pytest.approx(0.5) and group.cost_usd == 0.25 and group.total_cost_usd == 9.5
    assert group.per_dollar == pytest.approx(2.0), "of the jobs whose improvement counts"
    told = " ".join(notes(summarised(rows, "trainer")))
    assert "scores of the others are not normalised" in told
    assert "2 of 3" in main_table(summarised(rows, "trainer")).rows[0]


def test_a_group_with_one_normalised_task_is_over_its_seeds_and_says_so() -> None:
    summary = summarised([normalised(n, "s:a", 0.1 * n) for n in range(3)], "trainer")
    assert one(summary).normalised.unit == "seeds" and "3 seeds" in main_table(summary).rows[0]


def test_tasks_of_other_arguments_are_other_tasks() -> None:
    rows = [normalised(n, "s:a", 0.1 * n, eval_kwargs={"size": n % 2}) for n in range(4)]
    assert one(summarised(rows, "trainer")).tasks == 2
    assert [group.score.n for group in summarised(rows).groups] == [2, 2]


# -------------------------------------------------------------------------------------------------------- what counts


def test_what_is_in_no_mean_is_counted_by_what_came_of_it(tmp_path: Path) -> None:
    entries = [entry(n, status="not_executed" if r.status == "skipped" else r.status) for n, r in enumerate(ROWS)]
    rows = [r for r in ROWS if r.status != "skipped"]
    run = make_run(tmp_path / "runs", rows=rows, entries=[*entries, entry(12), entry(13)])
    group = one(summarise_groups(jobs_of(run), parse_by("task,trainer")))
    assert (group.jobs, group.counted, group.score.mean, group.flagged) == (14, 2, 2.0, 1)
    aside = {"failed": 2, "infrastructure": 3, "interrupted": 3, "skipped": 1, "pending": 2}
    assert group.aside == aside and group.unprotected == 1 and group.unscored == 0
    assert group.counted + sum(aside.values()) + group.unprotected == group.jobs
    assert group.failures == {"candidate:candidate_error": 1, "trainer:job_timeout": 1}
    assert sum(group.infrastructure.values()) == 3
    with_all = one(summarise_groups(jobs_of(run), parse_by("task,trainer"), unprotected=True))
    assert with_all.score.n == 3 and with_all.score.mean == pytest.approx((4 + FAR) / 3) and with_all.marked


def test_a_run_that_has_only_begun_has_groups_without_numbers(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", planned=2, rows=[], ended=False)
    summary = summarise_groups(jobs_of(run), parse_by("task,trainer"))
    group = one(summary)
    assert group.aside == {"pending": 2} and group.score.n == 0 and not group.marked
    table = main_table(summary)
    assert table.header == ("task", "trainer", "n", "validation", "validation 95 % CI")
    assert "nan" not in csv_text(csv_table(summary)).lower() and table.texts[0][2:] == ("0", "-", "-")
    assert short_table(summary).rows[0][-1] == "2 pending"


def test_a_seed_without_a_held_out_score_is_told_apart() -> None:
    rows = [row(0, score_best=1.0, score_test=2.0), row(1, score_best=1.0), row(2, score_best=1.0, score_test=4.0)]
    assert "3 (2 of 3)" in main_table(summarised(rows)).rows[0]


def table_of(summary: Summary) -> dict[str, list[str]]:
    table = main_table(summary)
    return {name: [line[place] for line in table.rows] for place, name in enumerate(table.header)}


def test_what_covers_says_of_held_out_intervals_stands_beside_them_where_they_are_of_other_sizes() -> None:
    rows = [normalised(n, f"s:{n}", 0.1 * (n + 1)) for n in range(3)]
    assert "held-out covers" not in table_of(summarised(rows, "trainer")), "three tasks both"
    rows[2] = rows[2].model_copy(update={"metrics_test": {}})
    found = table_of(summarised(rows, "trainer"))
    assert found["covers"] == ["63–96 %"]
    assert found["held-out covers"] == ["42–95 %"] and found["held-out"] == ["0.075 (2 of 3)"]
    many = [normalised(n, "s:0", 0.1 * n) for n in range(12)]
    others = [normalised(n, f"s:{n}", 0.2, metrics_test={}) for n in range(12, 14)]
    found = table_of(summarised([*many, *others], "trainer"))
    assert found["covers"] != ["-"] and found["held-out covers"] == ["-"], (
        "twelve seeds of the one that has held-out data"
    )


def test_columns_that_no_group_has_are_in_csv_alone() -> None:
    summary = summarised([row(n, score_best=float(n)) for n in range(3)])
    found = table_of(summary)
    assert not {"held-out", "held-out 95 % CI", "usd", "per usd", "normalised"} & found.keys() and "covers" in found
    assert "per_dollar" in csv_text(csv_table(summary)) and "test_mean" in csv_text(csv_table(summary))
    paid = [row(n, score_initial=0.0, score_best=float(n), cost_usd=0.5 * n) for n in range(2)]
    assert table_of(summarised(paid))["usd"] == ["0.2500"]


def test_methods_are_named_with_their_sources() -> None:
    told = " ".join(methods(summarised([row(0, score_best=1.0)], "trainer")))
    for source in ("arXiv:2108.13264", "arXiv:2411.00640", "arXiv:1411.5279", "Student's t"):
        assert source in told


# ----------------------------------------------------------------------------------------------------- how it is shown


def printed(
    capsys: pytest.CaptureFixture[str], run: RunLayout, form: str, by: str = "task,trainer", **more: bool
) -> str:
    results_command(
        str(run.root), runs_dir=run.root.parent, by=by, where=None, form=form, unprotected=False, level=0.95, **more
    )
    return capsys.readouterr().out


def test_csv_has_the_same_columns_whatever_was_grouped_by(
    recorded: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    by_task = list(csv.DictReader(io.StringIO(printed(capsys, recorded, "csv"))))
    by_model = list(csv.DictReader(io.StringIO(printed(capsys, recorded, "csv", "model"))))
    assert list(by_task[0]) == list(by_model[0]) and {"score_mean", "test_low", "per_dollar"} <= set(by_task[0])
    assert all(None not in line and None not in line.values() for line in by_task + by_model)
    knapsack = next(line for line in by_task if line["task"] == KNAPSACK and line["trainer"] == "NoOp")
    assert float(knapsack["score_mean"]) == 308.9375 and knapsack["seed"] == "" and knapsack["score_n"] == "2"
    assert {line["score_mean"] for line in by_model} == {""}
    jobs = jobs_frame(read_rows(recorded))
    for line in by_model:
        group = jobs[(jobs["model"] == line["model"]) & (jobs["trainer_id"] == line["trainer"])]
        of_task = group.groupby("task_id")["normalised"].mean().dropna()
        assert float(line["normalised_mean"]) == pytest.approx(of_task.mean())


def test_json_has_raw_numbers_and_the_methods(recorded: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    def no_constant(text: str) -> None:
        raise AssertionError(text)

    found = json.loads(printed(capsys, recorded, "json"), parse_constant=no_constant)
    assert found["by"] == ["task", "trainer"] and found["joined"] == ["variant"] and len(found["groups"]) == 9
    group = found["groups"][-1]
    assert group["score"]["interval"][0] < group["score"]["mean"] < group["score"]["interval"][1]
    assert group["keys"]["task"] == KNAPSACK and any("arXiv" in line for line in found["methods"])


def test_the_table_shows_measured_coverage_beside_intervals_of_few_values(
    recorded: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, recorded, "table", explain=True)
    assert "42–95 %" in told and "(unprotected)" in told and "[-3]=" in told
    assert "=: all values are the same" in told and "nan" not in told and "arXiv:2108.13264" in told


def test_one_table_and_one_line_of_caveats_unless_more_is_asked_for(
    recorded: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    table, remarks = printed(capsys, recorded, "table").split("\n\n")
    answers, remedy, gap, budgets, caveats = remarks.split("\n", 4)
    assert budgets.startswith("budgets: PrioritySearch ") and budgets.endswith(" on equal terms.")
    assert gap == "gap: 0 is the template, 1 is the task's reference program on the same instances."
    assert answers == "26 of 40 answers unusable: 26 without a suggestion." and remedy.startswith("Try another model")
    assert ("]=" in table) == ("=: all values" in caveats), "no mark is explained that is not there"
    header, *rows = table.splitlines()
    assert "validation" in header and "held-out 95 % CI" in header and "covers" not in header and len(rows) == 9
    assert caveats.startswith("Caveats: unprotected: ") and caveats.endswith("--explain says more.\n")
    assert caveats.count("\n") == 1 and "arXiv" not in caveats and "intervals of 2 values may be too short" in caveats


def test_what_a_search_proposed_is_counted_from_its_history_and_its_events(
    copied: RunLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    job = next(job for job in copied.job_dirs() if job.state_history.read_text().count("\n") > 2)
    names = {line["candidate"] for line in map(json.loads, job.state_history.read_text().splitlines())}
    job.events.write_text(
        '{"t":1.0,"event":"proposal.dropped","reason":"duplicate"}\n{"t":1.0,"event":"proposal.unusable"}\n'
        '{"t":1.0,"event":"proposal.dropped","reason":"unchanged"}\n{"t":1,"event":"proposal.dro'
    )
    assert proposals_of(job) == {"new": len(names) - 1, "duplicate": 2, "unusable": 1}
    job.events.write_bytes(b'[1]\n{"event":["proposal.dropped"]}\n"proposal.dropped"\n')
    job.state_history.write_bytes(b'{"candidate":1,"parents":"x"}\n{"parents":["a"],"candidate":\n')
    assert proposals_of(job) == {"new": 1, "duplicate": 0, "unusable": 0}, "what a sandbox wrote is no promise"
    groups = json.loads(printed(capsys, copied, "json"))["groups"]
    searched = [group["proposals"] for group in groups if group["keys"]["trainer"] == "PrioritySearch"]
    assert sum(counts["new"] for counts in searched) > 0
    assert all(not any(g["proposals"].values()) for g in groups if g["keys"]["trainer"] == "NoOp")
    assert "proposals: new/duplicate/unusable" in printed(capsys, copied, "table")


def test_jobs_of_a_run_without_its_manifest_are_said_to_be_those_that_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "runs", planned=3, rows=[row(1, score_best=1.0)])
    options: dict[str, Any] = {"by": "task", "where": None, "form": "csv", "unprotected": False, "level": 0.95}
    results_command(str(run.root), runs_dir=run.root.parent, **options)
    assert not capsys.readouterr().err
    run.manifest.unlink()
    results_command(str(run.root), runs_dir=run.root.parent, **options)
    assert "its manifest is missing" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("by", ["task,trainer", "trainer"])
def test_on_a_narrow_terminal_the_table_fits_and_the_mean_stays(
    by: str, width: int, copied: RunLayout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in copied.jobs.glob("*/results.json"):  # held-out scores are of a secret seed, and their texts vary
        row = json.loads(path.read_text())
        held_out = -0.0123 - row["seed"] / 1000
        row |= {"score_test": held_out, "metrics_test": dict.fromkeys(row["metrics_test"], held_out)}
        path.write_text(json.dumps(row))
    monkeypatch.setattr("trace_bench.display.console.screen", lambda: Screen(width, styled=False))
    lines = printed(capsys, copied, "table", by).splitlines()
    header = next(line for line in lines if line.startswith("trainer"))
    rows = [line for line in lines if line.startswith(("NoOp ", "PrioritySearch "))]
    assert len(rows) == (9 if by == "task,trainer" else 3) and all(len(line) <= width for line in [header, *rows])
    assert "validation" in header and "95 % CI" in header
    assert all(len(line) <= width for line in lines), "sentences are folded"
    assert "all: unprotected" in lines
    assert (f"{KNAPSACK}  higher is better" in lines) == (by == "task,trainer")


@pytest.mark.parametrize("name", list(TEXTS))
def test_hostile_names_act_on_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXTS[name]
    rows = [row(n, trainer_id=text or "T", variant=text * n, score_best=1.0, failure_kind=None) for n in range(2)]
    rows.append(row(2, trainer_id=text or "T", status="failed", failure_kind=text or "x", failure_boundary="trainer"))
    summary = summarised(rows)
    main, aside = main_table(summary), aside_table(summary)
    assert aside is not None
    for shown in (markdown(main), tex(main), csv_text(csv_table(summary)), markdown(aside), tex(aside)):
        assert not any(line.startswith(FORGED) for line in shown.splitlines())
        assert "\x1b" not in shown and "\x9b" not in shown
    widths = {line.replace(r"\|", "").count("|") for line in markdown(main).splitlines()}
    assert len(widths) == 1, "as many cells in each row"


def test_markup_is_text() -> None:
    name, variant = "a|b <img src=x> [l](http://e) *e* `c` https://e @me", r"50 % of a_b \x {y} $z$ ~#^&"
    rows = [row(0, trainer_id=name, variant=variant, score_best=1.0)]
    (line,) = markdown(main_table(summarised(rows, "task,trainer,variant"))).splitlines()[2:]
    assert r"a\|b" in line and "<img" not in line and r"\[l\]" in line and r"\*e\*" in line and "https://" not in line
    (line,) = [x for x in tex(main_table(summarised(rows, "variant,task"))).splitlines() if x.startswith("50")]
    assert line.startswith(r"50 \% of a\_b \textbackslash{}x \{y\} \$z\$ \textasciitilde{}\#\textasciicircum{}\&")


def test_the_tex_is_tex(recorded: RunLayout, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = printed(capsys, recorded, "tex")
    assert told.count(r"\begin{tabular}") == told.count(r"\end{tabular}") == 1 and told.count(r" \\") == 10
    if shutil.which("pdflatex"):
        page = tmp_path / "t.tex"
        page.write_text(
            "\\documentclass{article}\\usepackage{booktabs,textcomp}\\begin{document}" + told + "\\end{document}"
        )
        subprocess.run(["pdflatex", "-interaction=batchmode", page.name], cwd=tmp_path, check=True, timeout=60)


def test_mistakes_are_one_sentence(recorded: RunLayout) -> None:
    run = str(recorded.root)
    assert "no 'nope'; known are" in refused("results", run, "--by", "nope")
    options: dict[str, Any] = {"by": "task", "where": None, "form": "table", "unprotected": False, "level": 0.95}
    for change, said in [
        ({"form": "xml"}, "there is no 'xml'"), ({"where": "task=zzz"}, "none of the 18 jobs of the run matches"),
        ({"where": "zzz"}, "is no condition"), ({"by": "task,task"}, "names a key twice"),
    ]:  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            results_command(run, runs_dir=recorded.root.parent, **{**options, **change})
    assert "--level must be a number from 0.5 to below 1, as 0.95, not '95'" in refused("results", run, "--level", "95")


def test_job_ids_of_waiting_jobs_are_those_of_the_manifest(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", planned=3, rows=[row(1, score_best=1.0)])
    jobs = jobs_of(run).set_index("job_id")["outcome"]
    assert dict(jobs) == {job_id(0): "pending", job_id(1): "ok", job_id(2): "pending"}
