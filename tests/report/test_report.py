"""The report of runs: what is in it, what cannot get out of it, and what it does with runs that are not whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.analysis.poison import HACK, poisoned
from trace_bench.artifacts.audits import AuditReport, Claim, Evidence
from trace_bench.artifacts.layout import RunLayout
from trace_bench.report import Report, markdown, outcome, page, read_source, tables
from trace_bench.report import lineage as lineage_module
from trace_bench.report.curves import POINTS, band, task_bands
from trace_bench.report.drawing import Style
from trace_bench.report.lineage import JobLineage, lineages
from trace_bench.report.matrix import matrices


def report_of(*runs: RunLayout, audit: AuditReport | None = None) -> Report:
    return Report.of([read_source(run, audit) for run in runs])


def change(run: RunLayout, number: int, **values: Any) -> None:
    """Set fields of the row of the run's n-th job."""
    job = list(run.job_dirs())[number]
    job.results.write_text(json.dumps({**json.loads(job.results.read_text()), **values}))


def without_gap(run: RunLayout) -> None:
    """Make the run one of tasks without best known scores."""
    for number, job in enumerate(list(run.job_dirs())):
        meta, row = json.loads(job.meta.read_text()), json.loads(job.results.read_text())
        meta["objective"]["metrics"].pop("gap", None)
        run.yardsticks.unlink(missing_ok=True)
        job.meta.write_text(json.dumps(meta))
        metrics = {name: value for name, value in row.items() if name.startswith("metrics_")}
        change(run, number, **{n: {k: v for k, v in of.items() if k != "gap"} for n, of in metrics.items()})


def own(html: str) -> str:
    """The page without plotly's own program."""
    from plotly.offline import get_plotlyjs

    assert html.count(get_plotlyjs()) == 1
    return html.replace(get_plotlyjs(), "")


@pytest.fixture(scope="module")
def recorded_page(recorded: RunLayout) -> str:
    return page(report_of(recorded))


# ------------------------------------------------------------------------------------------------------- the page


def test_a_page_loads_nothing_from_anywhere(recorded_page: str) -> None:
    html = own(recorded_page)
    assert "http://" not in html and "https://" not in html
    assert not re.search(r"<(?:link|iframe|object|embed|base|form|img)\b|\bsrc\s*=|@import|url\(", html)
    assert re.findall(r'href="([^#][^"]*)"', html) == []
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:")


def test_equal_files_give_equal_bytes(recorded: RunLayout, recorded_page: str) -> None:
    again = report_of(recorded)
    assert page(again) == recorded_page
    assert markdown(again) == markdown(report_of(recorded))


def test_every_section_says_what_the_run_is_about(recorded_page: str) -> None:
    titles = re.findall(r"<h2>([^<]*)</h2>", recorded_page)
    assert titles == ["Leaderboard", "Paired differences", "Score against cost", "From start to best",
                      "Distributions over seeds", "Failures", "Provenance"]  # fmt: skip
    for said in (
        "internal:numeric_param",
        "num_steps=2, num_candidates=2",
        "scripted:references",
        "local:python",
        "sha256",
    ):
        assert said in recorded_page, said
    assert "18 of 18 jobs are unprotected" in recorded_page
    assert "dynamic programming over the capacity" in recorded_page, "the diff of the reference against the template"


def test_data_of_pictures_cannot_end_their_block(copied: RunLayout) -> None:
    html = own(page(report_of(poisoned(copied))))
    (block,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert not set("<>&\u2028\u2029") & set(block)
    figures = json.loads(block)
    assert len(figures) > 5 and "hacked" in block


def test_nothing_of_a_hostile_run_is_markup(copied: RunLayout) -> None:
    html = own(page(report_of(poisoned(copied))))
    markup = re.sub(r'<script type="application/json".*?</script>', "", html, flags=re.DOTALL)
    tags = {match.lower() for match in re.findall(r"<([a-zA-Z!][^\s>/]*)", markup)}
    assert not tags & {"img", "svg", "a href", "b", "!--"} and markup.count("<script") == 2
    assert not re.search(r"<[^>]*\bon[a-z]+\s*=", markup), "no attribute listens to an event"
    assert not re.search(r'href="(?!#)', markup)
    assert "&lt;script&gt;window.hacked=1" in markup and "\u202e" not in html and "\x1b" not in html
    assert len(html) < 2_000_000 and max(map(len, re.findall(r"[^<>]+", markup))) < 60_000, "the long line is cut"


def test_hostile_texts_make_no_cells_links_or_headings_in_markdown(copied: RunLayout) -> None:
    text = markdown(report_of(poisoned(copied)))
    blocks = [block.splitlines() for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)]
    for lines in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines[0]
    assert "<" not in text.replace("<!-- trace-bench report -->", "")
    assert not re.search(r"(?<!\\)\]\(", text) and not re.search(r"(?<!\\)`", text)
    assert {line.split()[0] for line in text.splitlines() if line.startswith("#")} <= {"#", "##", "###"}
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == 5 and "\u202e" not in text
    assert HACK in text


