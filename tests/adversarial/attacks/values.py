"""Attacks by what is returned: values that lie, that are no numbers, that do not end or that are too large."""

from tests.adversarial.attacks import FAILED, Attack

_LIAR = """
class Liar({base}):
    def _lie(self, *a, **k): return {lie}
    __add__ = __radd__ = __mul__ = __sub__ = __neg__ = __abs__ = __iadd__ = _lie
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __hash__(self): return 0
    def __float__(self): return 1e9
    def __int__(self): return 0
    __index__ = __int__
    def __reduce__(self): return (print, ("owned",))
"""
_WRAP = """
def attack(honest, *args):
    answer = honest(*args)
    return {wrapped}
"""

ATTACKS = (
    Attack(
        "float_that_lies",
        _LIAR.format(base="float", lie="1e9") + _WRAP.format(wrapped="[Liar(v) for v in answer]"),
        {"solve": FAILED, "policy": "honest", "fit": FAILED},
    ),
    Attack(
        "int_that_lies",
        _LIAR.format(base="int", lie="10**9") + _WRAP.format(wrapped="[Liar(0) for v in answer]"),
        # All its values are 0 once they have crossed: one index twice or more, and equal priorities. To fit, it is an
        # answer like any other, and a poor one.
        {"solve": FAILED, "policy": "honest"},
        interactions=("solve", "policy"),
    ),
    Attack(
        "list_that_lies",
        """
class Liar(list):
    def __len__(self): return 10**6
    def __iter__(self): return iter([1e9] * 3)
    def __getitem__(self, at): return 1e9
"""
        + _WRAP.format(wrapped="Liar(answer)"),
        FAILED,
    ),
    Attack(
        "array_that_lies",
        """
import numpy as np
class Liar(np.ndarray):
    def __getitem__(self, at): return 1e9
    def __array_ufunc__(self, *a, **k): return 0.0
    def __array_finalize__(self, other): pass
    def argmax(self): return 0
    def __len__(self): return 10**6
"""
        + _WRAP.format(wrapped="np.asarray(answer).view(Liar)"),
    ),
    Attack(
        "class_that_lies",
        """
class Liar:
    @property
    def __class__(self): return float
    def __float__(self): return 1e9
def attack(honest, *args):
    return [Liar() for _ in honest(*args)]
""",
        # It crosses as the float that it turns into: equal priorities are first fit.
        {"solve": FAILED, "policy": "honest", "fit": FAILED},
    ),
    Attack(
        "object_with_array",
        """
import numpy as np
class Liar:
    def __array__(self, *a, **k): return np.zeros(1)
    def __len__(self): return 1
    def __getitem__(self, at): return 0.0
def attack(honest, *args):
    return Liar()
""",
        FAILED,
        "cannot cross",
    ),
    Attack(
        "object_with_reduce",
        """
import os
class Bomb:
    def __reduce__(self): return (os._exit, (0,))
    __reduce_ex__ = lambda self, protocol: (os._exit, (0,))
def attack(honest, *args):
    return Bomb()
""",
        FAILED,
        "cannot cross",
    ),
    Attack(
        "hostile_equality",
        """
class Same:
    def __eq__(self, other): return True
    def __hash__(self): return 0
def attack(honest, *args):
    return {Same(): 1e9}
""",
        FAILED,
        "cannot cross",
    ),
    Attack("nan", _WRAP.format(wrapped="[float('nan') for v in answer] or [float('nan')]"), FAILED),
    Attack(
        "infinity",
        _WRAP.format(wrapped="[float('-inf') for v in answer] or [float('inf')]"),
        # The rules of the policy allow infinite priorities; equal ones are first fit.
        {"solve": FAILED, "policy": "honest", "fit": FAILED},
    ),
    Attack("complex", _WRAP.format(wrapped="[complex(1e9, 1) for v in answer] or [1j]"), FAILED, "complex"),
    Attack("bool_as_number", _WRAP.format(wrapped="[True for v in answer] or [True]"), FAILED, "True"),
    Attack("huge_integer", _WRAP.format(wrapped="[10**4000 for v in answer] or [10**4000]"), FAILED, "integer"),
    Attack("endless_integer", "def attack(honest, *args): return [1 << 10_000_000]", FAILED, "too large"),
    Attack("wrong_length", _WRAP.format(wrapped="list(answer) * 500 + [0]"), FAILED),
    Attack("no_answer", "def attack(honest, *args): return None", FAILED, "None"),
    Attack("an_answer_that_is_a_score", "def attack(honest, *args): return 1e9", FAILED),
    Attack("score_and_feedback", "def attack(honest, *args): return (1e9, 'Score 1e9. Perfect.')", FAILED),
    Attack(
        "a_dict_of_scores",
        "def attack(honest, *args): return {'op': 'result', 'score': 1e9, 'scores': {'best': {'train': 1e9}}}",
        FAILED,
    ),
    Attack("the_word_pass", "def attack(honest, *args): return 'PASS'", FAILED, "PASS"),
    Attack(
        "array_of_objects",
        "import numpy as np\ndef attack(honest, *args): return np.array([print, None, 1e9], dtype=object)",
        FAILED,
        "cannot cross",
    ),
    Attack(
        "array_of_text",
        "import numpy as np\ndef attack(honest, *args): return np.array(['1e9'] * 3)",
        FAILED,
        "cannot cross",
    ),
    Attack(
        "array_of_records",
        "import numpy as np\ndef attack(honest, *args): return np.zeros(3, dtype=[('score', 'f8')])",
        FAILED,
        "cannot cross",
    ),
    Attack("array_without_axes", "import numpy as np\ndef attack(honest, *args): return np.array(1e9)", FAILED),
    Attack(
        "array_of_many_axes",
        "import numpy as np\ndef attack(honest, *args): return np.zeros((1,) * 32)",
        FAILED,
    ),
    Attack("a_quarter_of_a_gigabyte", "def attack(honest, *args): return bytes(1 << 28)", FAILED, "bytes"),
    Attack("a_gigabyte", "def attack(honest, *args): return bytes(1 << 30)", FAILED, "memory failed"),
    Attack(
        "a_quarter_of_a_gigabyte_of_array",
        "import numpy as np\ndef attack(honest, *args): return np.zeros(1 << 25)",
        FAILED,
        "bytes",
    ),
    Attack(
        "many_small_arrays",
        "import numpy as np\nkept = [np.zeros((), 'i1')] * 100_000\ndef attack(honest, *args): return kept",
        FAILED,
    ),
    Attack(
        "deep_nesting",
        """
def attack(honest, *args):
    answer = []
    for _ in range(100_000):
        answer = [answer]
    return answer
""",
        FAILED,
        "nested",
    ),
    Attack(
        "a_list_in_itself",
        "def attack(honest, *args):\n    answer = []\n    answer.append(answer)\n    return answer",
        FAILED,
        "nested",
    ),
    Attack("generator", "def attack(honest, *args): return (v for v in honest(*args))", FAILED, "generator"),
    Attack(
        "lazy_answer",
        """
class Lazy:
    def __init__(self, make): self.make = make
    def __iter__(self): return iter(self.make())
    def __len__(self): return len(self.make())
def attack(honest, *args):
    return Lazy(lambda: honest(*args))
""",
        FAILED,
        "Lazy",
    ),
    Attack(
        "endless_iterator",
        """
class Endless(list):
    def __iter__(self):
        while True: yield 0
def attack(honest, *args):
    return Endless([0])
""",
        FAILED,
        timeout_seconds=1.0,
    ),
    Attack(
        "change_the_arguments",
        """
def attack(honest, *args):
    answer = honest(*args)
    for argument in args:
        try:
            argument[...] = 0.0
            argument.resize((0,), refcheck=False)
        except (TypeError, ValueError):
            try:
                argument.clear()
            except AttributeError:
                pass
    return answer
""",
        outcome={"fit": "honest"},
    ),
)
