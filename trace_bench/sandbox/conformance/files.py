"""Checks of the files that are written to /out and collected."""

from __future__ import annotations

import hashlib
import json
import secrets

from trace_bench.sandbox.base import Resources
from trace_bench.sandbox.conformance.lab import PATIENCE, SLEEP, Lab, content, members, needs, read_until


def collect_works_while_it_runs_and_afterwards(lab: Lab) -> None:
    code = (
        "os.makedirs(os.path.join(OUT, 'a/ü b'))\n"
        "put('a/ü b/日本.txt', 'Grüße'.encode())\nput('empty', b'')\nput('big', b'0123456789' * 100_000)\n" + SLEEP
    )
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        for _ in range(2):
            found = members(sandbox)
            assert set(found) == {"out", "out/a", "out/a/ü b", "out/a/ü b/日本.txt", "out/empty", "out/big"}
            assert found["out"].isdir() and found["out/empty"].size == 0
            assert content(sandbox, "a/ü b/日本.txt").decode() == "Grüße"
            assert content(sandbox, "big") == b"0123456789" * 100_000
            sandbox.kill()
            assert sandbox.wait(PATIENCE) is not None


def collect_of_an_empty_folder_is_an_empty_folder(lab: Lab) -> None:
    with lab.created(SLEEP) as sandbox:
        assert set(members(sandbox)) == {"out"}


def collect_follows_no_link(lab: Lab) -> None:
    code = "os.symlink('/etc/passwd', OUT + '/file')\nos.symlink('/etc', OUT + '/folder')\nsay('ready')\n"
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        found = members(sandbox)
        assert set(found) == {"out", "out/file", "out/folder"}
        assert found["out/file"].issym() and found["out/folder"].issym()


def sandboxes_do_not_see_each_other(lab: Lab) -> None:
    mine = "put('mine', b'1')\nopen(os.path.join(TMP, 'mine'), 'w').close()\n" + SLEEP
    look = "say(json.dumps([sorted(os.listdir(OUT)), sorted(os.listdir(TMP))]))\n"
    with lab.running(mine) as (_, stream):
        read_until(stream, b"ready\n")
        out, _, _ = lab.finished(look)
        assert json.loads(out) == [[], []]


BIG = 40 << 20


def forty_megabytes_go_in_and_come_back(lab: Lab) -> None:
    data = secrets.token_bytes(BIG)
    code = (
        "say('ready')\nleft = int(sys.argv[1])\n"
        "with open(os.path.join(OUT, 'big'), 'wb') as file:\n"
        "    while left: left -= file.write(os.read(0, min(left, 1 << 20)))\n"
        "say('written')\n" + "time.sleep(600)\n"
    )
    request = lab.request(code)
    limits = Resources(memory_bytes=256 << 20, pids=64, disk_bytes=BIG + (8 << 20))
    with lab.running("", command=(*request.command, str(BIG)), resources=limits) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.write(data)
        read_until(stream, b"written\n")
        assert members(sandbox)["out/big"].size == BIG
        assert hashlib.sha256(content(sandbox, "big")).digest() == hashlib.sha256(data).digest()


NAMES = ("-rf", " leading", "trailing ", "a'b\"c", "back\\slash", "new\nline", "*?[x]", "$HOME", "Ü", "U\u0308", "日本",
         "🚀", "n" * 255, ".hidden", "%2e%2e", "a:b")  # fmt: skip


def names_of_all_kinds_come_back(lab: Lab) -> None:
    code = "for name in json.loads(sys.argv[1]): put(name, name.encode())\n"
    request = lab.request(code)
    with lab.running("", command=(*request.command, json.dumps(NAMES))) as (sandbox, _):
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 0, sandbox.last_words()
        assert set(members(sandbox)) == {"out", *(f"out/{name}" for name in NAMES)}
        assert all(content(sandbox, name) == name.encode() for name in NAMES)


@needs("user", "owners")
def owners_and_modes_come_back(lab: Lab) -> None:
    base = lab.backend.default_uid_base
    code = (
        f"put('of root', b'')\nos.mkdir(OUT + '/extra', 0o700)\nos.chown(OUT + '/extra', {base + 1}, {base + 1})\n"
        f"if os.fork() == 0:\n    os.setgroups([])\n    os.setgid({base + 1})\n    os.setuid({base + 1})\n"
        "    os.umask(0)\n    os.close(os.open(OUT + '/extra/of phase', os.O_CREAT | os.O_WRONLY, 0o640))\n"
        "    try: put('elsewhere', b'')\n    except PermissionError: os._exit(5)\n    os._exit(0)\n"
        "say(str(os.waitstatus_to_exitcode(os.wait()[1])))\n"
    )
    with lab.running(code) as (sandbox, stream):
        assert read_until(stream, b"\n") == b"5\n"
        assert sandbox.wait(PATIENCE) is not None
        found = members(sandbox)
        assert (found["out/of root"].uid, found["out/extra"].uid) == (0, base + 1)
        assert (found["out/extra/of phase"].uid, found["out/extra/of phase"].mode & 0o777) == (base + 1, 0o640)
