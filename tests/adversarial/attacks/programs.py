"""Attacks by the form of the source, and by what a program can learn from what it is sent."""

import base64

from tests.adversarial.attacks import BY_HEART, FAILED, Attack

_HIDDEN = base64.b64encode(b"import sys\nsys.modules['trace_bench.worker.evaluate'] = None\n").decode()

ATTACKS = (
    Attack(
        "hidden_source",
        f"import base64\nexec(base64.b64decode('{_HIDDEN}'))\ndef deed(): pass",
    ),
    Attack(
        "computed_names",
        """
def deed():
    found = getattr(__import__("s" + "ys"), "modu" + "les")
    setattr(found["ma" + "th"] if "math" in found else __import__("math"), "is" + "finite", lambda x: True)
""",
    ),
    Attack(
        "marshalled_code",
        """
import marshal, types
def deed():
    code = marshal.loads(marshal.dumps(compile("import builtins; builtins.sum = max", "<x>", "exec")))
    exec(code, {})
""",
        # Its own process now adds up wrongly what it sends.
        FAILED,
    ),
    Attack("no_function", "x = 1e9", FAILED, "does not define", whole=True),
    Attack("not_a_function", "ENTRY = 1e9", FAILED, "does not define", whole=True),
    Attack("syntax_error", "def ENTRY(:", FAILED, "compile failed", whole=True),
    Attack("no_source", "", FAILED, "does not define", whole=True),
    Attack("null_bytes", "def ENTRY(*args): return 1e9\0\0", FAILED, "null bytes", whole=True),
    Attack("surrogates", "def ENTRY(*args): return '\ud800'", FAILED, "failed", whole=True, by_guide=True),
    Attack("five_megabytes", "def deed(): pass", filler="# " + "x" * 97 + "\n", times=50_000, by_guide=True),
    Attack("parentheses", "x = " + "(" * 5000 + ")" * 5000, FAILED, "failed", whole=True),
    Attack("minus_signs", "def ENTRY(*args): return " + "-" * 200_000 + "1", FAILED, "failed", whole=True),
    Attack("deep_blocks", "".join(" " * i + "if 1:\n" for i in range(2000)), FAILED, "failed", whole=True),
    Attack("huge_constant", "x = 10 ** 10 ** 8\ndef deed(): pass", FAILED, timeout_seconds=1.0),
    Attack("rot13", "# -*- coding: rot13 -*-\nqrs ENTRY(k): cnff", FAILED, "failed", whole=True),
    Attack(
        "a_class_as_entry",
        "class ENTRY:\n    def __new__(cls, *args): return 1e9\n    def __eq__(self, other): return True",
        FAILED,
        whole=True,
    ),
    Attack("three_megabytes", "def deed(): pass", filler="# " + "x" * 97 + "\n", times=30_000),
    Attack(
        "sort_by_what_was_sent",
        """
seen = []
def attack(honest, item, bins):
    import sys
    seen.append((item, bins.tolist()))
    frame = sys._getframe()
    later = []
    while frame is not None:
        for found in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if isinstance(found, (list, tuple)) and len(found) == 1000 and found is not seen:
                later.append(found)
        frame = frame.f_back
    if later:
        raise Leak("all items")
    return honest(item, bins)
""",
        interactions=("policy",),
    ),
    Attack(
        "play_by_heart",
        """
import hashlib, random, sys
def seed_of_the_job():
    # Its own generators are seeded from the job's seed, in a way that can be undone.
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    return (frame.f_locals["request"]["seed"] - 97) * pow(2654435761, -1, 1 << 31) % (1 << 31)
def instances(split):
    digest = hashlib.sha256(f"trace-bench/split/{split}/{seed_of_the_job()}".encode()).digest()
    rng = random.Random(int.from_bytes(digest[:8], "big") >> 1)
    return [[rng.randrange(10, 70) for _ in range(1000)] for _ in range(2)]
known = instances("train") + instances("validate") + instances("test")
seen = []
def attack(honest, item, bins):
    seen.append(int(item))
    if any(items[:len(seen)] == seen for items in known):
        return -bins
    return honest(item, bins)
""",
        BY_HEART,
        interactions=("policy",),
    ),
    Attack(
        "look_beyond_the_argument",
        """
import gc
import numpy as np
def attack(honest, item, bins):
    base = bins
    while getattr(base, "base", None) is not None:
        base = base.base
    size = getattr(base, "nbytes", None) or len(base)
    if size > bins.nbytes + 4096:
        raise Leak("more than was sent")
    for found in gc.get_objects():
        if isinstance(found, np.ndarray) and found.shape == (1001,):
            raise Leak("the evaluator's bins")
    return bins * 0.0
""",
        interactions=("policy",),
    ),
)
