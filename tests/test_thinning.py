"""What is tried from day to day is a part of what --full tries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.thinning import thinned

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


@pytest.mark.parametrize(("options", "examples", "full"), [((), 10, "False"), (("--full",), 50, "True")])
def test_properties_are_tried_on_a_part_of_the_examples(
    tmp_path: Path, options: tuple[str, ...], examples: int, full: str
) -> None:
    (tmp_path / "test_property.py").write_text(PROPERTY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", f"--rootdir={tmp_path}", *options]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TOP)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "examples").read_text()) == examples
    assert (tmp_path / "full").read_text() == full
