"""What ``docs/examples`` shows is what ``scripts/make-example`` writes, and it is whole."""

from __future__ import annotations

import csv
import re
import subprocess

from tests.integration.cli import REPOSITORY
from trace_bench.report import BEGINNING, MARK

EXAMPLES = REPOSITORY / "docs" / "examples"


def test_the_committed_files_are_those_that_the_script_writes_and_the_page_names() -> None:
    script = [REPOSITORY / "scripts" / "make-example", "--list"]
    listed = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
    assert sorted([*listed, "README.md"]) == sorted(path.name for path in EXAMPLES.iterdir())
    named = set(re.findall(r"\]\(([\w.-]+)\)", (EXAMPLES / "README.md").read_text()))
    assert named == set(listed)


def test_the_example_is_of_a_whole_run_of_protected_jobs() -> None:
    audit = (EXAMPLES / "audit.txt").read_text()
    assert "verified" in audit and not re.search(r"^contradicted", audit, re.MULTILINE)
    rows = list(csv.DictReader((EXAMPLES / "leaderboard.csv").open()))
    assert len(rows) == 16 and sum(int(row["jobs"]) for row in rows) == 80
    assert {row["integrity"] for row in rows} == {"protected"}
    text = (EXAMPLES / "report.md").read_text()
    assert text.startswith(BEGINNING) and "| example | example | finished | 80 | 80 | 0 |" in text
    best = max(float(row["score_mean"]) for row in rows if row["task_id"].endswith("knapsack_construct"))
    assert f"{best:.5g}" in text, "tables and report are of one run"


def test_the_committed_page_is_whole_and_loads_nothing() -> None:
    html = (EXAMPLES / "report.html").read_text()
    assert MARK in html[:1000] and html.endswith("</html>\n") and len(html) < 8_000_000
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    plotly = max(scripts, key=len)
    assert len(plotly) > 1_000_000
    rest = html.replace(plotly, "")
    assert "://" not in rest and not re.search(r"\bsrc\s*=|@import|url\(|<(?:link|iframe|img)\b", rest)
    assert "default-src 'none'" in rest and rest.count('class="figure"') > 15
