"""Problems in the formats of HumanEval and MBPP, with programs that are right and wrong."""

from __future__ import annotations

from typing import NamedTuple

from trace_bench.suites.hf.code_tests import CodeCase


class Written(NamedTuple):
    case: CodeCase
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def humaneval(entry: str, prompt: str, tests: str) -> CodeCase:
    return CodeCase(entry, prompt.lstrip("\n"), (f"\n\nMETADATA = {{'author': 'ours'}}\n\n{tests}",))


def mbpp(entry: str, prompt: str, *tests: str, setup: str = "") -> CodeCase:
    return CodeCase(entry, prompt, tests, setup, "mbpp")


INTERLEAVE = humaneval(
    "interleave",
    '''
from typing import List


def interleave(first: List[int], second: List[int]) -> List[int]:
    """ Return the items of both lists by turns, and then what is left of the longer one.
    >>> interleave([1, 2, 3], [9])
    [1, 9, 2, 3]
    """
''',
    """
def check(candidate):
    assert candidate([1, 2, 3], [9]) == [1, 9, 2, 3]
    assert candidate([], [4, 5]) == [4, 5]
    assert candidate([7], []) == [7], "one list is empty"
    assert candidate(first=[1], second=[2]) == [1, 2]
""",
)
UNPACK_RUNS = humaneval(
    "unpack_runs",
    '''
def pack_runs(text: str) -> list:
    """ Return each run of equal letters as a pair of the letter and its length. """
    runs = []
    for letter in text:
        if runs and runs[-1][0] == letter:
            runs[-1] = (letter, runs[-1][1] + 1)
        else:
            runs.append((letter, 1))
    return runs


def unpack_runs(runs: list) -> str:
    """ Return the text of which `pack_runs` made `runs`. """
''',
    """
def check(candidate):
    from random import Random
    drawn = Random(3)
    for _ in range(40):
        text = ''.join(drawn.choice('ab') for _ in range(drawn.randint(0, 30)))
        assert candidate(pack_runs(text)) == text
""",
)
EXTENT = humaneval(
    "extent",
    '''
from typing import Sequence, Tuple


def extent(values: Sequence[float]) -> Tuple[float, float]:
    """ Return the least and the largest of `values`; raise ValueError for none. """
''',
    """
def check(candidate):
    assert candidate([3, 1, 2]) == (1, 3)
    assert candidate((0.5,)) == (0.5, 0.5)
    assert candidate([float('inf'), -2.5]) == (-2.5, float('inf'))
    try:
        candidate([])
    except ValueError as error:
        assert 'no values' in str(error)
    else:
        assert False, 'nothing was raised'
""",
)
COMMON = humaneval(
    "common_letters",
    '''
from typing import Iterable, Set


def common_letters(words: Iterable[str]) -> Set[str]:
    """ Return the letters that are in every word. """
''',
    """
def check(candidate):
    assert candidate({'stone', 'notes'}) == set('notes')
    assert candidate(['ab', 'cd']) == set()
    assert candidate(w for w in ('on', 'no')) == {'n', 'o'}
    assert candidate(('abc', 'bcd')) == common_letters(['cb'])
""",
)
BY_LENGTH = humaneval(
    "by_length",
    '''
def by_length(words):
    """ Return a dict from each length to the words of that length, in order. """
''',
    """
def check(candidate):
    assert candidate(['a', 'bb', 'c']) == {1: ['a', 'c'], 2: ['bb']}
    assert candidate([]) == {}
""",
)
MEAN_GAP = humaneval(
    "mean_gap",
    '''
def mean_gap(times: list) -> float:
    """ Return the mean difference of two times in sequence; NaN where there are fewer than two. """
''',
    """
def check(candidate):
    assert abs(candidate([1.0, 2.0, 4.0]) - 1.5) < 1e-9
    nothing = candidate([1.0])
    assert nothing != nothing
""",
)
HALVES = mbpp(
    "halves",
    "Write a function that splits a list in the middle; the first half may be longer.",
    "assert halves([1, 2, 3]) == ([1, 2], [3])",
    "assert halves([]) == ([], [])",
    "assert halves(list(range(4))) == ([0, 1], [2, 3])",
)
RING = mbpp(
    "ring_area",
    "Write a function to find the area between two circles with one centre.",
    "assert math.isclose(ring_area(1, 2), 9.42477796076938, rel_tol=0.001)",
    "assert math.isclose(ring_area(0, 1), math.pi, rel_tol=0.001)",
    setup="import math",
)
SIZE = mbpp(
    "size_of",
    "Write a function to find how many bytes a tuple takes.",
    "assert size_of(()) == sys.getsizeof(())",
    "assert size_of((1, 2)) == sys.getsizeof((1, 2))",
)
LINES = mbpp(
    "long_lines",
    "Write a function that gives the lines of a text that have more than n letters, one by one.",
    'assert list(long_lines("""a\nbbb\n  cc""", 2)) == ["bbb",\n    "  cc"]',
    "assert set(long_lines('', 0)) == set()",
    "n = 1\nassert list(long_lines(f'''{n}2\n\\t{n}''', n)) == ['12', '\\t1']",
)
CHECK = mbpp(
    "check",
    "Write a function to check whether a word has a vowel.",
    "assert check('stone')",
    "assert not check('hmm')",
)
TURN = mbpp(
    "turn",
    "Write a function to turn a complex number by a right angle.",
    "assert turn(1j) == -1+0j",
    "assert turn({'x': 2, (1, 2): 1+1j}['x']) == 2j",
)