# --------------------------------------------------------------------------------------------------- what it shows


def test_tasks_with_normalised_held_out_scores_are_compared_by_them_and_others_by_rank(recorded: RunLayout) -> None:
    report = report_of(recorded)
    absolute, relative = matrices(report)
    assert [task.rpartition("/")[2] for task in absolute.tasks] == ["knapsack_construct"] and absolute.normalised
    jobs = report.counted[
        (report.counted["task"] == absolute.tasks[0]) & (report.counted["configuration"] == report.configurations[0])
    ]
    assert absolute.cells[0][0] == pytest.approx(jobs["normalised_test"].mean())
    assert len(relative.tasks) == 2 and not relative.normalised
    assert all(cell in (0.0, 0.5, 1.0) for line in relative.cells for cell in line)
    assert len(absolute.dots) + len(relative.dots) == 18, "a dot for each seed"


def test_a_way_that_is_better_where_less_is_better_ranks_first(copied: RunLayout) -> None:
    for number, job in enumerate(list(copied.job_dirs())):
        row = json.loads(job.results.read_text())
        if row["task_id"] == "internal:multiobjective_convex":
            change(copied, number, score_best=1.0 if row["trainer_id"] == "NoOp" else 2.0, score_test=None)
    (matrix,) = [m for m in matrices(report_of(copied)) if not m.normalised]
    line = dict(zip(matrix.tasks, matrix.cells, strict=True))["internal:multiobjective_convex"]
    assert line[0] == 1.0 and set(line[1:]) == {0.5}, "the others share the second place"


def test_a_curve_is_the_median_of_step_functions_where_all_seeds_have_one() -> None:
    found = band([([1, 3], [10, 20]), ([2, 4], [0, 40]), ([2], [5])])
    assert found is not None and found.grid == (2.0, 3.0, 4.0) and found.seeds == 3
    assert found.median == (5.0, 5.0, 20.0)
    assert found.lower == (2.5, 2.5, 12.5) and found.upper == (7.5, 12.5, 30.0)
    long = band([(range(1000), range(1000))])
    assert long is not None and len(long.grid) <= POINTS and (long.grid[0], long.grid[-1]) == (0, 999)
    backwards = band([([1, 5, 2], [0, 1, 2])])
    assert backwards is not None and backwards.grid == (1.0, 5.0) and backwards.median == (0.0, 2.0)
    assert band([]) is None


def test_a_curve_goes_on_to_what_its_jobs_spent() -> None:
    names = {"source": 0, "job_id": "a", "configuration": "w"}
    nothing = {"total_tokens": 0, "cost_usd": 0.0}
    steps = pd.DataFrame([{**names, "best_score": 5.0, "evaluations": 1, **nothing}])
    jobs = pd.DataFrame([{**names, "evaluations": 3, "total_tokens": 6292, "cost_usd": 0.0}])
    found = task_bands(steps, jobs, ["w"])
    assert found.keys() == {"evaluations", "total_tokens"}, "tokens were spent, if before no step"
    assert found["evaluations"]["w"].grid == (1.0, 3.0) and found["total_tokens"]["w"].grid == (0.0, 6292.0)
    assert found["total_tokens"]["w"].median == (5.0, 5.0)


