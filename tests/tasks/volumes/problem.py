"""Each deed leaves something on the volume, as the trainer's uid: the second of the job's block."""

import os
import socket
from pathlib import Path

from trace_bench.worker.problem import Parameter, Problem, examples

EXTRA = Path("/out/extra")


def honest():
    (EXTRA / "note.txt").write_text("fine")


def link_to_a_folder():
    (EXTRA / "d").symlink_to("/etc")


def link_to_nothing():
    (EXTRA / "a").symlink_to("nowhere")


def link_that_climbs():
    (EXTRA / "a").symlink_to("../../../../../../meta/lock.json")


def hard_link():
    (EXTRA / "a").write_text("a")
    (EXTRA / "b").hardlink_to(EXTRA / "a")


def link_in_a_folder():
    (EXTRA / "d" / "e").mkdir(parents=True)
    (EXTRA / "d" / "e" / "a").symlink_to("/proc/self/mem")


def a_fifo():
    os.mkfifo(EXTRA / "f")


def a_socket():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(EXTRA / "s"))


def a_device():
    try:
        os.mknod(EXTRA / "null", 0o20666, os.makedev(1, 3))
    except OSError as error:
        print("DENIED", type(error).__name__)


def a_sparse_file():
    with (EXTRA / "hole").open("wb") as file:
        file.truncate(7 << 20)


def set_ids():
    (EXTRA / "tool").write_bytes(b"#!/bin/sh\n")
    (EXTRA / "tool").chmod(0o6777)
    (EXTRA / "d").mkdir()
    (EXTRA / "d").chmod(0o3777)


def attributes():
    (EXTRA / "a").write_text("a")
    try:
        os.setxattr(EXTRA / "a", "user.x", b"x" * 1000)
    except OSError as error:
        print("DENIED", type(error).__name__)


def another_time():
    (EXTRA / "a").write_text("a")
    for moment in (2**34, 2**40, -(2**40)):
        try:
            os.utime(EXTRA / "a", (moment, moment))
        except (OSError, OverflowError) as error:
            print("DENIED", type(error).__name__)


def no_text():
    Path(os.fsdecode(bytes(EXTRA) + b"/\xff\xfe")).write_text("a")


def a_command_for_terminals():
    (EXTRA / "\x1b[2J").write_text("a")


def from_the_right():
    (EXTRA / "\u202egpj.exe").write_text("a")


def two_cases():
    (EXTRA / "a").write_text("a")
    (EXTRA / "A").write_text("b")


def two_compositions():
    (EXTRA / "é").write_text("a")
    (EXTRA / "e\u0301").write_text("b")


def a_backslash():
    (EXTRA / "..\\a").write_text("a")


def long_names():
    (EXTRA / ("n" * 255)).write_text("a")


def a_long_path():
    path = EXTRA
    for _ in range(5):
        path = path / ("d" * 250)
        path.mkdir()


def instead_of_files():
    for name in ("result.json", "states.json", "job_meta.json", "results.json", "x.tmp"):
        try:
            Path("/out", name).write_text("{}")
        except OSError as error:
            print("DENIED", name, type(error).__name__)
    for change in (lambda: EXTRA.rename("/out/other"), EXTRA.rmdir, lambda: Path("/out/link").symlink_to("/etc")):
        try:
            change()
        except OSError as error:
            print("DENIED", type(error).__name__)


def words():
    os.write(1, b"\x1b[2J\x1b]0;owned\x07\xff\x00\r" + "\u202e<script>=cmd()\n".encode())


DEEDS = {
    deed.__name__: deed
    for deed in (
        honest, link_to_a_folder, link_to_nothing, link_that_climbs, hard_link, link_in_a_folder, a_fifo, a_socket,
        a_device, a_sparse_file, set_ids, attributes, another_time, no_text, a_command_for_terminals, from_the_right,
        two_cases, two_compositions, a_backslash, long_names, a_long_path, instead_of_files, words,
    )
}  # fmt: skip


def build(context):
    deed = context.eval_kwargs["deed"]

    def guide(query, response, reference):
        if os.getuid() % 16 == 1:
            DEEDS[deed]()
        return -abs(response - 3.0), "off"

    return Problem(
        parameters=(Parameter("x", 1.0, "float", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=examples(["only"]),
        objective="Leave something.",
        direction="maximize",
        failure_score=-100.0,
    )
