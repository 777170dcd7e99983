"""docs/reference/files.md names every schema and every column of the leaderboard."""

from __future__ import annotations

import re
from pathlib import Path

from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.records.leaderboard import LeaderboardRow

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"


def test_the_page_names_every_schema_and_every_column_of_the_leaderboard() -> None:
    text = re.sub(r"^```.*?^```", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`([^`]+)`", text))
    assert set(schema.names()) - named == set()
    assert set(LeaderboardRow.columns()) - named == set()


def test_the_page_gives_each_file_the_schema_that_it_has() -> None:
    run = RunLayout(Path("r"))
    rows = re.findall(r"^\| `(\S+?)`(?:, [^|]*)? \| (?:`(\w+)`)? ?\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    files = {path.replace("<job_id>", "0123456789ab"): name for path, name in rows if "attempts" not in path}
    assert run.relative(run.manifest) in files
    assert len(files) >= 15
    assert {path: schema_of(path) or "" for path in files} == files