def test_no_curve_is_drawn_against_what_nobody_spent(recorded_page: str) -> None:
    figures = json.loads(re.findall(r'id="figures">(.*?)</script>', recorded_page, re.DOTALL)[0])
    titles = {axis["title"]["text"] for name, figure in figures.items() if name.startswith("curve")
              for key, axis in figure["layout"].items() if key.startswith("xaxis")}  # fmt: skip
    assert titles == {"evaluations", "tokens"}, "nothing had a price"


def test_failures_are_grouped_with_their_messages_and_are_in_no_score(copied: RunLayout) -> None:
    for number in (0, 1):
        change(
            copied, number, status="failed", failure_boundary="sandbox", failure_kind="lost", feedback=f"gone {number}"
        )
    change(copied, 2, status="failed", failure_boundary="trainer", failure_kind="raised", feedback="it raised")
    report = report_of(copied)
    assert len(report.counted) == 15 and len(report.steps["job_id"].unique()) == 15
    text = markdown(report)
    assert re.search(r"\| sandbox: lost \| 2 \|.*gone \d \\\| gone \d \|", text)
    assert re.search(r"\| trainer: raised \| 1 \|.*it raised \|", text)


def test_what_an_audit_found_stands_on_the_page_and_what_is_wrong_first(recorded: RunLayout) -> None:
    wrong = Evidence(file="results.csv", key="<i>line 3</i>", was=1.5, due=2)
    audit = AuditReport(
        run_id="x", digest="0" * 64, audited_at="2026-01-01T00:00:00Z", code_version="1", sources_hash="2", claims=(
            Claim(claim="files.hashes", verdict="verified", says="every file"),
            Claim(claim="tables.results_csv", verdict="contradicted", says="<i>no</i>", found=3, evidence=(wrong,)),
        )
    )  # fmt: skip
    html = page(report_of(recorded, audit=audit))
    assert "2 claims: 1 contradicted, 1 verified" in html and "The audit contradicts a claim" in html
    assert "results.csv &lt;i&gt;line 3&lt;/i&gt; is 1.5, should be 2 … 2 more" in html and "0" * 64 in html
    assert html.index("&lt;i&gt;no&lt;/i&gt;") < html.index("files.hashes")
    assert "Not audited" in page(report_of(recorded)), "where there was none, the page says so"


def test_the_outcome_is_one_sentence_and_intervals_stay_within_declared_bounds(copied: RunLayout) -> None:
    """Of the task with a normalised score, whose range is 0 to 1, one seed is far below the others."""
    without_gap(copied)
    for number, job in enumerate(list(copied.job_dirs())):
        row = json.loads(job.results.read_text())
        if row["task_id"].startswith("llm4ad") and row["trainer_id"] != "NoOp":
            value = 0.99 if row["seed"] == 1 else 0.9
            change(copied, number, metrics_test={"normalised": value}, metrics_best={"normalised": value})
    report = report_of(copied)
    over = outcome.ranked(report)
    assert [one.rank for one in over] == [1, 1, 3] and over[-1].configuration == "NoOp"
    for one in over:
        low, high = one.held_out.interval or (0.0, 0.0)
        assert 0.0 <= low <= (one.held_out.mean or 0.0) <= high <= 1.0
    assert over[0].held_out.interval is not None and over[0].held_out.interval[1] == 1.0, "Student's t goes to 1.52"
    (told,) = re.findall(r"<p class=outcome>([^<]*)</p>", page(report))
    assert told.startswith("PrioritySearch · ") and "leads with a normalised held-out score of 0.945" in told
    figure = outcome.outcome_figure(report, over, Style(report.configurations))
    assert figure is not None
    for trace in figure.data:
        for x, more in zip(trace["x"], trace.get("error_x", {"array": [0.0] * 9})["array"], strict=False):
            assert 0.0 <= x + more <= 1.0


def test_an_interval_of_gaps_is_not_cut(copied: RunLayout) -> None:
    for number, job in enumerate(list(copied.job_dirs())):
        row = json.loads(job.results.read_text())
        if row["task_id"].startswith("llm4ad") and row["trainer_id"] != "NoOp":
            value = 0.99 if row["seed"] == 1 else 0.9
            change(copied, number, metrics_test={"gap": value, "normalised": 0.1}, metrics_best={"gap": value})
    best = outcome.ranked(report_of(copied))[0]
    assert best.held_out.mean == pytest.approx(0.945) and best.held_out.interval is not None
    assert best.held_out.interval[1] == pytest.approx(1.517, abs=1e-3)


