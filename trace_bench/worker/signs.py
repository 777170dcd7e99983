"""What in a candidate's source honest programs seldom need: a lint for readers of the scores, and no defence.

What a candidate can do is bounded by its process (``docs/design/worker.md``), whatever its source looks like. Signs
tell which sources are worth reading. They come from the syntax tree alone: nothing is executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from trace_bench.worker import source_scan
from trace_bench.worker.sentences import visible

KINDS = {
    "introspection": "looks at frames, modules, closures or other objects of the process that runs it",
    "patching": "replaces a part of an imported module or of the builtins",
    "files": "opens files, or names folders of the system",
    "processes": "starts processes or threads, sends signals, or acts at the end of its process",
    "descriptors": "reads, writes or copies raw file descriptors",
    "network": "uses the network",
    "exit": "ends its own process",
    "dynamic_code": "runs or assembles code that the source does not show",
    "native": "calls native code or maps memory",
    "odd_types": "defines types that pose as numbers, texts or containers",
}
"""Every kind of sign by its word, as a sentence about the source."""

LIMIT = 40
"""Signs of one source; the first ones are kept."""
_TEXT = 200


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MODULES = {
    "introspection": _words("gc inspect dis tracemalloc traceback pdb bdb"),
    "patching": _words("builtins unittest"),
    "files": _words("pathlib shutil tempfile glob fileinput zipfile tarfile linecache sqlite3 dbm shelve h5py"),
    "processes": _words(
        "subprocess multiprocessing threading _thread concurrent asyncio signal atexit pty resource _posixsubprocess"
    ),
    "descriptors": _words("fcntl select selectors termios"),
    "network": _words(
        "socket _socket ssl http urllib urllib3 ftplib smtplib imaplib poplib telnetlib xmlrpc socketserver "
        "requests httpx aiohttp websockets openai anthropic litellm"
    ),
    "dynamic_code": _words(
        "importlib imp runpy pkgutil code codeop marshal pickle _pickle dill cloudpickle base64 binascii "
        "codecs zipimport"
    ),
    "native": _words("ctypes _ctypes cffi mmap cython Cython pyximport"),
}
_MEMBERS = {
    "introspection": _words(
        "sys._getframe sys._current_frames sys.modules sys.settrace sys.setprofile sys.meta_path sys.path "
        "sys.path_hooks sys.exc_info sys.addaudithook sys.monitoring builtins.globals builtins.locals "
        "builtins.vars builtins.dir builtins.__builtins__ builtins.__loader__ builtins.__spec__"
    ),
    "files": _words(
        "builtins.open io.open io.FileIO io.open_code os.open os.listdir os.scandir os.walk os.fwalk "
        "os.remove os.unlink os.rename os.replace os.mkdir os.makedirs os.rmdir os.link os.symlink "
        "os.readlink os.chdir os.chmod os.truncate os.mkfifo os.stat os.environ numpy.save numpy.savez "
        "numpy.load numpy.fromfile numpy.memmap numpy.loadtxt numpy.savetxt numpy.genfromtxt scipy.io "
        "os.setxattr"
    ),
    "processes": _words(
        "os.fork os.forkpty os.kill os.killpg os.system os.popen os.setsid os.setpgid os.setpgrp os.nice "
        "os.posix_spawn os.posix_spawnp os.register_at_fork os.wait os.waitpid os.wait3 os.wait4 os.waitid "
        "os.sched_setaffinity os.pidfd_open sys.setswitchinterval"
    ),
    "descriptors": _words(
        "os.read os.write os.dup os.dup2 os.close os.closerange os.pipe os.pipe2 os.fdopen os.sendfile "
        "os.lseek os.readv os.writev os.pread os.pwrite os.preadv os.pwritev os.set_inheritable "
        "os.set_blocking os.splice os.memfd_create os.eventfd socket.socket.fileno socket.fromfd "
        "socket.socketpair socket.send_fds socket.recv_fds"
    ),
    "exit": _words("sys.exit os._exit os.abort builtins.quit builtins.exit builtins.SystemExit"),
    "dynamic_code": _words(
        "builtins.exec builtins.eval builtins.compile builtins.__import__ types.FunctionType types.CodeType "
        "types.ModuleType types.LambdaType"
    ),
    "native": _words(
        "multiprocessing.shared_memory numpy.ctypeslib numpy.lib.stride_tricks numpy.frompyfunc numpy.f2py "
        "scipy.LowLevelCallable"
    ),
}
_KIND_OF_MODULE = {name: kind for kind, names in _MODULES.items() for name in names}
_KIND_OF_MEMBER = {name: kind for kind, names in _MEMBERS.items() for name in names}
_INNER = _words(
    "f_back f_locals f_globals f_builtins f_code gi_frame cr_frame ag_frame tb_frame tb_next __globals__ "
    "__closure__ __code__ __subclasses__ __bases__ __base__ __mro__ mro __dict__ __builtins__ "
    "__traceback__ __self__ __func__ __wrapped__ __loader__ __spec__ __getattribute__ cell_contents "
    "co_consts co_code __import__ __defaults__"
)
_BASES = _words(
    "int float complex bool str bytes bytearray list tuple dict set frozenset BaseException KeyboardInterrupt"
)
_POSING_MODULES = _words("numpy numbers array decimal fractions")
_POSING_COLLECTIONS = _words("UserDict UserList UserString OrderedDict defaultdict Counter ChainMap deque abc")
_POSING_METHODS = _words(
    "__eq__ __ne__ __float__ __int__ __index__ __complex__ __bool__ __reduce__ __reduce_ex__ __getstate__ "
    "__setstate__ __array__ __array_ufunc__ __array_function__ __array_interface__ __array_struct__ "
    "__array_finalize__ __array_wrap__ __array_priority__ __class__ __getattribute__ __getattr__ __del__ "
    "__instancecheck__ __subclasscheck__ __init_subclass__ __set_name__ __round__ __format__ __buffer__"
)
_PLACES = re.compile(r"(?<![\w.])/(?:proc|sys|dev|out|tmp|run|etc|root|home|opt)(?![\w.])")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def signs_of(source: str) -> list[dict[str, Any]]:
    """Signs in `source`: ``[{"kind", "line", "text"}]`` by line, each kind once per line, at most `LIMIT`.

    A source that does not parse has none: it does not run either.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    except (RecursionError, MemoryError) as error:
        return [{"kind": "dynamic_code", "line": None, "text": f"the source cannot be parsed: {type(error).__name__}"}]
    lines = re.split("\r\n|\r|\n", source)  # as the parser counts them
    found = sorted({(line, kind) for kind, line in _Reader(tree).signs()})
    return [
        {"kind": kind, "line": line, "text": visible(lines[line - 1].strip())[:_TEXT] if line <= len(lines) else ""}
        for line, kind in found[:LIMIT]
    ]


