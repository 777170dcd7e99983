"""What in a source is told to whoever reads its scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.worker.signs import KINDS, LIMIT, signs_of

REPOSITORY = Path(__file__).parents[2]


def kinds(source: str) -> set[str]:
    return {sign["kind"] for sign in signs_of(source)}


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("introspection", "import gc\nfor o in gc.get_objects(): pass"),
        ("introspection", "import inspect as i\ni.stack()"),
        ("introspection", "from sys import _getframe as look\nlook(1)"),
        ("introspection", "from sys import modules as m\nm['numpy']"),
        ("introspection", "def f(x):\n    try: 1 / 0\n    except Exception as e: return e.__traceback__.tb_frame"),
        ("introspection", "().__class__.__base__.__subclasses__()"),
        ("introspection", "def f(x): return f.__globals__"),
        ("introspection", "x = getattr(f, '__closure__')"),
        ("introspection", "globals()['x'] = 1"),
        ("introspection", "__builtins__['len']"),
        ("patching", "import numpy as np\nnp.sum = lambda *a: 9.0"),
        ("patching", "import math\nmath.__dict__['pi'] = 3"),
        ("patching", "import sys\nsys.modules['math'] = None"),
        ("patching", "import numpy as np\nsetattr(np, 'sum', min)"),
        ("patching", "import builtins\nbuiltins.len = max"),
        ("patching", "import numpy as np\ndel np.linalg.norm"),
        ("patching", "import random\ndef f(x):\n    random.random = lambda: 0.5"),
        ("files", "open('data.txt')"),
        ("files", "import os as x\nx.open('a', 0)"),
        ("files", "from pathlib import Path"),
        ("files", "import shutil"),
        ("files", "x = '/proc/self/mem'"),
        ("files", "x = f'/out/{1}'"),
        ("files", "import numpy as np\nnp.load('x.npy')"),
        ("processes", "import os\nos.fork()"),
        ("processes", "import os\nos.execv('/bin/sh', [])"),
        ("processes", "import subprocess"),
        ("processes", "from concurrent.futures import ThreadPoolExecutor"),
        ("processes", "import threading"),
        ("processes", "import signal\nsignal.alarm(1)"),
        ("processes", "import atexit"),
        ("processes", "x = __import__\nimport os\nk = os\nk.kill(1, 9)"),
        ("descriptors", "import os\nos.write(3, b'x')"),
        ("descriptors", "from os import dup2 as d\nd(3, 4)"),
        ("descriptors", "import fcntl"),
        ("descriptors", "import socket\nsocket.socket(fileno=3)"),
        ("network", "import socket"),
        ("network", "from urllib.request import urlopen"),
        ("network", "import requests"),
        ("network", "def f(x):\n    import openai"),
        ("exit", "import sys\nsys.exit(0)"),
        ("exit", "import os\nos._exit(0)"),
        ("exit", "quit()"),
        ("exit", "raise SystemExit"),
        ("dynamic_code", "exec('x = 1')"),
        ("dynamic_code", "e = eval\ne('1')"),
        ("dynamic_code", "compile('1', 'x', 'eval')"),
        ("dynamic_code", "__import__('os')"),
        ("dynamic_code", "__builtins__.exec('1')"),
        ("dynamic_code", "import importlib"),
        ("dynamic_code", "import os\ngetattr(os, 'fo' + 'rk')()"),
        ("dynamic_code", "import base64"),
        ("dynamic_code", "import pickle, marshal, codecs"),
        ("native", "import ctypes"),
        ("native", "import mmap"),
        ("native", "from multiprocessing import shared_memory"),
        ("native", "import numpy as np\nnp.lib.stride_tricks.as_strided(x, (9,))"),
        ("odd_types", "class A(float): pass"),
        ("odd_types", "import numpy as np\nclass A(np.ndarray): pass"),
        ("odd_types", "class A:\n    def __eq__(self, other): return True"),
        ("odd_types", "class A:\n    def __reduce__(self): return (print, ())"),
        ("odd_types", "class A:\n    __float__ = lambda self: 1.0"),
        ("odd_types", "T = type('T', (int,), {})"),
        ("odd_types", "from collections import UserDict\nclass A(UserDict): pass"),
        ("odd_types", "x.__class__ = int"),
    ],
)  # fmt: skip
def test_each_kind_of_sign_is_found_whatever_it_is_called(kind: str, source: str) -> None:
    assert kind in kinds(source)


def test_every_kind_has_a_case_here() -> None:
    (mark,) = [
        m for m in test_each_kind_of_sign_is_found_whatever_it_is_called.pytestmark  # type: ignore[attr-defined]
        if m.name == "parametrize"
    ]  # fmt: skip
    assert {kind for kind, _ in mark.args[1]} == set(KINDS)


HONEST = """
from __future__ import annotations
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, statistics, string, sys, time
from collections import Counter, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, reduce
from typing import Any, Callable, NamedTuple

