"""What the annotations and assertions of a Python program say in Lean: a template, and tests as pairs of terms.

``def f(xs: list[int]) -> int`` becomes ``def f (xs : List Int) : Int := sorry``, and ``assert f([1, 2]) == 3`` the pair
``Program.f [1, 2]`` and ``(3 : Int)``. VeriBench asserts in a function that gets the one under test as an argument
(``check(candidate)``), also in loops over lists of values; both are followed. Floats, sets, dicts and classes have no
equality that Lean decides, or no counterpart, and are left out.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from trace_bench.suites.veribench.source import REFUSED

NAMESPACE = "Program"
"""Around the template: names of Python, such as `max`, would meet those of Lean."""
MOST_CASES = 40
"""Of one program; what is more is left out."""
_LONGEST = 20_000
"""Characters of a value. A name may stand for a value that holds others, so that a short program has a huge one."""
_SIMPLE = {"int": "Int", "bool": "Bool", "str": "String"}
_LISTS = frozenset({"list", "List", "Sequence"})
_TUPLES = frozenset({"tuple", "Tuple"})
_KEYWORDS = re.compile(
    r"abbrev|at|attribute|by|calc|deriving|do|end|example|export|extends|fun|have|include|inductive|infix|instance|let"
    r"|local|match|mut|mutual|nomatch|noncomputable|omit|open|private|protected|rec|scoped|section|show|structure"
    r"|suffices|then|theorem|this|universe|using|variable|where|Type|Prop|Sort"
)


class Untestable(Exception):
    """No test comes out of a program; the message says why."""


class Asserted(NamedTuple):
    """A program without its tests, and what they say in Lean.

    Attributes:
        defines: full names of the functions that are tested.
        cases: a call and its value each.
    """

    program: str
    defines: Sequence[str]
    template: str
    cases: Sequence[tuple[str, str]]


class _Type(NamedTuple):
    """A type of Lean: one of `_SIMPLE`, or ``List``, ``Option`` or ``×`` with arguments."""

    head: str
    arguments: tuple[_Type, ...] = ()

    def __str__(self) -> str:
        if self.head == "×":
            return " × ".join(map(_Type.nested, self.arguments))
        return " ".join([self.head, *map(_Type.nested, self.arguments)])

    def nested(self) -> str:
        return f"({self})" if self.arguments else str(self)


class _Function(NamedTuple):
    parameters: Mapping[str, _Type]
    result: _Type


def asserted(program: str) -> Asserted:
    """What `program` says of its functions.

    Raises:
        Untestable: it is no Python, no function has types that Lean has too, or none of their calls is asserted.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Untestable(f"it is no Python that can be parsed ({error})") from None
    functions = dict(_functions(tree))
    if not functions:
        raise Untestable("no function has annotations with int, bool, str, lists, tuples and Optional alone")
    cases: dict[tuple[str, str], str] = {}
    tests = [node for node in tree.body if _is_test(node)]
    for function, arguments, value in _asserted(tests, functions, _passed(tree)):
        types = [*functions[function].parameters.values()]
        terms = [_term(argument, type_) for argument, type_ in zip(arguments, types, strict=True)]
        expected = _term(value, functions[function].result)
        if len(cases) == MOST_CASES:
            break
        if expected is not None and None not in terms:
            call = " ".join([f"{NAMESPACE}.{_name(function)}", *map(str, terms)])
            cases.setdefault((function, call), f"({expected} : {functions[function].result})")
    if not cases:
        raise Untestable("no assertion compares a call of an annotated function with a value that can be read")
    tested = {name: functions[name] for name, _ in cases}
    return Asserted(
        program=_without(program, tests),
        defines=[f"{NAMESPACE}.{_name(name)}" for name in tested],
        template="\n\n".join(
            [f"namespace {NAMESPACE}", *map(_declared, tested, tested.values()), f"end {NAMESPACE}\n"]
        ),
        cases=[(call, value) for (_, call), value in cases.items()],
    )