PROBLEMS = (
    Written(
        INTERLEAVE,
        (
            "    out = []\n    for i in range(max(len(first), len(second))):\n"
            "        out += first[i:i + 1] + second[i:i + 1]\n    return out\n",
            "```python\ndef interleave(first: List[int], second: List[int]) -> List[int]:\n"
            "    list = []\n    for i in range(max(len(first), len(second))):\n"
            "        list.extend(first[i:i + 1] + second[i:i + 1])\n    return list\n```",
        ),
        ("    return first + second\n", "    return tuple(first)\n", "    return None\n", "    return first[\n"),
    ),
    Written(
        UNPACK_RUNS,
        ("    return ''.join(letter * times for letter, times in runs)\n",),
        ("    return ''.join(letter for letter, times in runs)\n", "    return runs\n", "    return runs[0]\n"),
    ),
    Written(
        EXTENT,
        (
            "    if not values:\n        raise ValueError('no values')\n    return min(values), max(values)\n",
            "    class NoValues(ValueError): pass\n    if not values:\n        raise NoValues('there are no values')\n"
            "    from collections import namedtuple\n"
            "    return namedtuple('Extent', 'low high')(min(values), max(values))\n",
        ),
        (
            "    if not values:\n        raise ValueError('no values')\n    return [min(values), max(values)]\n",
            "    if not values:\n        raise KeyError('no values')\n    return min(values), max(values)\n",
            "    return (min(values), max(values)) if values else None\n",
            "    if not values:\n        raise SystemExit('no values')\n    return min(values), max(values)\n",
        ),
    ),
    Written(
        COMMON,
        (
            "    return set.intersection(*map(set, words))\n",
            "    return frozenset.intersection(*map(frozenset, words))\n",
        ),
        ("    return sorted(set.intersection(*map(set, words)))\n", "    return set().union(*words)\n"),
    ),
    Written(
        BY_LENGTH,
        (
            "    found = {}\n    for word in words:\n        found.setdefault(len(word), []).append(word)\n"
            "    return found\n",
            "    from collections import defaultdict\n    found = defaultdict(list)\n    for word in words:\n"
            "        found[len(word)].append(word)\n    return found\n",
        ),
        ("    return {str(len(word)): [word] for word in words}\n", "    return {len(word): word for word in words}\n"),
    ),
    Written(
        MEAN_GAP,
        (
            "    if len(times) < 2:\n        return float('nan')\n"
            "    return (times[-1] - times[0]) / (len(times) - 1)\n",
        ),
        ("    return (times[-1] - times[0]) / (len(times) - 1)\n", "    return float('nan')\n"),
    ),
    Written(
        HALVES,
        ("def halves(list):\n  n = (len(list) + 1) // 2\n  return list[:n], list[n:]",),
        ("def halves(list):\n  n = len(list) // 2\n  return list[:n], list[n:]", "halves = 3", "def other(): pass"),
    ),
    Written(
        RING,
        (
            "def ring_area(r, R):\n    return math.pi * (R * R - r * r)",  # the tests' imports are there
            "from decimal import Decimal\ndef ring_area(r, R):\n    return Decimal('3.14159') * (R * R - r * r)",
            "from fractions import Fraction\ndef ring_area(r, R):\n    return Fraction(355, 113) * (R * R - r * r)",
        ),
        ("def ring_area(r, R):\n    return 3 * (R - r)",),
    ),
    Written(
        SIZE,
        ("import sys\nsize_of = sys.getsizeof", "size_of = lambda a: a.__sizeof__() + 16"),
        ("def size_of(a): return sys.getsizeof(a)", "def size_of(a): return len(a)"),
    ),
    Written(
        LINES,
        (
            "def long_lines(text, n):\n  for line in text.split('\\n'):\n    if len(line) > n:\n      yield line",
            "def long_lines(text, n): return filter(lambda line: len(line) > n, text.splitlines())",
            "from collections import deque\ndef long_lines(text, n):\n"
            "  return deque(l for l in text.splitlines() if len(l) > n)",
            "def long_lines(text, n): return {l: 0 for l in text.splitlines() if len(l) > n}.keys()",
        ),
        (
            "def long_lines(text, n): return text.splitlines()",
            "def long_lines(text, n):\n  yield 1\n  raise ValueError",
        ),
    ),
    Written(
        CHECK,
        ("import re\ndef check(word): return re.search('[aeiou]', word)",),
        ("def check(word): return True", "import re\ndef check(word): return re.compile(word)"),
    ),
    Written(TURN, ("def turn(z): return z * 1j",), ("def turn(z): return z", "def turn(z): return [z * 1j]")),
)
