"""What ``check-task`` runs of foreign code, and of a user's own programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.conftest import build_folder
from trace_bench.cli.problem_checks import arguments_of, programs_of
from trace_bench.errors import ConfigError
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.problem import ProblemError, Programs
from trace_bench.worker.program_check import check_programs

FOLDERS = Path(__file__).parents[1] / "foreign"
SORTS = "def arrange(numbers):\n    return sorted(numbers.tolist())\n"


def test_the_values_that_foreign_code_begins_with_are_its_template(programs: Programs) -> None:
    spec = load_task_spec(FOLDERS / "proxied").raw
    problem = build_folder(FOLDERS / "proxied", programs, "llm4ad", seed=1, test_seed=None)
    template, mine = check_programs(problem, spec, FOLDERS / "proxied", programs, {"mine.py": SORTS})
    assert (template["role"], template["name"], template["failed"]) == ("template", "the template", 0)
    assert 0 < template["score"] < 1
    assert (mine["role"], mine["name"], mine["score"]) == ("given", "mine.py", 1.0)
    agent = build_folder(FOLDERS / "agent", programs, "llm4ad", seed=1, test_seed=None)
    spec = load_task_spec(FOLDERS / "agent").raw
    (start,) = check_programs(agent, spec, FOLDERS / "agent", programs)
    assert start["role"] == "template" and start["failed"] == 0, "of several values, none of which is code"
    with pytest.raises(ProblemError, match=r"a program is the value of one trainable parameter of code; this task has"):
        check_programs(agent, spec, FOLDERS / "agent", programs, {"mine.py": SORTS})


def test_programs_that_cannot_be_read_are_mistakes_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SORTS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.py").write_bytes(b"\xff")
    assert programs_of([tmp_path / "a.py"]) == {"a.py": SORTS}
    with pytest.raises(ConfigError, match=r"--program .*a.py: is not UTF-8 \(byte 0\)"):
        programs_of([tmp_path / "b" / "a.py"])
    with pytest.raises(ConfigError, match=r"--program .*gone.py: cannot be read: No such file"):
        programs_of([tmp_path / "gone.py"])
    with pytest.raises(ConfigError, match=r"another program is called a.py, too; rename one of them"):
        programs_of([tmp_path / "a.py", tmp_path / "b" / "a.py"])


def test_arguments_are_read_as_a_config_reads_them() -> None:
    found = arguments_of(["n_items=5000", " size = large", "noise=0.1", "exact=true", "name='3'", "text=a=b"])
    assert found == {"n_items": 5000, "size": "large", "noise": 0.1, "exact": True, "name": "3", "text": "a=b"}
    for word in ("n_items", "=5", "n_items="):
        with pytest.raises(ConfigError, match=r"--set .*: is no argument; write NAME=VALUE"):
            arguments_of([word])
    with pytest.raises(ConfigError, match=r"--set n=2: 'n' is given twice; give it once"):
        arguments_of(["n=1", "n=2"])
    with pytest.raises(ConfigError, match=r"--set n=\[1: .* is not valid YAML"):
        arguments_of(["n=[1"])