class _Reader:
    """Walks a tree with a stack of its own, however deep it is.

    Names are followed through imports and through ``x = os``. A name that a function binds itself is not taken for an
    import of the same name.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names: dict[str, str] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._names.update(source_scan.imported(node))
        self._aliases: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                origin = self._origin(node.value, frozenset())
                if origin is not None and not origin.startswith("builtins."):
                    self._names.setdefault(node.targets[0].id, origin)
                    self._aliases.add(node.targets[0].id)

    def signs(self) -> Iterator[tuple[str, int]]:
        """``(kind, line)``, in no order."""
        left: list[tuple[ast.AST, frozenset[str]]] = [(self._tree, frozenset())]
        while left:
            node, bound = left.pop()
            if isinstance(node, _Function):
                bound |= self._bound_by(node)
            line = getattr(node, "lineno", 1)
            for kind in self._kinds(node, bound):
                yield kind, line
            left += [(child, bound) for child in ast.iter_child_nodes(node)]

    def _bound_by(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
        spec = function.args
        names = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
        names |= {a.arg for a in (spec.vararg, spec.kwarg) if a is not None}
        shared: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self._aliases:
                names.add(node.id)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                shared.update(node.names)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                shared.update(name for name, _ in source_scan.imported(node))
        return frozenset(names - shared)

    def _origin(self, node: ast.AST, bound: frozenset[str]) -> str | None:
        """``os.path.join`` for an expression that is one; builtins by their full name."""
        root, trail = source_scan.chain(node)
        if not isinstance(root, ast.Name) or root.id in bound:
            return None
        start = self._names.get(root.id, f"builtins.{root.id}")
        if start == "builtins.__builtins__" and trail:
            start = "builtins"
        return ".".join([start, *trail])

    def _kinds(self, node: ast.AST, bound: frozenset[str]) -> Iterator[str]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                yield from _kind_of(module + alias.name)
        elif isinstance(node, ast.Name):
            origin = self._origin(node, bound)
            if isinstance(node.ctx, ast.Load) and origin is not None:
                yield from _kind_of(origin)
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(node, bound)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if self._is_imported(node.value, bound):
                yield "patching"
        elif isinstance(node, ast.Call):
            yield from self._of_call(node, bound)
        elif isinstance(node, ast.ClassDef):
            yield from self._of_class(node, bound)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if _PLACES.search(text):
                yield "files"
            if text in _INNER:
                yield "introspection"

    def _of_attribute(self, node: ast.Attribute, bound: frozenset[str]) -> Iterator[str]:
        if node.attr in _INNER:
            yield "introspection"
        if node.attr == "fileno":
            yield "descriptors"
        if node.attr in ("ctypes", "as_strided"):
            yield "native"
        if node.attr in ("tofile", "dump"):
            yield "files"
        if not isinstance(node.ctx, ast.Load):
            if node.attr == "__class__":
                yield "odd_types"
            if self._is_imported(node.value, bound):
                yield "patching"
            return
        origin = self._origin(node, bound)
        if origin is not None:
            yield from _kind_of(origin)

    def _is_imported(self, node: ast.AST, bound: frozenset[str]) -> bool:
        """True for a module, a member of one, or the builtins; not for an item or the result of a call."""
        while isinstance(node, ast.Subscript):
            node = node.value
        root, _ = source_scan.chain(node)
        if not isinstance(root, ast.Name) or root.id in bound:
            return False
        return root.id in self._names or root.id == "__builtins__"

    def _of_call(self, node: ast.Call, bound: frozenset[str]) -> Iterator[str]:
        called = self._origin(node.func, bound)
        if called in ("builtins.getattr", "builtins.setattr", "builtins.delattr") and len(node.args) >= 2:
            name = node.args[1]
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                yield "dynamic_code"
            elif self._is_imported(node.args[0], bound):
                origin = self._origin(node.args[0], bound)
                yield from _kind_of(f"{origin}.{name.value}")
            if called != "builtins.getattr" and self._is_imported(node.args[0], bound):
                yield "patching"
        elif called == "builtins.type" and len(node.args) == 3:
            yield "odd_types"
        elif called == "builtins.dir" or called == "builtins.vars":
            yield "introspection"
        if any(word.arg == "fileno" for word in node.keywords):
            yield "descriptors"

    def _of_class(self, node: ast.ClassDef, bound: frozenset[str]) -> Iterator[str]:
        if any(word.arg == "metaclass" for word in node.keywords) or any(self._poses(b, bound) for b in node.bases):
            yield "odd_types"
        for inner in node.body:
            names = []
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [inner.name]
            elif isinstance(inner, ast.Assign):
                names = [t.id for t in inner.targets if isinstance(t, ast.Name)]
            if _POSING_METHODS.intersection(names):
                yield "odd_types"

    def _poses(self, base: ast.expr, bound: frozenset[str]) -> bool:
        origin = self._origin(base, bound) or ""
        module, _, name = origin.partition(".")
        if module == "builtins":
            return name in _BASES
        if module == "collections":
            return name.partition(".")[0] in _POSING_COLLECTIONS
        return module in _POSING_MODULES


def _kind_of(origin: str) -> Iterator[str]:
    """Kinds of a dotted name: by its module, and by the longest member that is known."""
    module = origin.partition(".")[0]
    if module in _KIND_OF_MODULE and module != "builtins":
        yield _KIND_OF_MODULE[module]
    elif origin == "builtins":
        yield "patching"
    if module == "os" and origin.startswith(("os.exec", "os.spawn")):
        yield "processes"
    name = origin
    while name:
        if name in _KIND_OF_MEMBER:
            yield _KIND_OF_MEMBER[name]
            return
        name = name.rpartition(".")[0]
