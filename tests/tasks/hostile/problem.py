"""Each deed is done by the trainer's process: its uid is the second of the job's block."""

import os
import random
from pathlib import Path

from trace_bench.worker.problem import Parameter, Problem, examples

EXTRA = Path("/out/extra")


def stdout():
    block = b"x" * (1 << 20)
    for _ in range(1024):
        os.write(1, block)


def out_of_memory():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (16 << 20)))


def fork_bomb():
    while True:
        os.fork()


def full_volume():
    for number in range(100_000):
        (EXTRA / str(number)).write_bytes(bytes(1 << 20))


def links():
    (EXTRA / "passwd").symlink_to("/etc/passwd")


def hard_links():
    (EXTRA / "a").write_text("a")
    (EXTRA / "b").hardlink_to(EXTRA / "a")


def fifo():
    os.mkfifo(EXTRA / "fifo")


def many_files():
    for number in range(10_001):
        (EXTRA / str(number)).touch()


def bad_name():
    (EXTRA / "a\nb").touch()


def deep():
    path = EXTRA
    for _ in range(30):
        path = path / "d"
        path.mkdir()


def hidden_folder():
    (EXTRA / "d").mkdir()
    (EXTRA / "d").chmod(0)


def segfault():
    os.kill(os.getpid(), 11)


def overwrite_result():
    for name in ("result.json", "events.jsonl", "states.json"):
        try:
            Path("/out", name).write_text("{}")
        except OSError as error:
            print("DENIED", name, type(error).__name__)


DEEDS = {f.__name__: f for f in (stdout, out_of_memory, fork_bomb, full_volume, links, hard_links, fifo, many_files,
                                 bad_name, deep, hidden_folder, segfault, overwrite_result)}  # fmt: skip


def build(context):
    deed = context.eval_kwargs["deed"]

    def guide(query, response, reference):
        if os.getuid() % 16 == 1:
            if deed == "nan":
                return float("nan"), ""
            if deed in DEEDS:
                random.random()  # an evaluation that draws is in no checkpoint: another attempt does the deed again
                DEEDS[deed]()
        return -abs(response - 3.0), "off"

    return Problem(
        parameters=(Parameter("x", 1.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Misbehave.",
        direction="maximize",
        failure_score=-100.0,
    )
