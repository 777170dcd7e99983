"""C++ and CUDA that a kernel hands to `torch.utils.cpp_extension.load_inline`, found in its source without running it.

The judge builds it (`trace_bench.suites.kernelbench.build`) before a process of the kernel starts, and the call returns
what was built. So the arguments of the call must be text that stands in the source.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.worker import source_scan
from trace_bench.worker.problem import CandidateError

MODULE = "trace_bench_extension"
"""Name of the Python module that a library is built as."""

_PARAMETERS = (
    "name", "cpp_sources", "cuda_sources", "sycl_sources", "functions", "extra_cflags", "extra_cuda_cflags",
    "extra_sycl_cflags", "extra_ldflags", "extra_include_paths", "build_directory", "verbose", "with_cuda", "with_sycl",
    "is_python_module", "with_pytorch_error_handling", "keep_intermediates", "use_pch", "no_implicit_headers",
)  # fmt: skip
_UNUSED = ("name", "build_directory", "verbose", "keep_intermediates", "use_pch")
"""Nothing of what is built depends on these."""
_FLAGS = {
    "extra_cflags": re.compile(
        r"-(O([0-3gs]|fast)?|std=(c|gnu)\+\+\d[\da-z]|m[\w.+-]+(=[\w.+-]+)?|f[\w-]+|[DU]\w+(=[\w.]*)?|W[\w-]*|g|pthread)"
    ),
    "extra_cuda_cflags": re.compile(
        r"-(O[0-3]|std=c\+\+\d[\da-z]|[DU]\w+(=[\w.]*)?|-?use_fast_math|-?expt-(relaxed-constexpr|extended-lambda)"
        r"|-?extra-device-vectorization|-?(maxrregcount|ftz|fmad|prec-div|prec-sqrt|default-stream)=[\w-]+"
        r"|lineinfo|-generate-line-info|-?(arch|gpu-architecture|gpu-code)=[\w,]+"
        r"|-?(gencode|generate-code)(=arch=[\w]+,code=[\w,]+)?)|arch=\w+,code=\w+"
    ),
}
"""Flags that name no file: any other one could have a compiler read, load or write what it should not."""
_ARCHITECTURE = re.compile(r"-?-?(arch|gpu-architecture|gencode|generate-code)(=|$)")
_USUAL = {
    "extra_cflags": "-O…, -m…, -f…, -D… and -std=…",
    "extra_cuda_cflags": "-O…, -D…, -std=…, -arch=…, -gencode=…, --use_fast_math, --expt-… and -maxrregcount=…",
}
_MOST = 1 << 20
"""Characters of a source, and of all arguments with the texts that they are put together from. Both are looked at in
the judge's process, whose memory a kernel must not fill."""


@dataclass(frozen=True)
class Extension:
    """One library: its C++, its CUDA if it has some, and flags of each compiler."""

    source: str
    flags: tuple[str, ...]
    cuda: str = ""
    cuda_flags: tuple[str, ...] = ()


def extension_of(source: str, architecture: str = "") -> Extension | None:
    """What the program `source` builds; None if it calls no `load_inline`, or is no Python.

    Args:
        architecture: of the GPU that it is for, as its compiler calls it (``sm_90``); empty for a CPU.

    Raises:
        CandidateError: it cannot be told, or not be built here; with the line.
    """
    if "load_inline" not in source:
        return None
    if len(source) > _MOST:
        raise CandidateError("compile", f"a kernel that calls load_inline has {_MOST} characters at most")
    tree = source_scan.parse(source)
    if tree is None:
        return None  # said when it is loaded
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "load_inline"]
    if not calls:
        return None
    if len(calls) > 1:
        raise _refused(calls[1], "load_inline is called again; give all C++ to one call")
    (call,) = calls
    arguments = _arguments(call, _Constants(tree))
    for name in ("cuda_sources", "with_cuda"):
        if arguments.get(name) and not architecture:
            raise _refused(call, f"load_inline is given {name}, and there is no GPU here; give it cpp_sources alone")
    if arguments.get("is_python_module") is False:
        raise _refused(call, "load_inline is asked for a library that is no module; leave is_python_module out")
    for name in ("sycl_sources", "with_sycl", "extra_ldflags", "extra_include_paths"):
        if arguments.get(name):
            raise _refused(call, f"load_inline is given {name}; only C++ and flags of the compiler can be built here")
    flags, cuda_flags = (_flags(call, arguments, name) for name in _FLAGS)
    texts = ["\n".join(_parts(call, arguments)), "\n".join(_cuda_parts(call, arguments))]
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _refused(call, f"what load_inline is to build is no text: {error}") from error
    if not texts[1]:
        return Extension(texts[0], flags)
    if not any(map(_ARCHITECTURE.match, cuda_flags)):
        cuda_flags = (*cuda_flags, f"-arch={architecture}")
    return Extension(texts[0], flags, texts[1], cuda_flags)