def _declared(name: str, function: _Function) -> str:
    parameters = "".join(f" ({_name(parameter)} : {type_})" for parameter, type_ in function.parameters.items())
    return f"def {_name(name)}{parameters} : {function.result} := sorry"


def _name(name: str) -> str:
    return f"{name}_" if _KEYWORDS.fullmatch(name) or name in REFUSED else name


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.args.vararg or node.args.kwarg:
            continue
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        types = {parameter.arg: _type(parameter.annotation) for parameter in parameters}
        result = _type(node.returns)
        known = {name: type_ for name, type_ in types.items() if type_ is not None}
        if result is not None and types and len(known) == len(types):
            yield node.name, _Function(known, result)


def _type(node: ast.expr | None) -> _Type | None:
    match node:
        case ast.Name(id=name) if name in _SIMPLE:
            return _Type(_SIMPLE[name])
        case ast.Constant(value=str(text)):
            try:
                return _type(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError):
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _of("Option", left)
        case ast.Subscript(value=ast.Name(id=head) | ast.Attribute(attr=head), slice=inner):
            if head in _LISTS:
                return _of("List", inner)
            if head == "Optional":
                return _of("Option", inner)
            if head in _TUPLES and isinstance(inner, ast.Tuple) and len(inner.elts) > 1:
                last = inner.elts[-1]
                if isinstance(last, ast.Constant) and last.value is ...:
                    return _of("List", inner.elts[0])
                return _of("×", *inner.elts)
    return None


def _of(head: str, *inner: ast.expr) -> _Type | None:
    found = tuple(type_ for each in inner if (type_ := _type(each)) is not None)
    return _Type(head, found) if len(found) == len(inner) else None


def _term(value: Any, type_: _Type) -> str | None:
    """`value` as a term of `type_`; None if it is no value of it."""
    match type_.head, value:
        case "Int", int() if not isinstance(value, bool):
            return f"({value})" if value < 0 else str(value)
        case "Bool", bool():
            return str(value).lower()
        case "String", str():
            return _text(value)
        case "Option", None:
            return "none"
        case "Option", _:
            inner = _term(value, type_.arguments[0])
            return None if inner is None else f"(some {inner})"
        case "List", list() | tuple():
            terms = [_term(each, type_.arguments[0]) for each in value]
            return None if None in terms else f"[{', '.join(map(str, terms))}]"
        case "×", tuple() if len(value) == len(type_.arguments):
            terms = [_term(each, inner) for each, inner in zip(value, type_.arguments, strict=True)]
            return None if None in terms else f"({', '.join(map(str, terms))})"
    return None


def _text(value: str) -> str | None:
    """`value` in quotes; None if UTF-8 cannot hold it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    shown = (named.get(c) or (c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else c) for c in value)
    return f'"{"".join(shown)}"'


def _is_test(node: ast.stmt) -> bool:
    """Whether a statement at the top of a module only tests: an assertion, a call, the main block, or a function that
    asserts what calls return."""
    if isinstance(node, ast.FunctionDef):
        calls = (call for inner in ast.walk(node) if isinstance(inner, ast.Assert) for call in ast.walk(inner.test))
        names = {argument.arg for argument in node.args.args}
        named = any(isinstance(c, ast.Call) and isinstance(c.func, ast.Name) and c.func.id in names for c in calls)
        return named or node.name.startswith("test")
    if isinstance(node, ast.If | ast.For):
        inner = [*ast.walk(node)]
        return any(
            isinstance(each, ast.Assert) or (isinstance(each, ast.Name) and each.id == "__name__") for each in inner
        )
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))


def _passed(tree: ast.Module) -> dict[str, list[str]]:
    """The functions that are arguments of others, by name of these: ``check(f)``."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.setdefault(node.func.id, [each.id if isinstance(each, ast.Name) else "" for each in node.args])
    return found


