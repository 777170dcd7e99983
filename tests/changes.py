"""Finds what a change can affect: which test files, nearest first, and which tasks.

``python -m tests.changes [BASE]`` prints the test files. A file is affected if a chain of imports leads from it to a
changed module, or if it names a changed file, a folder above it, or the command, trainer, suite or backend of a changed
module. The length of the chain is how near it is.
"""

from __future__ import annotations

import ast
import heapq
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import grimp

TOP = Path(__file__).resolve().parents[1]
PACKAGES = ("trace_bench", "tests")
RUNS_COMMANDS = {"tests.integration.cli", "tests.console", "tests.recorded", "tests.small"}
"""Modules through which tests run commands."""
COMMANDS = {path.stem for path in (TOP / "trace_bench/cli/commands").glob("*.py")} - {"__init__"}
"""Modules of commands, which nothing imports by name. A test that uses one names the command."""
READS_ALL = {"benchmarks/LLM4AD/": "tests.suites.llm4ad.test_llm4ad_suite"}
"""Tests that read all files below a folder, and name none of them."""
BATTERY = ("trace_bench/suites/llm4ad/", "trace_bench/suites/judge.py")
"""Code that every task of the suite llm4ad shares."""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=TOP, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base_commit() -> str:
    """The commit that changes count from: where this branch left `main`; on `main`, the commit before the last."""
    head = git("rev-parse", "HEAD")
    left = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main")
    return left if left and left != head else git("rev-parse", "--verify", "HEAD~1") or head


@cache
def changed_files(base: str = "") -> tuple[str, ...]:
    """Paths below the checkout that differ from `base`, committed or not; none where there is no git.

    Raises:
        ValueError: there is no commit `base`.
    """
    if base and not git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"):
        raise ValueError(f"there is no commit {base!r}")
    if not (start := base or base_commit()):
        return ()
    found = git("diff", "--name-only", "--no-renames", start), git("ls-files", "--others", "--exclude-standard")
    return tuple(sorted({line for text in found for line in text.splitlines()}))


def changed_tasks(tasks: Iterable[tuple[str, Path]], changed: Iterable[str]) -> set[str]:
    """Ids of those `tasks` whose folder, or whose suite's shared code, has changed."""
    paths = list(changed)
    if any(path.startswith(BATTERY) for path in paths):
        return {task for task, _ in tasks}
    inside = TOP.resolve()
    return {
        task
        for task, folder in tasks
        if any(path.startswith(f"{folder.resolve().relative_to(inside)}/") for path in paths)
    }


def affected_tests(changed: Iterable[str]) -> dict[str, int]:
    """Test files that a change of these paths can affect, each with its distance from the change."""
    paths = list(changed)
    graph = _graph()
    distances = {module: 0 for path in paths if (module := _module(path)) is not None and module in graph}
    for path in paths:
        for module, text in _test_texts().items():
            if (far := _named(path, text)) is not None:
                distances[module] = min(far, distances.get(module, far))
        distances |= {test: 1 for folder, test in READS_ALL.items() if path.startswith(folder)}
    queue = [(far, module) for module, far in distances.items()]
    heapq.heapify(queue)
    while queue:
        far, module = heapq.heappop(queue)
        for user in graph.get(module, ()):
            if far + 1 < distances.get(user, sys.maxsize):
                distances[user] = far + 1
                heapq.heappush(queue, (far + 1, user))
    found = {_path(module): far for module, far in distances.items() if module.rpartition(".")[2].startswith("test_")}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _module(path: str) -> str | None:
    if not path.endswith(".py") or not path.startswith(tuple(f"{name}/" for name in PACKAGES)):
        return None
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _path(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _named(path: str, text: str) -> int | None:
    """How plainly a test says that it reads `path`: 1 by its name or its own folder's, more for folders above. None if
    not, or if `path` is a module, for which there are imports."""
    if _module(path) is not None:
        return None
    *folders, name = path.split("/")
    if path in text or (name in text and _is_the_only(name)):
        return 1
    for far, folder in enumerate(reversed(folders), start=1):
        if re.search(rf"[\"'/]{re.escape(folder)}[\"'/:]", text):
            return far
    return None


@cache
def _is_the_only(name: str) -> bool:
    """True if no two files of the checkout have this name."""
    return len(git("ls-files", name, f"**/{name}").splitlines()) < 2


@cache
def _test_texts() -> dict[str, str]:
    names = sorted(path.relative_to(TOP) for path in (TOP / "tests").rglob("*.py"))
    return {module: (TOP / name).read_text(encoding="utf-8") for name in names if (module := _module(str(name)))}


@cache
def _graph() -> dict[str, set[str]]:
    """The modules that use each module."""
    imports = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    users: defaultdict[str, set[str]] = defaultdict(set)
    for module in imports.modules:
        users[module] |= imports.find_modules_that_directly_import(module)
    for module in imports.modules:
        if module.startswith("trace_bench"):
            for other in _named_in_code(module) & imports.modules:
                users[other].add(module)
    named = _modules_by_word()
    for test, text in _test_texts().items():
        if test not in imports.modules:
            continue
        runs = bool(imports.find_modules_directly_imported_by(test) & RUNS_COMMANDS) or test in RUNS_COMMANDS
        for word in set(re.findall(r"\"([\w-]+)\"", text)) & named.keys():
            for module in named[word]:
                if runs or not module.startswith("trace_bench.cli."):
                    users[module].add(test)
        for conftest in _conftests_above(test):
            users[conftest].add(test)  # its own change reaches all tests below it
        for fixture in _fixtures_of(test):
            users[fixture].add(test)
    # What a conftest imports reaches the tests that ask for its fixtures, and no others.
    for module in imports.modules:
        users[module] = {user for user in users[module] if not user.endswith("conftest") or module.endswith("conftest")}
    return dict(users)


def _named_in_code(module: str) -> set[str]:
    """Modules whose name the code of `module` has as text, to import or to run them."""
    path = TOP / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return set(re.findall(r"[\"' ](trace_bench(?:\.\w+)+)[\"':]", source.read_text(encoding="utf-8"))) - {module}


def _conftests_above(test: str) -> Iterator[str]:
    parts = test.split(".")
    for count in range(1, len(parts)):
        if (found := ".".join([*parts[:count], "conftest"])) in _test_texts():
            yield found


def _fixtures_of(test: str) -> Iterator[str]:
    """Modules that the fixtures of a test come from: a conftest above it, or what that imports them from."""
    wanted = set(re.findall(r"(\w+): ", _test_texts()[test]))
    for conftest in _conftests_above(test):
        tree = ast.parse(_test_texts()[conftest])
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                if wanted & {alias.asname or alias.name for alias in node.names}:
                    yield node.module
            elif isinstance(node, ast.FunctionDef) and node.name in wanted:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Name):
                        yield from _imported_as(tree, inner.id)


def _imported_as(tree: ast.Module, name: str) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and name in {a.asname or a.name for a in node.names}:
            yield node.module


def _modules_by_word() -> dict[str, set[str]]:
    """Modules that tests name by a word: a command's, or those of an entry point."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in COMMANDS:
        found[name.rstrip("_").replace("_", "-")].add(f"trace_bench.cli.commands.{name}")
    points = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for group in points.values():
        for word, target in group.items():
            found[word].add(target.partition(":")[0])
    return found


def main(arguments: list[str]) -> int:
    try:
        changed = changed_files(*arguments[:1])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(affected_tests(changed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
