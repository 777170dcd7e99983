"""Variables from the environment and from ``.env``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_bench.config import load_config
from trace_bench.errors import ConfigError
from trace_bench.planning.environment import read_dotenv, variables_of

TEXT = """\
# keys
PLAIN=abc
export EXPORTED = spaced out  # a remark
SINGLE='as it # is \\n'
DOUBLE="two\\nlines \\"quoted\\""
HASH=a#b
EMPTY=
COMMENTED=#nothing
not an assignment
9BAD=1
MULTI="first
second"
LAST=z"""


def test_assignments_are_read_as_shells_write_them(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert read_dotenv(tmp_path / ".env") == {
        "PLAIN": "abc", "EXPORTED": "spaced out", "SINGLE": "as it # is \\n", "DOUBLE": 'two\nlines "quoted"',
        "HASH": "a#b", "EMPTY": "", "COMMENTED": "", "MULTI": "first\nsecond", "LAST": "z",
    }  # fmt: skip


def test_the_environment_wins_then_the_file_beside_the_config_then_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "configs" / "c.yaml").write_text("tasks: [internal:numeric_param]\n")
    (tmp_path / "configs" / ".env").write_text("A=beside\nB=beside\nE=beside\n")
    (tmp_path / "here" / ".env").write_text("A=here\nB=here\nC=here\n")
    monkeypatch.chdir(tmp_path / "here")
    variables = variables_of(load_config(tmp_path / "configs" / "c.yaml"), {"A": "process", "E": " "})
    assert [variables.get(name) for name in "ABCDE"] == ["process", "beside", "here", None, "beside"]
    assert variables.origin("A") == "A" and variables.origin("C") == "C in .env"
    assert variables.origin("B") == f"B in {tmp_path / 'configs' / '.env'}"
    assert "B" not in os.environ and "C" not in os.environ


@pytest.mark.parametrize(("data", "says"), [(b"A=\xff", "is not UTF-8"), (b"A=1\n" * 300_000, "more than")])
def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / ".env").write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        read_dotenv(tmp_path / ".env")


def test_no_file_and_a_folder_of_that_name_hold_nothing(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path / ".env") == {}
    (tmp_path / ".env").mkdir()
    assert read_dotenv(tmp_path / ".env") == {}
