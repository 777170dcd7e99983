"""How far two states are apart, from 0 (equal) to 1, by the type of each parameter.

Each distance has the form ``x / (x + s)``: x is what changed, and s how much of it gives 0.5. So 0.1, the default of
POLCA's ``epsilon``, is a ninth of s.

| parameter | x | s |
|---|---|---|
| number | the difference | 1 % of the width of its bounds; without bounds, of the larger magnitude |
| code | tokens that changed; comments and layout are no tokens | 4 tokens |
| code in which only numbers changed | the largest difference of two numbers | 1 % of the larger magnitude |
| text | words that changed | 10 % of the words of the longer text |

A token or word that moved counts where the order is all that changed, as one.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from trace_bench.worker.problem import Parameter, Value

TOKENS = 4.0
"""Changed tokens of a program that give a distance of 0.5."""
SHARE = 0.01
"""Part of a number's scale that gives a distance of 0.5."""
WORDS = 0.1
"""Changed part of a text's words that gives a distance of 0.5."""
_TOKEN = re.compile(
    r"""\#[^\n]*                                       # a comment
    | (?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")  # a string
    | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?             # a number
    | \w+
    | \*\*|//|==|!=|<=|>=|<<|>>|->|:=
    | [^\s\w]""",
    re.VERBOSE | re.DOTALL,
)


def state_distance(parameters: Sequence[Parameter], a: Mapping[str, Value], b: Mapping[str, Value]) -> float:
    """The largest distance of any of `parameters` between states `a` and `b`; 0 to 1."""
    return max((_of_values(p, a[p.name], b[p.name]) for p in parameters), default=0.0)


def _of_values(parameter: Parameter, a: Value, b: Value) -> float:
    if a == b:
        return 0.0
    if isinstance(a, str) or isinstance(b, str):
        return code_distance(str(a), str(b)) if parameter.kind == "code" else text_distance(str(a), str(b))
    low, high = parameter.bounds or (0.0, max(abs(a), abs(b)))
    return number_distance(float(a), float(b), float(high) - float(low))


def number_distance(a: float, b: float, scale: float) -> float:
    """Distance of two numbers that are measured on a scale of the width `scale`."""
    return _saturated(abs(a - b), SHARE * scale)


def text_distance(a: str, b: str) -> float:
    """Distance of two texts in words."""
    left, right = a.split(), b.split()
    if left == right:
        return 0.0
    return _saturated(_edits(left, right), WORDS * max(len(left), len(right)))


@functools.lru_cache(maxsize=1 << 14)
def code_distance(a: str, b: str) -> float:
    """Distance of two programs in tokens, or in the numbers that they hold where nothing else differs."""
    left, right = _tokens(a), _tokens(b)
    if left == right:
        return 0.0
    if len(left) == len(right):
        changed = [(x, y) for x, y in zip(left, right, strict=True) if x != y]
        if all(_is_number(x) and _is_number(y) for x, y in changed):
            pairs = [(float(x), float(y)) for x, y in changed]
            return max(number_distance(x, y, max(abs(x), abs(y))) for x, y in pairs)
    return _saturated(_edits(left, right), TOKENS)


@functools.lru_cache(maxsize=4096)
def _tokens(source: str) -> tuple[str, ...]:
    """The tokens of a program. A search compares each program with every other, so they are kept."""
    return tuple(token for token in _TOKEN.findall(source) if not token.startswith("#"))


def _is_number(token: str) -> bool:
    return token[0].isdigit() or (token[0] == "." and len(token) > 1)


def _edits(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items changed from `left` to `right`: the larger number of items that one has and the other lacks.

    1 where they are the same in another order. It takes linear time, since a proposal may be of any length.
    """
    gone, new = Counter(left), Counter(right)
    return max((gone - new).total(), (new - gone).total(), 1)


def _saturated(x: float, scale: float) -> float:
    return x / (x + scale) if x else 0.0
