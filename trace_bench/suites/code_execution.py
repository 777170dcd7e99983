"""Find places where the files of a folder may execute source, by their imports and the names that they use.

The rule is the strict one: a module that is not on the list of those known to execute nothing counts as a sign, and
so does each name that can. Aliases of modules and names are followed through imports and plain assignments, in all
files of the folder together.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trace_bench.worker import source_scan

_KNOWN = {
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "bz2", "calendar", "cmath", "collections",
    "colorsys", "concurrent.futures", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib",
    "enum", "errno", "fnmatch", "fractions", "functools", "gc", "glob", "graphlib", "gzip", "hashlib", "heapq", "hmac",
    "html", "inspect", "io", "itertools", "json", "keyword", "locale", "logging", "lzma", "math", "numbers", "operator",
    "os", "pathlib", "platform", "pprint", "queue", "random", "re", "reprlib", "secrets", "shutil", "signal",
    "statistics", "string", "struct", "sys", "tempfile", "textwrap", "threading", "time", "traceback", "types",
    "typing", "typing_extensions", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref", "zipfile", "zlib",
    "zoneinfo",
    "numpy", "scipy", "gymnasium", "gym", "Box2D",
    "llm4ad.base", "llm4ad.task", "llm4ad_loader", "opto", "matplotlib", "tqdm", "pygame", "numba",
}  # fmt: skip
"""Modules that execute no source, with what is below them, except by the names that are signs."""
_BUT = {"logging.config", "numpy.distutils", "numpy.testing"}
_BUILT_IN = {"exec", "eval", "compile", "__import__", "__builtins__", "__loader__", "__spec__", "breakpoint"}
_SIGNS = {
    "__builtins__", "__getattribute__", "__globals__", "__import__", "__loader__", "__subclasses__", "CodeType",
    "ForwardRef", "FunctionType", "InteractiveConsole", "InteractiveInterpreter", "LambdaType", "ProcessPoolExecutor",
    "SecureEvaluator", "SourceFileLoader", "builtins", "codeop", "ctypeslib", "exec_module", "f2py", "f_builtins",
    "f_globals", "get_type_hints", "import_module", "importlib", "lambdify", "load_env_creator", "load_library",
    "module_from_spec", "parse_expr", "pickle", "posix_spawn", "posix_spawnp", "run_module", "run_path", "runcode",
    "rundocs", "runpy", "runsource", "runstring", "spec_from_file_location", "spec_from_loader", "subprocess",
    "sympify", "timeit",
}  # fmt: skip
"""Whatever they are names of."""
_OF_OS = {
    "execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe", "popen", "spawnl", "spawnle",
    "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe", "startfile", "system",
}  # fmt: skip
_OF = {"os": _OF_OS, "posix": _OF_OS, "sys": {"modules"}, "builtins": _BUILT_IN}
_BY_NAME = ("getattr", "attrgetter", "methodcaller")
_KEYWORDS = {"allow_pickle": "unpickling", "eval_str": "annotations that are evaluated"}
_STEPS = 3
_DOTS = 4


@dataclass(frozen=True)
class SourceFile:
    """One file: the dotted name of its module below the folder (of ``__init__.py``, that of its own folder), whether
    it is one, and what is in it."""

    module: str
    is_package: bool
    tree: ast.Module


def findings(files: Mapping[str, SourceFile]) -> Iterator[tuple[str, int, str]]:
    """Places where the files of one folder may execute source: (file, line, what), in order. `files` are by name."""
    own = {""}
    for source in files.values():
        parts = source.module.split(".")
        own |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    aliases = _aliases([source.tree for source in files.values()])
    for name, source in files.items():
        for line, what in sorted(set(_File(source, own, aliases).signs())):
            yield name, line, what


class _File:
    def __init__(self, source: SourceFile, own: set[str], aliases: Mapping[str, set[str]]) -> None:
        self._source = source
        self._own = own
        self._aliases = aliases

    def signs(self) -> Iterator[tuple[int, str]]:
        called: set[int] = set()
        owners: set[int] = set()
        pending: list[ast.AST] = list(_imported(self._source.tree))
        while pending:
            node = pending.pop()
            pending += ast.iter_child_nodes(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from ((node.lineno, what) for what in self._import(node))
            elif isinstance(node, ast.Name | ast.Attribute):
                if (what := self._named(node)) or (
                    id(node) not in called and id(node) not in owners and (what := self._handed_on(node))
                ):
                    yield node.lineno, what
                owners |= {id(node.value)} if isinstance(node, ast.Attribute) else set()
            elif isinstance(node, ast.Call):
                called.add(id(node.func))
                yield from ((node.lineno, what) for what in self._call(node))
            elif isinstance(node, ast.Constant) and node.value in ("__builtins__", "__import__"):
                yield node.lineno, str(node.value)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.Import):
            modules = names
        elif node.level:
            modules = []
            if (found := self._relative(node.module or "", node.level)) not in self._own:
                yield f"imports {'.' * node.level}{node.module or ''}, which is no file of the folder"
        else:
            modules = [node.module or ""]
            for name in names:
                if name in _SIGNS or name in _OF.get(node.module or "", ()):
                    yield name
                elif f"{node.module}.{name}" in _BUT:
                    modules.append(f"{node.module}.{name}")
                elif name == "*" and node.module in _OF:
                    yield f"all names of {node.module}"
        for found in modules:
            if not self._is_known(found):
                yield f"imports {found}, which is not known to execute nothing"

    def _relative(self, module: str, level: int) -> str | None:
        parts = self._source.module.split(".") if self._source.module else []
        up = level - 1 if self._source.is_package else level
        if up > len(parts):
            return None
        return ".".join([*parts[: len(parts) - up], *([module] if module else [])])

    def _is_known(self, module: str) -> bool:
        above = {module[:i] for i, c in enumerate(module) if c == "."} | {module}
        if above & _BUT:
            return False
        return bool(above & _KNOWN) or module in self._own

    def _named(self, node: ast.Name | ast.Attribute) -> str:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in _SIGNS or (isinstance(node, ast.Name) and name in _BUILT_IN):
            return name
        for dotted in _resolved(node, self._aliases):
            owner, _, last = dotted.rpartition(".")
            if last in _OF.get(owner.rpartition(".")[2], ()) or dotted in _BUT:
                return last
            if last == "__dict__" and owner in self._modules():
                return f"the names of {owner}"
        return ""

    def _handed_on(self, node: ast.Name | ast.Attribute) -> str:
        """What is used as a value, where its names would be used unseen."""
        if isinstance(node, ast.Name) and node.id == "getattr":
            return "getattr that is not called at once"
        found = _resolved(node, self._aliases) & set(_OF) if isinstance(node.ctx, ast.Load) else set()
        return f"{min(found)} handed on" if found else ""

    def _call(self, node: ast.Call) -> Iterator[str]:
        functions = {dotted.rpartition(".")[2] for dotted in _resolved(node.func, self._aliases)}
        if functions & set(_BY_NAME):
            given = node.args[1:2] if "getattr" in functions else node.args
            texts = [arg.value if isinstance(arg, ast.Constant) else None for arg in given]
            if not given or not all(isinstance(text, str) for text in texts):
                yield "an attribute whose name is not constant"
            for text in texts:
                if isinstance(text, str) and set(text.split(".")) & (_SIGNS | _BUILT_IN | _OF_OS):
                    yield text
        if "vars" in functions and node.args:
            yield from (f"the names of {m}" for m in _resolved(node.args[0], self._aliases) if m in self._modules())
        made = [dotted for f in (node.func, *node.args) for dotted in _resolved(f, self._aliases)]
        is_bundle = any(dotted.rpartition(".")[2] == "bundle" for dotted in made)
        for keyword in node.keywords:
            false = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if is_bundle and keyword.arg in ("trainable", None) and not false:
                yield "a bundle whose code is trained"
            elif keyword.arg in _KEYWORDS and not false:
                yield _KEYWORDS[keyword.arg]
            elif keyword.arg == "entry_point" and isinstance(keyword.value, ast.Constant):
                yield "an import by name"
        name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
        if "make" in functions and isinstance(name, str) and ":" in name:
            yield "an import by name"

    def _modules(self) -> set[str]:
        return {dotted for found in self._aliases.values() for dotted in found if dotted in _KNOWN}


def _imported(tree: ast.Module) -> Iterator[ast.AST]:
    """What is not under ``if __name__ == "__main__"`` of the top level, in a file that leaves the name alone."""
    bound = any(
        (isinstance(n, ast.Name) and n.id == "__name__" and not isinstance(n.ctx, ast.Load))
        or (isinstance(n, ast.alias) and n.asname == "__name__")
        for n in ast.walk(tree)
    )
    for node in tree.body:
        if isinstance(node, ast.If) and not bound and _asks_for_main(node.test):
            yield from node.orelse
        else:
            yield node


def _asks_for_main(test: ast.expr) -> bool:
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return False
    sides = [test.left, *test.comparators]
    return sorted(ast.unparse(side) for side in sides) == ["'__main__'", "__name__"]


def _aliases(trees: list[ast.Module]) -> dict[str, set[str]]:
    """What names and attributes stand for, as far as imports and assignments of these files say it: dotted names."""
    found: dict[str, set[str]] = defaultdict(set)
    assigned: list[tuple[str, ast.expr]] = []
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            for name, origin in source_scan.imported(node):
                found[name].add(origin)
        elif isinstance(node, ast.ImportFrom):
            assigned += [(a.asname, ast.Name(a.name, ast.Load())) for a in node.names if a.asname]
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                assigned += [(name, node.value) for name in [_last(target)] if name]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            assigned += [(name, node.value) for name in [_last(node.target)] if name]
    plain = [(name, value) for name, value in assigned if isinstance(value, ast.Name | ast.Attribute)]
    for _ in range(_STEPS):
        for name, value in plain:
            roots = {d for d in _resolved(value, found) if d.count(".") < _DOTS}
            found[name] |= {d for d in roots if d.partition(".")[0] in (*_KNOWN, "getattr", "vars")}
    return {name: dotted for name, dotted in found.items() if dotted}


def _last(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _resolved(node: ast.AST, aliases: Mapping[str, set[str]]) -> set[str]:
    """The dotted names that a name or a chain of attributes may stand for; none for anything else."""
    root, trail = source_scan.chain(node)
    first = {root.id, *aliases.get(root.id, ())} if isinstance(root, ast.Name) else {""}
    for attribute in trail:
        first = {f"{dotted}.{attribute}" for dotted in first} | set(aliases.get(attribute, ()))
    return first - {""}
