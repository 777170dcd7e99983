"""docs/reference/trainers.md lists every parameter of every trainer, with its default and aliases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trace_bench.trainers.base import Param
from trace_bench.trainers.noop import NoOp
from trace_bench.trainers.priority_search import PrioritySearch

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trainers.md"


def section(title: str) -> str:
    text = PAGE.read_text()
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.M | re.S)
    assert found, f"{PAGE.name} has no section {title}"
    return found.group(2)


def rows(title: str) -> dict[str, list[str]]:
    """The first table of a section, by the name in its first column."""
    table = re.search(r"^\|.*?(?=^[^|]|\Z)", section(title), re.M | re.S)
    assert table
    lines = [line for line in table.group().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row for row in cells}


def shown(value: object) -> str:
    if value == "":
        return "empty"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("param", PrioritySearch.params, ids=lambda p: p.name)
def test_every_parameter_is_listed_with_default_and_aliases(param: Param) -> None:
    row = rows("PrioritySearch")[param.name]
    assert row[1].strip("`") == shown(param.default)
    assert tuple(re.findall(r"`(\w+)`", row[2])) == param.aliases
    assert all(f"`{choice}`" in row[3] for choice in param.choices or ())


def test_no_parameter_is_listed_that_does_not_exist() -> None:
    assert set(rows("PrioritySearch")) == {p.name for p in PrioritySearch.params}
    assert NoOp.params == ()
    assert "takes no parameters" in section("NoOp")