def _flags(call: ast.Call, arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    flags = _texts(call, arguments, name)
    for flag in flags:
        if not _FLAGS[name].fullmatch(flag):
            raise _refused(call, f"the compiler's flag {flag!r} is not allowed; use {_USUAL[name]} only")
    return flags


def _cuda_parts(call: ast.Call, arguments: Mapping[str, Any]) -> list[str]:
    """As `load_inline` puts them together; empty without any."""
    parts = list(_texts(call, arguments, "cuda_sources"))
    if parts and not arguments.get("no_implicit_headers"):
        parts[:0] = [f"#include <{header}>" for header in ("torch/types.h", "cuda.h", "cuda_runtime.h")]
    return parts


def _parts(call: ast.Call, arguments: Mapping[str, Any]) -> list[str]:
    """As `load_inline` puts it together."""
    parts = list(_texts(call, arguments, "cpp_sources"))
    if not arguments.get("no_implicit_headers"):
        parts.insert(0, "#include <torch/extension.h>")
    functions = arguments.get("functions")
    if functions is not None:
        names = (
            functions if isinstance(functions, dict) else {name: name for name in _texts(call, arguments, "functions")}
        )
        wrapped = "torch::wrap_pybind_function({})" if arguments.get("with_pytorch_error_handling", True) else "{}"
        parts.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {")
        parts += [f'm.def("{name}", {wrapped.format(name)}, "{doc}");' for name, doc in names.items()]
        parts.append("}")
    return parts


def _arguments(call: ast.Call, constants: _Constants) -> dict[str, Any]:
    given: dict[str, ast.expr] = dict(zip(_PARAMETERS, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            raise _refused(call, "load_inline is called with **; write its arguments out")
        given[keyword.arg] = keyword.value
    if unknown := sorted(given.keys() - set(_PARAMETERS)):
        raise _refused(call, f"load_inline has no argument {unknown[0]!r}")
    found = {}
    for name, node in given.items():
        if name in _UNUSED:
            continue
        try:
            found[name] = constants.value(node)
        except (ValueError, RecursionError):
            said = f"{name} of load_inline must stand in the source as text, or be a name that is assigned text once"
            raise _refused(node, f"{said}; {_MOST} characters in all") from None
    return found


def _texts(call: ast.Call, arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = arguments.get(name)
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise _refused(call, f"{name} of load_inline must be text, or a list of texts")
    return tuple(texts)


class _Constants:
    """Values of expressions that are made of constants and of names that the module assigns once."""

    def __init__(self, tree: ast.Module) -> None:
        names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
        counts = Counter(name.id for name in names if not isinstance(name.ctx, ast.Load))
        self._left = _MOST
        self._assigned: dict[str, ast.expr] = {}
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if counts[name] == 1:
                    self._assigned[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if counts[name] == 1:
                    self._assigned[name] = value

    def value(self, node: ast.expr) -> Any:
        """Raises ValueError if it is another expression, or too large; RecursionError if it is too deep."""
        match node:
            case ast.Constant(value=value):
                return self._paid(value)
            case ast.Name(id=name) if name in self._assigned:
                return self.value(self._assigned[name])
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._paid([self.value(item) for item in items])
            case ast.Dict(keys=keys, values=values):
                names = [self.value(key) for key in keys if key is not None]
                if len(names) == len(keys) and all(isinstance(name, str) for name in names):
                    return dict(zip(names, map(self.value, values), strict=True))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, two = self.value(left), self.value(right)
                if type(one) is type(two) and isinstance(one, str | list):
                    return self._paid(one + two)
        raise ValueError

    def _paid(self, value: Any) -> Any:
        """`value`, if it is not too much. A name that doubles another, thirty times over, would fill the memory."""
        self._left -= 1 + (len(value) if isinstance(value, str | list) else 0)
        if self._left < 0:
            raise ValueError
        return value


def _name(function: ast.expr) -> str | None:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _refused(node: ast.expr, message: str) -> CandidateError:
    return CandidateError("compile", message, line=node.lineno)
