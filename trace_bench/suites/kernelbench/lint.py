"""Whether a kernel is written from scratch, by the look of its source. A remark, and no defence."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trace_bench.worker import source_scan

_NO_COMPUTING = frozenset({
    "arange", "as_tensor", "cat", "device", "empty", "empty_like", "empty_strided", "enable_grad", "full", "full_like",
    "inference_mode", "is_tensor", "manual_seed", "no_grad", "ones", "ones_like", "rand", "rand_like", "randn",
    "randn_like", "set_grad_enabled", "stack", "tensor", "zeros", "zeros_like",
})  # fmt: skip
"""Functions of torch that make or join tensors. Nothing else of it is allowed."""
_METHODS = frozenset({
    "add", "addmm", "amax", "amin", "argmax", "argmin", "baddbmm", "bmm", "cumprod", "cumsum", "div", "exp", "log",
    "log_softmax", "logsumexp", "matmul", "mean", "mm", "mul", "mv", "norm", "pow", "prod", "relu", "rsqrt", "sigmoid",
    "softmax", "sqrt", "std", "sub", "sum", "tanh", "var",
})  # fmt: skip
"""Methods of tensors that compute, without the underscore of those that do it in place."""


def is_from_scratch(source: str) -> bool:
    """Whether no operator of PyTorch computes in the methods and functions of `source`, ``__init__`` left out: what it
    computes, it computes in a language of kernels. Arithmetic with ``+``, ``*`` and the like is not looked at."""
    tree = source_scan.parse(source)
    if tree is None:
        return False
    own = dict(_names_of_torch(tree))
    layers = set(_layers(tree, own))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
    bodies = [node for function in functions if not _is_kernel(function) for node in ast.walk(function)]
    return bool(functions) and not any(_computes(node, own, layers) for node in bodies)


def _names_of_torch(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What is bound to torch, or to a part of it."""
    for node in ast.walk(tree):
        for name, origin in source_scan.imported(node):
            if origin.partition(".")[0] == "torch":
                yield name, origin


def _is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Triton compiles it: ``tl.sum`` is no operator of PyTorch."""
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _layers(tree: ast.Module, own: dict[str, str]) -> Iterator[str]:
    """``self.linear`` of ``self.linear = nn.Linear(…)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = _called(node.value, own)
            if name.startswith("torch.nn.") and not name.endswith("Parameter"):
                yield from map(ast.unparse, node.targets)


def _called(node: ast.Call, own: dict[str, str]) -> str:
    """The full name of what is called, as far as that is a name of torch."""
    first, dot, rest = ast.unparse(node.func).partition(".")
    return f"{own.get(first, first)}{dot}{rest}"


def _computes(node: ast.AST, own: dict[str, str], layers: set[str]) -> bool:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.MatMult)
    if not isinstance(node, ast.Call):
        return False
    name = _called(node, own)
    if name.startswith("torch."):
        return name.removeprefix("torch.") not in _NO_COMPUTING
    if name.startswith("super(") or name in layers:
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr.rstrip("_") in _METHODS