def _asserted(
    tests: Sequence[ast.stmt], functions: Mapping[str, _Function], passed: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[Any], Any]]:
    """``(function, arguments, value)`` of each assertion on a call with values that can be read."""
    for node in tests:
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            meant = dict(zip(names, passed.get(node.name, ()), strict=False))
            yield from _followed(node.body, functions, meant, {})
        else:
            yield from _followed([node], functions, {}, {})


def _followed(
    body: Sequence[ast.stmt], functions: Mapping[str, _Function], meant: Mapping[str, str], values: dict[str, Any]
) -> Iterator[tuple[str, list[Any], Any]]:
    for node in body:
        match node:
            case ast.Assert(test=test):
                if (found := _compared(test)) is not None:
                    call, other = found
                    name = call.func.id  # type: ignore[attr-defined]
                    function = functions.get(name := meant.get(name, name))
                    try:
                        if function is not None:
                            yield name, _bound(call, function, values), _value(other, values)
                    except (ValueError, TypeError, RecursionError, MemoryError):
                        continue  # of a value that is computed, nothing is known here
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                try:
                    values |= _named(target, _value(value, values))
                except (ValueError, TypeError, RecursionError, MemoryError):
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name):
                            values.pop(name.id, None)
            case ast.For(target=target, iter=iterated, body=inner):
                try:
                    for each in _value(iterated, values):
                        yield from _followed(inner, functions, meant, {**values, **_named(target, each)})
                except (ValueError, TypeError, RecursionError, MemoryError):
                    continue
            case ast.If(body=inner) | ast.With(body=inner):
                yield from _followed(inner, functions, meant, dict(values))


def _compared(test: ast.expr) -> tuple[ast.Call, ast.expr] | None:
    """The call of a named function and what it has to equal."""
    match test:
        case ast.Compare(left=ast.Call(func=ast.Name()) as call, ops=[ast.Eq() | ast.Is()], comparators=[other]):
            return call, other
        case ast.Compare(left=other, ops=[ast.Eq()], comparators=[ast.Call(func=ast.Name()) as call]):
            return call, other
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name()) as call):
            return call, ast.Constant(value=False)
        case ast.Call(func=ast.Name()):
            return test, ast.Constant(value=True)
    return None


def _bound(call: ast.Call, function: _Function, values: Mapping[str, Any]) -> list[Any]:
    """The arguments of `call` in the order of the parameters.

    Raises:
        ValueError: one is no value that can be read, or is left out.
    """
    given: list[Any] = []
    for each in call.args:
        given += _value(each.value, values) if isinstance(each, ast.Starred) else [_value(each, values)]
    named = {each.arg: _value(each.value, values) for each in call.keywords}
    names = [*function.parameters]
    if set(names[len(given) :]) != set(named) or len(given) + len(named) != len(names):
        raise ValueError("an argument is left out, or given twice")
    return given + [named[name] for name in names[len(given) :]]


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and names.

    Raises:
        ValueError, TypeError: it is computed, or too large.
    """
    value = ast.literal_eval(_Named(values).visit(deepcopy(node)))
    if len(repr(value)) > _LONGEST:
        raise ValueError("too large")
    return value


def _named(target: ast.expr, value: Any) -> dict[str, Any]:
    """What the names of an assignment's target stand for.

    Raises:
        ValueError: the target has another shape than the value.
    """
    match target:
        case ast.Name(id=name):
            return {name: value}
        case ast.Tuple(elts=targets) if isinstance(value, list | tuple) and len(targets) == len(value):
            found: dict[str, Any] = {}
            for each, part in zip(targets, value, strict=True):
                found |= _named(each, part)
            return found
    raise ValueError("no names that values can be given to")


class _Named(ast.NodeTransformer):
    """Puts known values in place of names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(value=self._values[node.id]) if node.id in self._values else node


def _without(program: str, dropped: Sequence[ast.stmt]) -> str:
    """The lines of `program` but those of statements."""
    lines = program.splitlines()
    gone = {line for node in dropped for line in range(_first_line(node), (node.end_lineno or node.lineno) + 1)}
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone).strip() + "\n"


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(each.lineno for each in decorators)])
