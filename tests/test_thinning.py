"""What is tried from day to day is a part of what --full tries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thinning import INVARIANTS, thinned

TOP = Path(__file__).resolve().parents[1]
PROPERTY = """
from pathlib import Path
from hypothesis import given, settings, strategies as st

@settings(max_examples=50)
@given(st.integers())
def test_integers(number):
    with Path("examples").open("a") as examples:
        examples.write("x")

def test_full(full):
    Path("full").write_text(str(full))
"""


def test_one_in_so_many_is_not_slow() -> None:
    found = thinned("abcdefg", every=3)
    assert [param.values for param in found if not param.marks] == [("a",), ("d",), ("g",)]
    assert [param.values[0] for param in found] == list("abcdefg")


def _pytest(folder: Path, *options: str) -> str:
    """What pytest says of the tests in `folder`, collected as those of this project are."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", f"--rootdir={folder}", *options]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TOP)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("options", "tried"), [((), "036"), (("--full",), "01234567")])
def test_of_a_long_row_of_parameters_a_part_is_not_slow(tmp_path: Path, options: tuple[str, ...], tried: str) -> None:
    (tmp_path / "test_row.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(8))\ndef test_long(number): print('long', number)\n"
        "@pytest.mark.parametrize('number', range(3))\ndef test_short(number): print('short', number)\n"
    )
    said = _pytest(tmp_path, "-s", "-m", "not slow", *options)
    assert re.findall(r"long (\d)", said) == list(tried)
    assert re.findall(r"short (\d)", said) == ["0", "1", "2"]


@pytest.mark.parametrize("name", sorted(INVARIANTS))
def test_files_that_guard_an_invariant_exist_and_are_not_thinned(name: str) -> None:
    assert "thinn" not in (TOP / name).read_text()


def test_all_rows_of_such_a_file_are_tried(tmp_path: Path) -> None:
    path = tmp_path / "tests/worker/test_seccomp.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import pytest\n@pytest.mark.parametrize('number', range(8))\ndef test_long(number): print('long', number)\n"
    )
    output = _pytest(tmp_path, "-s", "-m", "not slow")
    assert re.findall(r"long (\d)", output) == list("01234567")


@pytest.mark.parametrize(("options", "examples", "full"), [((), 10, "False"), (("--full",), 50, "True")])
def test_properties_are_tried_on_a_part_of_the_examples(
    tmp_path: Path, options: tuple[str, ...], examples: int, full: str
) -> None:
    (tmp_path / "test_property.py").write_text(PROPERTY)
    _pytest(tmp_path, *options)
    assert len((tmp_path / "examples").read_text()) == examples
    assert (tmp_path / "full").read_text() == full
