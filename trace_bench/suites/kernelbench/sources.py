"""A file of KernelBench, with constants of ours in place of its own."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from trace_bench.worker.problem import ProblemError

MOST_BITS = 64
"""Size of a number that arithmetic can give. An exponent is at most that, so that no step takes long."""
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip


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
    """`source` with other values for names that its top level assigns a plain value to, or arithmetic of numbers
    (`number_of`), on one line each.

    Raises:
        ProblemError: a name has no such assignment, or the source is not Python; `place` names the file.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ProblemError(f"{place}: is not Python: {error}") from error
    lines = source.splitlines(keepends=True)
    left = dict(constants)
    numbers: dict[str, int | float] = {}
    edits: list[tuple[ast.expr, bytes]] = []
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        number = number_of(value, numbers)
        numbers.pop(name, None)
        numbers |= {} if number is None else {name: number}
        if name in left and node.lineno == node.end_lineno and (number is not None or _is_plain(value)):
            edits.append((value, repr(left.pop(name)).encode()))
    if left:
        raise ProblemError(
            f"{place}: assigns no plain value and no arithmetic of numbers to {', '.join(sorted(left))}, which "
            "the sizes of this task change"
        )
    for value, text in reversed(edits):  # columns before a change stay as they are
        line = lines[value.lineno - 1].encode()
        lines[value.lineno - 1] = (line[: value.col_offset] + text + line[value.end_col_offset :]).decode()
    return "".join(lines)


def number_of(value: ast.expr, names: Mapping[str, int | float]) -> int | float | None:
    """The number that an expression of numbers, `names` and the operators + - * / // % ** has. None for any other
    expression, and for a number beyond `MOST_BITS` bits.

    >>> number_of(ast.parse("N * 2 ** 3", mode="eval").body, {"N": 4})
    32
    """
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number if _is_small(number) else None
        case ast.Name(id=name):
            return names.get(name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            positive = number_of(operand, names)
            return -positive if positive is not None and isinstance(sign, ast.USub) else positive
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = number_of(left, names), number_of(right, names)
            if first is None or second is None or (isinstance(op, ast.Pow) and not 0 <= second <= MOST_BITS):
                return None
            try:
                result = _OPERATORS[type(op)](first, second)
            except ArithmeticError:
                return None
            return result if _is_small(result) else None
    return None


def _is_small(number: object) -> bool:
    """Whether a real number has at most `MOST_BITS` bits before its point."""
    return isinstance(number, int | float) and abs(number) < 1 << MOST_BITS


def _is_plain(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
