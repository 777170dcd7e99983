"""Attacks that compute once, and return that result again and again."""

from tests.suites.kernelbench.attacks import Attack
from tests.suites.kernelbench.naive import Options

_KEYED = """
class ModelNew(Honest):
    known = {{}}

    def forward(self, x):
        key = {key}
        if key not in self.known:
            self.known[key] = self.compute(x)
        return self.known[key]
"""
_SAME = Options(fresh_inputs=False, recheck=True)
_WRONG = r"is wrong in trial \d"


def _keyed(name: str, about: str, key: str, says: str, options: Options = _SAME) -> Attack:
    return Attack(
        name, f"{about}; gpu-mode/reference-kernels #102 to #162.", _KEYED.format(key=key), options, says=says
    )


ATTACKS = (
    _keyed("by_shape", "Replays by the shape of the input", "tuple(x.shape)", _WRONG),
    _keyed("by_data_ptr", "Replays by the address of the input", "x.data_ptr()", _WRONG),
    _keyed("by_id", "Replays by id() of the input, which memory that is free again gets again", "id(x)", f"|{_WRONG}"),
    _keyed("by_content", "Replays by a fingerprint of the input", "float(x.view(-1)[::997].sum())", ""),
    _keyed("by_first_value", "Replays by a rounded value of the input", "int(x[0, 0] > 9)", _WRONG),
    Attack(
        "first_result",
        "Returns the result of its first call for ever; reference-kernels #148, where timed outputs are not checked.",
        """
class ModelNew(Honest):
    kept = None
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 3:
            self.kept = self.compute(x)
        return self.kept
""",
        says="is wrong in trial 4",
        trials=36,
    ),
    Attack(
        "all_calls_in_the_first",
        "Finds the inputs of all calls in a list of its caller, and computes them in the first call; #104.",
        """
import sys


class ModelNew(Honest):
    made = {}

    def forward(self, x):
        if not self.made:
            frame = sys._getframe()
            while frame is not None:
                for inputs in frame.f_locals.get("upcoming") or ():
                    self.made[inputs[0].data_ptr()] = self.compute(inputs[0])
                frame = frame.f_back
            self.made.setdefault(x.data_ptr(), self.compute(x))
        return self.made[x.data_ptr()]
""",
        Options(made_ahead=True, recheck=True),
        says=_WRONG,
    ),
    Attack(
        "file",
        "Keeps results in /tmp for the next evaluation of the same kernel; reference-kernels #160.",
        """
import os, pickle

PLACE = f"/tmp/trace-bench-kernel-replay-{os.getppid()}"
known = {}
try:
    with open(PLACE, "rb") as file:
        known = pickle.load(file)
except FileNotFoundError:
    pass


class ModelNew(Honest):
    def forward(self, x):
        key = float(x[0, 0])
        if key not in known:
            known[key] = self.compute(x)
            with open(PLACE, "wb") as file:
                pickle.dump(known, file)
        return known[key]
""",
        Options(recheck=True, runs=2),
        runs=2,
        says="PermissionError|not permitted",
    ),
    Attack(
        "shared_memory",
        "Keeps results in /dev/shm for the next evaluation of the same kernel; reference-kernels #162.",
        """
import os, pickle

PLACE = f"trace-bench-kernel-replay-{os.getppid()}"
path = f"/dev/shm/{PLACE}"
fd = os.open(path, os.O_CREAT | os.O_RDWR)
known = {}
if os.fstat(fd).st_size:
    known = pickle.loads(os.pread(fd, os.fstat(fd).st_size, 0))


class ModelNew(Honest):
    def forward(self, x):
        key = float(x[0, 0])
        if key not in known:
            known[key] = self.compute(x)
            os.pwrite(fd, pickle.dumps(known), 0)
        return known[key]
""",
        Options(recheck=True, runs=2),
        runs=2,
        says="PermissionError|not permitted",
    ),
    Attack(
        "foreseen_inputs",
        "Knows the seeds of the inputs, and computes all outputs while it is made: a harness with a seed of its own,"
        " or a job's seed below 100 and the way in which our judge draws from it.",
        '''
import hashlib, random


def seeds(told):
    """Of the inputs to come, by the seed that the module is made with."""
    for job in range(100):
        digest = hashlib.sha256(f"trace-bench/split/train/{job}".encode()).digest()
        for example in range(4):
            draw = random.Random(f"{int.from_bytes(digest[:8], 'big') >> 1}/{example}")
            if draw.getrandbits(31) == told:
                draw.getrandbits(31)
                for _ in range(32):
                    yield draw.getrandbits(31)
                    draw.sample("abc", 3)
                return
    yield from range(told, told + 32)


class ModelNew(Honest):
    def __init__(self, size):
        told = torch.initial_seed()
        super().__init__(size)
        self.made = []
        with torch.no_grad():
            for seed in seeds(told):
                torch.manual_seed(seed)
                x = torch.randn(128, 256)
                self.made.append((float(x[0, 0]), self.compute(x)))
        self.made = dict(self.made)

    def forward(self, x):
        return self.made[float(x[0, 0])]
''',
        Options(recheck=True),
        says="KeyError",
    ),
)
