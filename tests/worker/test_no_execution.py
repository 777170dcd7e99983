"""Source that a model wrote is executed by the candidate's own process alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EXECUTING = {"exec", "eval", "compile", "__import__"}
OTHERS = {"re.compile", "optimizer.compile", "self.norm.eval"}
MEASURING = [REPOSITORY / "benchmarks" / name for name in ("perf", "trainers")]
"""Programs that measure: they run on the host, and execute nothing but files of ours."""


def executing_names(path: Path) -> list[str]:
    """Names of builtins that execute source, called or passed on, in order; ``re.compile`` is none, nor is what dspy's
    optimizers call searching, or PyTorch's modules being used."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and node.id in EXECUTING:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and node.attr in EXECUTING and ast.unparse(node) not in OTHERS:
            found.append((node.lineno, node.attr))
    return [name for _, name in sorted(found)]


def test_only_the_candidates_process_executes_source() -> None:
    folders = [REPOSITORY / "trace_bench" / name for name in ("worker", "trainers", "suites")]
    paths = [path for folder in (*folders, REPOSITORY / "benchmarks") for path in folder.rglob("*.py")]
    paths = [path for path in paths if not any(folder in path.parents for folder in MEASURING)]
    assert len(paths) > 60
    assert {path.name: found for path in paths if (found := executing_names(path))} == {
        "candidate_runner.py": ["compile", "exec"],
        "code_harness.py": ["eval"],  # source that runs in a candidate's process; no module imports it
        "reference.py": ["compile", "exec"],  # a task's own problem.py, with other sizes
        "in_scorer.py": ["compile", "exec"],  # for jobs that ask for it, and are unprotected
    }


def test_only_the_spawner_imports_what_executes_it() -> None:
    package = REPOSITORY / "trace_bench"
    importing = [p.name for p in package.rglob("*.py") if "import candidate_runner" in p.read_text()]
    assert importing == ["candidate_pool.py"]
    importing = [p.name for p in package.rglob("*.py") if re.search(r"in_scorer import.*\bloaded\b", p.read_text())]
    assert importing == ["candidate.py"]
    assert not [p.name for p in package.rglob("*.py") if re.search(r"import.*\bcode_harness\b", p.read_text())]
