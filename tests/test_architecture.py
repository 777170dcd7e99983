"""The rules of ``docs/design/architecture.md``: sizes, import cycles, packages, dependencies."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "trace_bench"
FILES = sorted(PACKAGE.rglob("*.py"))
ARCHITECTURE = ROOT / "docs" / "design" / "architecture.md"
DEPENDENCIES = ROOT / "docs" / "design" / "dependencies.md"

LARGEST_FILE, MOST_METHODS, LONGEST_FUNCTION = 500, 20, 60
REASON = re.compile(r"#\s+[Ll]ong\b")
"""The comment that says why a function is longer."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
IMPORT_NAMES = {
    "markdown-it-py": "markdown_it",
    "pyyaml": "yaml",
    "mlflow-skinny": "mlflow",
    "tensorboardx": "tensorboardX",
}


def nodes(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, str, ast.AST]]:
    """Every node of `kind` in the package: its place as ``file:line``, the text of its file, and itself."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, kind):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text, node  # type: ignore[attr-defined]


def test_no_file_is_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path: lines for path, lines in lengths.items() if lines > LARGEST_FILE} == {}


def test_no_class_has_many_methods() -> None:
    found = {}
    for place, _, node in nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        methods = sum(isinstance(member, Function) for member in node.body)
        if methods > MOST_METHODS:
            found[f"{place} {node.name}"] = methods
    assert found == {}


def test_no_function_is_long_without_a_reason() -> None:
    found = {}
    for place, text, node in nodes((ast.FunctionDef, ast.AsyncFunctionDef)):
        assert isinstance(node, Function) and node.end_lineno is not None
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        if len(lines) > LONGEST_FUNCTION and not any(REASON.search(line) for line in lines):
            found[f"{place} {node.name}"] = len(lines)
    assert found == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not for type checking alone. The package's own ``__init__``, which names the Python API, is left out."""
    graph = grimp.build_graph("trace_bench", exclude_type_checking_imports=False)
    modules = graph.modules - {"trace_bench"}
    assert len(modules) > 300
    left = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}
    while done := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in done}
    # What is left is in a circle or imports one.
    circles = {
        frozenset((*chain, module))
        for module, imported in left.items()
        for other in imported & left.keys()
        if (chain := graph.find_shortest_chain(other, module)) and "trace_bench" not in chain
    }
    assert {" ".join(sorted(circle)) for circle in circles} == set()


def test_what_plans_and_executes_runs_compares_no_names_of_backends() -> None:
    """It reads the traits of a backend."""
    names = {"docker", "local", "modal"}
    compared = []
    for place, _, node in nodes(ast.Compare):
        assert isinstance(node, ast.Compare)
        values = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
        package = place.split("/")[1]
        if names & values and package in ("planning", "scheduling", "execution", "audit"):
            compared.append(place)
    assert compared == []


def test_the_page_shows_every_package() -> None:
    diagram = ARCHITECTURE.read_text(encoding="utf-8").split("```")[1]
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages - set(re.findall(r"[a-z_0-9]+", diagram)) == set()


def test_the_page_names_files_that_exist() -> None:
    named = re.findall(r"`(trace_bench/[a-z_0-9/]+(?:\.py)?|[a-z_]+/[a-z_/]+\.py)`", ARCHITECTURE.read_text("utf-8"))
    assert len(named) > 20
    assert [name for name in named if not ((ROOT / name).exists() or (PACKAGE / name).exists())] == []


def declared() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[\[<>=~!; ]", requirement)[0].lower() for each in lists for requirement in each}
    return sorted(names - {"trace-bench"})


@pytest.mark.parametrize("name", declared())
def test_every_dependency_is_used_and_justified(name: str) -> None:
    assert f"| `{name}` |" in DEPENDENCIES.read_text(encoding="utf-8").lower()
    module = IMPORT_NAMES.get(name, name.replace("-", "_"))
    if name != "harbor":  # its command is started, and nothing of it imported
        wanted = re.compile(
            rf"^\s*(?:import|from) {module}\b|import_module\(\"{module}\b", re.MULTILINE | re.IGNORECASE
        )
        assert any(wanted.search(path.read_text(encoding="utf-8")) for path in FILES)