import numpy as np
from numpy.linalg import norm

sys.setrecursionlimit(5000)
np.random.seed(0)
random.seed(1)
WORD = re.compile(r"[a-z]+ / km/out")

class State(NamedTuple):
    cost: float
    path: tuple

class Colour(Enum):
    RED = 1

@dataclass(order=True)
class Node:
    cost: float
    item: Any = field(compare=False)
    def __lt__(self, other): return self.cost < other.cost
    def __repr__(self): return f"{type(self).__name__}({self.cost})"
    def __len__(self): return 1

@lru_cache(maxsize=None)
def step(n): return 1 if n < 2 else step(n - 1) + step(n - 2)

def f(items, code, signal=None, socket=3):
    \"\"\"Puts items into bins.\"\"\"
    table = defaultdict(list)
    table["open"].append(items)
    heap = [Node(1.0, None)]
    heapq.heappush(heap, Node(2.0, 1))
    best = np.zeros((3, 3))
    best[0, :] = np.arange(3)
    best.T[1] += norm(best)
    table.x = 1 if hasattr(items, "shape") else 0
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end and heap:
        node = heapq.heappop(heap)
        socket[0] = node
    def inner(np):
        np[0] = 1
        return np
    order = sorted(itertools.chain(items, inner([1])), key=operator.itemgetter(0))
    return order, math.isclose(1, 1), getattr(f, "n", 0)

if __name__ == "__main__":
    print(f([1], 2))
"""


def test_an_honest_program_has_none() -> None:
    assert signs_of(HONEST) == []


def test_the_shipped_programs_have_none() -> None:
    patterns = ("benchmarks/**/template.py", "benchmarks/**/alternatives/*.py", "benchmarks/**/programs/*.py")
    sources = sorted({path for pattern in patterns for path in REPOSITORY.glob(pattern)})
    assert len(sources) > 10
    assert {path: found for path in sources if (found := signs_of(path.read_text()))} == {}


def test_a_sign_tells_its_line_and_shows_it() -> None:
    source = "import math\r\n\r\ndef f(x):\r\n    eval('1')  # \x1b[2J" + "x" * 300 + "\r\n"
    (sign,) = signs_of(source)
    assert sign["kind"] == "dynamic_code" and sign["line"] == 4
    assert sign["text"].startswith("eval('1')  # \\x1b[2Jxxx") and len(sign["text"]) == 200


def test_a_source_full_of_signs_has_a_bounded_number_of_them() -> None:
    assert len(signs_of("exec('')\n" * 1000)) == LIMIT


@pytest.mark.parametrize("source", ["def f(:", "\x00", "x = " + "(" * 5000, "", "\ud800"])
def test_what_does_not_parse_has_none(source: str) -> None:
    assert {sign["text"] for sign in signs_of(source)} <= {"the source cannot be parsed: MemoryError"}


def test_depth_costs_no_stack() -> None:
    assert kinds("x = " + "+".join(["1"] * 800) + "\nexec('')") == {"dynamic_code"}