def test_without_normalised_held_out_scores_the_outcome_is_of_validation(copied: RunLayout) -> None:
    for number in range(18):
        change(copied, number, metrics_test={}, score_test=None)
    report = report_of(copied)
    told = outcome.sentence(report, outcome.ranked(report), outcome.differences(report))
    assert "the best mean validation score on" in told and told.endswith("no task has a normalised held-out score.")
    assert 'data-figure="outcome"' in page(report), "the picture of the first screen is the matrix by rank"
    assert 'data-figure="matrix-ranks"' not in page(report), "and is there once"


def test_differences_are_from_what_does_not_search_and_have_verdicts(recorded: RunLayout) -> None:
    found = outcome.differences(report_of(recorded))
    assert (
        not isinstance(found, str)
        and found.labels[0] == "NoOp"
        and set(found.labels[1:]) <= set(report_of(recorded).configurations)
    )
    table = found.table
    assert table.title == "Differences from NoOp" and {row[-1] for row in table.rows} <= {"undecided", "equal"}
    assert any("Caveats: " in note for note in table.notes)


def test_what_a_job_changed_from_start_to_best_is_shown(recorded_page: str) -> None:
    section = recorded_page[recorded_page.index('id="changes"') : recorded_page.index("Lineage of candidates")]
    assert section.count("<details class=change") == 2 and section.count("class=change open") == 1
    assert "<span class=add>" in section and "<span class=del>" in section
    assert "dynamic programming over the capacity" in section


def test_a_front_is_shown_for_searches_with_several_objectives_only(recorded: RunLayout, copied: RunLayout) -> None:
    assert 'id="pareto"' not in page(report_of(recorded))
    for number, job in enumerate(list(copied.job_dirs())):
        if json.loads(job.results.read_text())["task_id"] == "internal:multiobjective_convex":
            change(copied, number, objective="pareto")
    assert 'id="pareto"' in page(report_of(copied))


def test_the_yield_of_proposals_is_in_the_leaderboard(recorded: RunLayout) -> None:
    report = report_of(recorded)
    table = tables.overall(report, outcome.ranked(report))
    assert table is not None
    cells = {row[1].partition(" ")[0]: row[table.header.index("proposals")] for row in table.rows}
    assert cells["NoOp"] == "–" and re.fullmatch(r"[1-9]\d*/\d+/\d+", cells["PrioritySearch"])


def test_two_runs_stand_side_by_side(recorded: RunLayout, copied: RunLayout) -> None:
    other = RunLayout(copied.root.rename(copied.root.with_name("other")))
    report = report_of(recorded, other)
    assert len(report.jobs) == 36 and len(report.configurations) == 6 and len(report.tasks) == 3
    assert sum(configuration.endswith("in other") for configuration in report.configurations) == 3
    assert "| other | recorded | finished | 18 |" in markdown(report)


# -------------------------------------------------------------------------------------------------------- lineage


def history(run: RunLayout, lines: list[dict[str, Any]]) -> JobLineage:
    """The lineage of a search with these candidates, in the run's first job that has any."""
    found, _ = lineages(report_of(run))
    job = run.job(found[0].job_id)
    first = json.loads(job.state_history.read_text().splitlines()[0])
    job.state_history.write_text("".join(json.dumps({**first, **line}) + "\n" for line in lines))
    return next(one for one in lineages(report_of(run))[0] if one.job_id == job.job_id)


def test_a_tree_of_parents_in_circles_from_nowhere_and_of_one_name_is_a_tree(copied: RunLayout) -> None:
    found = history(
        copied,
        [
            {"candidate": "a", "parents": ["c"], "score": 1.0},
            {"candidate": "b", "parents": ["b", "a"], "score": 2.0},
            {"candidate": "c", "parents": ["a", "nowhere"], "score": 3.0, "parameters": {"code": "x = 2\n", "n": 3}},
            {"candidate": "d", "parents": ["nowhere"], "score": 9.0, "comparable": False},
            {"candidate": "c", "parents": [], "score": 3.5},
        ],
    )
    assert [node.parent for node in found.candidates] == [None, None, 0, None]
    assert found.candidates[2].score == 3.5 and found.candidates[2].others == ("nowhere",)
    assert found.best == 2, "what was judged on a part of the examples is not the best"
    assert len({(node.x, node.y) for node in found.candidates if node.parent is None}) == 3
    assert found.candidates[2].diffs["n"] == ("+3",)
    assert "+x = 2" in found.candidates[2].diffs["code"] and any(
        line[0] == "-" for line in found.candidates[2].diffs["code"]
    )


