"""Text on its way out: escaped, masked, cut, and inert in each format."""

from __future__ import annotations

import csv
import io

import pytest

from tests.hostile_texts import FORGED, TEXTS
from trace_bench.display import console
from trace_bench.display.markup import csv_text, html, markdown, tex
from trace_bench.display.table import Table
from trace_bench.display.terminal import Screen, plain_lines, terminal_lines
from trace_bench.display.text import HIDDEN, clean_line, quoted
from trace_bench.secrets import known


def test_quoted_text_is_on_one_line_and_cut() -> None:
    assert quoted("a\x1b[31m\n\u202eb") == "a\\x1b[31m\\n\\u202eb"
    assert len(quoted("x" * 1000)) == 120
    assert quoted({"a\u2028": [1, None, "\u202e"]}) == '{"a\\u2028":[1,null,"\\u202e"]}'


def test_a_secret_is_masked_before_the_text_is_cut() -> None:
    known.add(["very-secret-value"])
    try:
        assert clean_line("it is very-secret-value", 14) == "it is ***"
        assert "secret" not in "".join(plain_lines(Table.of(("a",), [("it is very-secret-value",)])))
    finally:
        known.clear()


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_is_inert_in_every_format(name: str) -> None:
    table = Table.of(("head", TEXTS[name]), [(TEXTS[name], "x"), ("y", TEXTS[name])])
    for lines in (plain_lines(table), terminal_lines(table, Screen(60, styled=False)), markdown(table).split("\n"),
                  tex(table).split("\n")):  # fmt: skip
        assert all(line.isprintable() and not line.startswith(FORGED) for line in lines), name
    assert len(markdown(table).split("\n")) == 4
    page = html(table)
    assert HIDDEN.search(page) is None and "<script" not in page and "<img" not in page
    assert len(list(csv.reader(io.StringIO(csv_text(table))))) == len(csv_text(table).splitlines()) == 3


def test_a_line_of_output_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for text in TEXTS.values():
        console.emit(text)
        console.note(text)
        console.emit_pairs([(text, text or "x")])
        console.emit_sentence(text)
    said = capsys.readouterr()
    for line in [*said.out.split("\n"), *said.err.split("\n")]:
        assert line.isprintable() and not line.startswith(FORGED)
