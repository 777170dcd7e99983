"""A file of KernelBench, with constants of ours in place of its own."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from trace_bench.worker.problem import ProblemError


def parsed_constants(text: str) -> dict[str, Any]:
    """``{"dim": 256}`` of ``dim=256``.

    Raises:
        ProblemError: it is no such list.
    """
    try:
        call = ast.parse(f"dict({text})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise ProblemError(f"eval_kwargs.constants is {text!r}; write 'batch_size=16, dim=256'") from None


def with_constants(source: str, constants: Mapping[str, Any], place: str) -> str:
    """`source` with other values for names that its top level assigns a plain value to, on one line each.

    Raises:
        ProblemError: a name has no such assignment, or the source is not Python; `place` names the file.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ProblemError(f"{place}: is not Python: {error}") from error
    lines = source.splitlines(keepends=True)
    left = dict(constants)
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if name in left and node.lineno == node.end_lineno and _is_plain(value):
            line = lines[node.lineno - 1].encode()
            changed = line[: value.col_offset] + repr(left.pop(name)).encode() + line[value.end_col_offset :]
            lines[node.lineno - 1] = changed.decode()
    if left:
        raise ProblemError(
            f"{place}: assigns no plain value to {', '.join(sorted(left))}, which the sizes of this task change"
        )
    return "".join(lines)


def _is_plain(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