def test_of_a_long_search_the_best_and_its_ancestors_are_kept(copied: RunLayout) -> None:
    lines = [
        {"candidate": f"c{n}", "parents": [f"c{n - 3}"] if n > 2 else [], "score": float(n == 900)} for n in range(1000)
    ]
    found = history(copied, [{**line, "step": n} for n, line in enumerate(lines)])
    assert len(found.candidates) == lineage_module.MOST_CANDIDATES and found.left_out == 880
    assert found.candidates[found.best].score == 1.0 and found.candidates[found.best].parent is not None


def test_texts_that_are_too_long_are_cut_and_said_to_be(copied: RunLayout) -> None:
    long = "y" * 1_000_000 + "\nz\n" * 5000
    starts = {"candidate": "a", "parameters": {"code": "x\n"}}
    found = history(copied, [starts, {"candidate": "b", "parents": ["a"], "parameters": {"code": long}}])
    lines = found.candidates[1].diffs["code"]
    assert found.candidates[1].cut and max(map(len, lines)) <= lineage_module.LONGEST_LINE + 1
    assert len(lines) <= lineage_module.MOST_LINES and not found.candidates[0].cut


# ------------------------------------------------------------------------------------------- runs that are not whole


def test_a_run_that_was_killed_has_what_there_is(copied: RunLayout) -> None:
    for job in list(copied.job_dirs())[:5]:
        job.results.unlink()
    torn = list(copied.job_dirs())[6].state_history
    torn.write_bytes(torn.read_bytes()[:-20])
    for path in (copied.summary, copied.env, copied.git):
        path.unlink()
    report = report_of(copied)
    assert len(report.jobs) == 13
    assert "| 18 | 13 | 0 | 0 | 0 | 0 | 5 |" in markdown(report), "five jobs have not ended"
    assert page(report).count('class="figure"') > 5


def test_a_run_without_a_result_has_sections_that_say_so(copied: RunLayout) -> None:
    for job in list(copied.job_dirs()):
        job.results.unlink()
    report = report_of(copied)
    html = page(report)
    assert "Plotly" not in html.split("<script>")[0] and html.count('class="figure"') == 0 and len(html) < 100_000
    assert html.count("Nothing yet.") >= 5 and "internal:numeric_param" in html
    assert markdown(report).count("Nothing yet.") >= 3


def test_a_damaged_file_of_a_job_is_told_and_does_not_keep_the_rest_from_being_shown(copied: RunLayout) -> None:
    history_file = next(job for job in copied.job_dirs() if job.state_history.read_text().count("\n") > 1).state_history
    history_file.write_text("{nonsense}\n" + history_file.read_text())
    copied.env.write_text("{")
    report = report_of(copied)
    assert len(report.notes) == 2 and any("line 1" in note for note in report.notes)
    assert str(copied.root) not in " ".join(report.notes), "paths are those of the run"
    assert len(report.steps["job_id"].unique()) == 17 and "env.json" in page(report)


def test_rows_of_an_earlier_version_are_shown(copied: RunLayout) -> None:
    for job in copied.job_dirs():
        row = json.loads(job.results.read_text())
        for name in (
            "metrics_best",
            "metrics_test",
            "train_seconds",
            "score_evaluations",
            "hypervolume",
            "pareto_path",
        ):
            row.pop(name)
        job.results.write_text(json.dumps(row))
    report = report_of(copied)
    assert len(report.counted) == 18 and [matrix.normalised for matrix in matrices(report)] == [False]
    assert page(report) and markdown(report)


def test_scores_near_the_end_of_the_double_range_are_shown(copied: RunLayout, tmp_path: Path) -> None:
    for number in range(18):
        change(copied, number, score_best=(-1) ** number * 1.7e308, score_test=1.7e308, cost_usd=1e300)
    assert page(report_of(copied)) and markdown(report_of(copied))
