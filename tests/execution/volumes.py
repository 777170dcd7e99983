"""Volumes that a sandbox should not have handed back, by name: what each holds, and what its job is to come to."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.artifacts.archives import archive, member, raw_header
from trace_bench.artifacts.collector import CollectLimits

Files = dict[str, bytes]
"""What an honest sandbox left, by name."""
Make = Callable[[Files], Iterable[bytes]]

LIMITS = CollectLimits(total_bytes=64 << 20, file_bytes=32 << 20, lines=20_000)
"""Those of the job contract, but for what would only take longer."""
REFUSED = ("trainer", "bad_output")
BROKEN = ("sandbox", "broken_archive")
NO_RESULT = ("sandbox", "no_result")
TAKEN: tuple[str | None, str | None] = (None, None)
"""Nothing is wrong with its form; what it says is somebody's word. The job is ok."""
ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e\r\n<script>alert(1)</script>=cmd()"


@dataclass(frozen=True)
class Volume:
    """One hostile volume.

    Attributes:
        make: its archive, in pieces, from the files of an honest one.
        ends: boundary and kind of the failure that its job is to have.
        said: part of the sentence.
    """

    name: str
    make: Make
    ends: tuple[str | None, str | None] = REFUSED
    said: str = ""


def whole(files: Files, *more: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive of `files` and further entries."""
    return archive([*(member(f"out/{name}", data) for name, data in files.items()), *more], format)


def beside(*more: tuple[tarfile.TarInfo, bytes]) -> Make:
    """Everything an honest sandbox left, and more."""
    return lambda files: [whole(files, *more)]


def link(name: str, target: str, type: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=type, linkname=target)


def rooted(root: str, files: Files, kind: bytes = tarfile.DIRTYPE) -> bytes:
    """An archive whose root, of that name and kind, is not the one that an engine writes."""
    of_root = raw_header(name=root.encode(), kind=kind)
    of_files = [raw_header(name=f"{root}/{name}".encode()) for name in files if kind == tarfile.DIRTYPE]
    return of_root + b"".join(of_files) + bytes(1024)


def with_file(name: str, data: bytes) -> Make:
    return lambda files: [whole({**files, name: data})]


def without(*names: str) -> Make:
    return lambda files: [whole({name: data for name, data in files.items() if name not in names})]


def changed(name: str, change: Callable[[Any], Any]) -> Make:
    """One JSON file that says something else."""

    def make(files: Files) -> Iterable[bytes]:
        value = change(json.loads(files[name]))
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        return [whole({**files, name: data})]

    return make


def result(**fields: Any) -> Make:
    return changed("result.json", lambda value: {**value, **fields})


def result_text(old: str, new: str) -> Make:
    """``result.json`` with a text in it replaced, which `json` would not write."""

    def change(value: Any) -> bytes:
        text = json.dumps(value)
        assert old in text
        return text.replace(old, new, 1).encode()

    return changed("result.json", change)


def integrity(**fields: Any) -> Make:
    return result(integrity=fields)


def history(change: Callable[[list[bytes]], list[bytes]]) -> Make:
    """The lines of ``state_history.jsonl``, with their newlines."""
    return lambda files: [
        whole({**files, "state_history.jsonl": b"".join(change(files["state_history.jsonl"].splitlines(True)))})
    ]


def scores(**best: Any) -> Make:
    return changed("result.json", lambda r: {**r, "scores": {**r["scores"], "best": {**r["scores"]["best"], **best}}})


def examples(number: int, score: float = 0.5, split: str = "validate") -> list[dict[str, Any]]:
    return [{"split": split, "id": f"v{n}", "score": score} for n in range(number)]


def headed(before: Callable[[Files], bytes]) -> Make:
    """What no writer of archives would write, before an honest archive."""
    return lambda files: [before(files), whole(files)]


def huge(name: str, size: int, claimed: int | None = None) -> Make:
    """A file of `size` bytes, made as it is read, whose header claims another size."""

    def make(files: Files) -> Iterator[bytes]:
        info = tarfile.TarInfo(f"out/{name}")
        info.size = size if claimed is None else claimed
        yield _unended(whole({k: v for k, v in files.items() if k != name}))
        yield info.tobuf(tarfile.GNU_FORMAT)
        for _ in range(size >> 20):
            yield b" " * (1 << 20)
        yield bytes(1024)

    return make


def many(number: int, name: Callable[[int], str]) -> Make:
    """So many empty files."""

    def make(files: Files) -> Iterator[bytes]:
        yield _unended(whole(files))
        for n in range(number):
            yield tarfile.TarInfo(f"out/extra/{name(n)}").tobuf(tarfile.GNU_FORMAT)
        yield bytes(1024)

    return make


def _unended(data: bytes) -> bytes:
    """An archive without its end."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        last = tar.getmembers()[-1]
        return data[: last.offset_data + -(-last.size // 512) * 512]


def broken_off(files: Files) -> Iterator[bytes]:
    yield whole(files)[:1500]
    raise ConnectionResetError("the engine hung up")


def cut(files: Files) -> Iterable[bytes]:
    return [whole(files)[:1500]]


def flipped(files: Files) -> Iterable[bytes]:
    data = bytearray(whole(files))
    data[512 + 3] ^= 0xFF  # in the name of the first file
    return [bytes(data)]


def pax(records: bytes) -> Make:
    size = b"%011o\0" % len(records)
    head = raw_header(kind=b"x", name=b"x", size=size) + records.ljust(-(-len(records) // 512) * 512, b"\0")
    return lambda files: [_unended(whole(files)) + head + raw_header() + bytes(1024)]


def record(key: str, value: bytes) -> bytes:
    """A record of an extended header, with its own length in front."""
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


CLAIM = {"score": 0.5, "split": "validate", "examples": ["v0"]}
FILES = {"files": 3, "sha256": "0" * 64, "unchanged": True}

VOLUMES = (
    # -- kinds of entries ------------------------------------------------------------------------------------------
    Volume("a link to a file of the host", beside(link("out/extra/a", "/etc/shadow")), said="symbolic link"),
    Volume("a link that climbs", beside(link("out/extra/a", "../../../../meta/lock.json")), said="symbolic link"),
    Volume("a link to a folder, and a file in it",
           beside(link("out/extra/d", "/tmp"), member("out/extra/d/x", b"1")), said="symbolic link"),
    Volume("a link in the place of a result", lambda files: [
        archive([link("out/result.json", "/etc/passwd"), member("out/states.json", files["states.json"])])],
        said="symbolic link"),
    Volume("a link in the place of a folder", beside(link("out/extra", "/tmp")), said="symbolic link"),
    Volume("a hard link to another job's file",
           beside(link("out/extra/a", "out/result.json", tarfile.LNKTYPE)), said="hard link"),
    Volume("a fifo", beside(member("out/extra/f", type=tarfile.FIFOTYPE)), said="fifo"),
    Volume("a fifo in the place of the log", lambda files: [
        whole({k: v for k, v in files.items() if k != "stdout.log"}, member("out/stdout.log", type=tarfile.FIFOTYPE))],
        said="fifo"),
    Volume("a character device", beside(member("out/extra/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
           said="character device"),
    Volume("a block device", beside(member("out/extra/sda", type=tarfile.BLKTYPE, devmajor=8)), said="block device"),
    Volume("a socket", beside(member("out/extra/s", type=b"s")), said="unknown type"),
    Volume("a sparse file of GNU", lambda files: [_unended(whole(files)) + raw_header(kind=b"S") + bytes(1024)],
           said="sparse"),
    Volume("a sparse file of POSIX", pax(record("GNU.sparse.major", b"1")), said="sparse"),
    Volume("a contiguous file", beside(member("out/extra/c", type=tarfile.CONTTYPE)), said="contiguous"),
    Volume("a folder in the place of a result", lambda files: [
        whole({k: v for k, v in files.items() if k != "result.json"},
              member("out/result.json", type=tarfile.DIRTYPE))], said="no folder of the job contract"),
    Volume("a folder in the place of the history", lambda files: [
        whole({k: v for k, v in files.items() if k != "state_history.jsonl"},
              member("out/state_history.jsonl/x", b"1"))], said="no file of the job contract"),
    Volume("a file in the place of a folder", beside(member("out/extra", b"1")), said="no file of the job contract"),
    Volume("a file and a folder of one name", beside(member("out/extra/a", b"1"), member("out/extra/a/b", b"1")),
           said="a file and a folder"),
    # -- names -----------------------------------------------------------------------------------------------------
    Volume("an absolute name", beside(member("/etc/cron.d/x", b"1")), BROKEN, "absolute"),
    Volume("a name that climbs", beside(member("out/extra/../../../x", b"1")), BROKEN, "'..'"),
    Volume("a name outside the volume", beside(member("outside/x", b"1")), BROKEN, "does not lie in the volume"),
    Volume("a root of another name", lambda files: [rooted("home", files)], BROKEN, "does not lie in the volume"),
    Volume("a root without a name", lambda files: [rooted(".", files)], BROKEN, "empty component"),
    Volume("a root that is a file", lambda files: [rooted("out", files, kind=b"0")], BROKEN, "is a file"),
    Volume("a root that is a link", lambda files: [rooted("out", files, kind=b"2")], BROKEN, "symbolic link"),
    Volume("a root that is a device", lambda files: [rooted("out", files, kind=b"3")], BROKEN, "character device"),
    Volume("a root with content", lambda files: [raw_header(kind=b"5", name=b"out/", size=b"00000000010\0")
                                                + bytes(1024)], BROKEN, "claims 8 bytes of content"),
    Volume("a root twice", beside(member("out", type=tarfile.DIRTYPE)), BROKEN, "occurs twice"),
    Volume("a link beside the root", beside(link("outside", "/etc")), BROKEN, "symbolic link"),
    Volume("a name that climbs, in an extended header", pax(record("path", b"out/../../x")), BROKEN, "'..'"),
    Volume("a name with a backslash", beside(member("out/extra/..\\x", b"1")), said="backslash"),
    Volume("a name with a command for terminals", beside(member("out/extra/\x1b[2J", b"1")), said="control character"),
    Volume("a name that reads from the right", beside(member("out/extra/\u202egpj.exe", b"1")),
           said="control character"),
    Volume("a name with a newline", beside(member("out/extra/a\nb", b"1")), said="control character"),
    Volume("a name with a zero byte", pax(record("path", b"out/extra/a\0b")), said="control character"),
    Volume("a name that is no text", lambda files: [
        _unended(whole(files)) + raw_header(name=b"out/extra/\xff\xfe") + bytes(1024)], said="not UTF-8"),
    Volume("names that differ by case", beside(member("out/extra/a", b"1"), member("out/extra/A", b"2")),
           said="differ by case only"),
    Volume("names that differ by composition", beside(member("out/extra/é", b"1"), member("out/extra/e\u0301", b"2")),
           said="differ by case only"),
    Volume("names that differ by compatibility", beside(member("out/extra/ﬁ", b"1"), member("out/extra/fi", b"2")),
           said="differ by case only"),
    Volume("a result in capitals", beside(member("out/RESULT.JSON", b"{}")), said="no file of the job contract"),
    Volume("a name that this project uses itself", beside(member("out/results.json", b"{}")),
           said="no file of the job contract"),
    Volume("a record of the host", beside(member("out/job_meta.json", b"{}")), said="no file of the job contract"),
    Volume("a cassette", beside(member("out/llm.jsonl", b"")), said="no file of the job contract"),
    Volume("a file at the top that nobody writes", beside(member("out/core", b"1")),
           said="no file of the job contract"),
    Volume("a result twice", beside(member("out/result.json", b"{}")), said="occurs twice"),
    Volume("a file of the trainer's twice", beside(member("out/extra/a", b"1"), member("out/extra/a", b"2")),
           said="occurs twice"),
    Volume("a folder twice", beside(*[member("out/extra/a", type=tarfile.DIRTYPE)] * 2), said="occurs twice"),
    Volume("a name of 300 bytes", beside(member("out/extra/" + "a" * 300, b"1")), said="a component of"),
    Volume("a path of 2000 bytes", beside(member("out/extra/" + "a/" * 1000 + "b", b"1")), said="longer than 1024"),
    Volume("folders 40 deep", beside(member("out/extra/" + "a/" * 40 + "b", b"1")), said="deeper than 12 folders"),
    # -- numbers and sizes -----------------------------------------------------------------------------------------
    Volume("100,000 files", many(100_000, str), said="more than 10000 files"),
    Volume("a size that is a lie, too large", lambda files: [
        _unended(whole(files)) + raw_header(size=b"77777777777\0") + b"x" * 512], said="is the limit"),
    Volume("a size in base 256 of nine exabytes", lambda files: [
        _unended(whole(files)) + raw_header(size=b"\x80" + b"\x7f" * 11) + b"x" * 512], said="is the limit"),
    Volume("a size that is negative", lambda files: [
        _unended(whole(files)) + raw_header(size=b"\xff" * 12) + bytes(1024)], BROKEN, "no valid size"),
    Volume("a size that is a lie, too small", huge("stdout.log", 1 << 20, claimed=1 << 10), BROKEN, "header"),
    Volume("a folder with content", lambda files: [
        _unended(whole(files)) + raw_header(kind=b"5", name=b"out/extra/d", size=b"00000000010\0") + bytes(2048)],
        said="claims 8 bytes of content"),
    Volume("a file of 200 MB", huge("extra/big", 200 << 20), said="is the limit"),
    Volume("a result of 1 GB", huge("result.json", 1 << 30), said="is the limit"),
    Volume("a log beyond its cap", with_file("stdout.log", b"x" * (5 << 20)), TAKEN),
    Volume("a log of commands for terminals", with_file("stdout.log", ESCAPES.encode() * 100 + b"\xff\x00"), TAKEN),
    Volume("as many files as it takes to fill a disk", lambda files: _flood(files), said="the archive is larger than"),
    Volume("a long line", with_file("events.jsonl", b'{"t":0,"event":"' + b"a" * (5 << 20) + b'"}\n'),
           said="longer than 4194304 bytes"),
    Volume("a million lines", with_file("events.jsonl", b'{"t":0,"event":"a"}\n' * 1_000_000),
           said="more than 20000 lines"),
    # -- archives --------------------------------------------------------------------------------------------------
    Volume("nothing at all", lambda files: [], BROKEN, "ends at byte 0"),
    Volume("only zeros", lambda files: [bytes(512)], BROKEN, "in the middle of an entry"),
    Volume("text", lambda files: [b"no archive " * 100], BROKEN, "checksum"),
    Volume("a stream that breaks", broken_off, BROKEN, "broke at byte"),
    Volume("a stream that ends early", cut, BROKEN, "in the middle"),
    Volume("a wrong checksum", flipped, BROKEN, "checksum"),
    Volume("more after the end", lambda files: [whole(files), whole(files)], BROKEN, "data follows the end"),
    Volume("a lone zero block", headed(lambda _: bytes(512)), BROKEN, "lone zero block"),
    Volume("an extended header of 8 GB", lambda files: [
        _unended(whole(files)) + raw_header(kind=b"x", size=b"77777777777\0") + bytes(1024)], said="is the limit"),
    Volume("an extended header that is cut", pax(b"999 path=out/extra/a\n"), BROKEN, "malformed"),
    Volume("an extended header that says a thing twice", pax(record("path", b"out/extra/a") * 2), BROKEN, "twice"),
    Volume("an extended header that contradicts a size", pax(record("size", b"99")), BROKEN, "contradicts"),
    Volume("a global extended header", lambda files: [
        _unended(whole(files)) + raw_header(kind=b"g") + bytes(1024)], said="global extended header"),
    Volume("a name in another character set", pax(record("hdrcharset", b"BINARY")), BROKEN, "character set"),
    Volume("set-user-id, an owner, attributes, the year 10^9", beside(
        member("out/extra/tool", b"x", mode=0o6777, uid=0, gid=0, uname="root", mtime=3e16,
               pax_headers={"SCHILY.xattr.security.capability": "all", "SCHILY.acl.access": "user::rwx"})), TAKEN),
    # -- documents -------------------------------------------------------------------------------------------------
    Volume("no result", without("result.json"), NO_RESULT, "without a result"),
    Volume("an empty volume", lambda files: [archive([])], NO_RESULT, "without a result"),
    Volume("an unfinished result", lambda files: [
        whole({**{k: v for k, v in files.items() if k != "result.json"}, ".result.json.tmp": b"{"})],
        NO_RESULT, "without a result"),
    Volume("an empty result", with_file("result.json", b""), said="not JSON"),
    Volume("a result that is a list", with_file("result.json", b"[]"), said="$"),
    Volume("a result in UTF-16", with_file("result.json", '{"contract": 1}'.encode("utf-16")), said="UTF-8"),
    Volume("a result of brackets", with_file("result.json", b"[" * 1_000_000), said="deeper than 64"),
    Volume("a result of millions of values", with_file("result.json", b"[" + b"[]," * 8_000_000 + b"[]]"),
           said="values"),
    Volume("a result with a key twice", changed(
        "result.json", lambda r: b'{"status":"failed",' + json.dumps(r).encode()[1:]), said="occurs twice"),
    Volume("a result with a key that nobody knows", result(extra=1), said="$.extra"),
    Volume("a result without a status", changed("result.json", lambda r: {k: r[k] for k in r if k != "status"}),
           said="$.status"),
    Volume("a result that is ok and has failed", result(failure={
        "boundary": "candidate", "kind": "x", "message": "x"}), said="ok and has a failure"),
    Volume("a result that has failed and does not say why", result(status="failed"), said="failed without a failure"),
    Volume("a failure of no boundary", result(status="failed", failure={
        "boundary": "nobody", "kind": "x", "message": "x"}), said="$.failure.boundary"),
    Volume("a failure of commands for terminals", result(status="failed", failure={
        "boundary": "candidate", "kind": "x", "message": ESCAPES * 1000}), ("candidate", "x"), "owned"),
    Volume("a score that is no number", result_text('"validate": ', '"validate": NaN, "x": '), said="NaN"),
    Volume("a score without an end", result_text('"validate": ', '"validate": Infinity, "x": '), said="Infinity"),
    Volume("a score beyond a double", result_text('"validate": ', '"validate": 1e999, "x": '), said="range"),
    Volume("a score of 400 digits", result_text('"validate": ', f'"validate": {"9" * 400}, "x": '), said="range"),
    Volume("a score of 5000 digits", result_text('"validate": ', f'"validate": {"9" * 5000}, "x": '),
           said="5000 digits"),
    Volume("a score that is a text", scores(validate="9"), said="$.scores.best.validate"),
    Volume("a score that is true", scores(validate=True), said="$.scores.best.validate"),
    Volume("a score at the end of the range", scores(validate=1.7e308), TAKEN),
    Volume("a score for held-out data that is not there", scores(test=0.99), TAKEN),
    Volume("a count below zero", result(evaluations=-1), said="$.evaluations"),
    Volume("a count of 400 digits", result(evaluations=10**399), said="range"),
    Volume("a count of 300 digits", result(evaluations=10**299), TAKEN),
    Volume("seconds below zero", result(seconds={"train": -1.0}), said="$.seconds"),
    Volume("a million examples", scores(examples=examples(1_000_000)), said="is the limit"),
    Volume("half a surrogate pair", changed(
        "result.json", lambda r: json.dumps({**r, "warnings": ["\ud800"]}).encode()), said="surrogate"),
    Volume("a thousand warnings of commands for terminals", result(warnings=[ESCAPES] * 1000), TAKEN),
    # -- integrity -------------------------------------------------------------------------------------------------
    Volume("files of the scorer that are text", integrity(scorer_files={**FILES, "unchanged": "yes"}),
           said="scorer_files.unchanged"),
    Volume("files of the scorer that are true", integrity(scorer_files=True), said="scorer_files"),
    Volume("an integrity that is nothing", result(integrity=None), said="$.integrity"),
    Volume("signs of a state that is none", integrity(signs={"worst": []}), said="signs"),
    Volume("a sign longer than it may be", integrity(signs={"best": [{"kind": "files", "line": 1, "text": "x" * 201}]}),
           said="signs"),
    Volume("a tally below zero", integrity(candidates={"train": {"opened": -1}}), said="candidates"),
    Volume("a claim for examples that are not there", integrity(claims={"best": {**CLAIM, "examples": ["nowhere"]}}),
           TAKEN),
    Volume("a claim for no examples", integrity(claims={"best": {**CLAIM, "examples": []}}), TAKEN),
    Volume("a claim at the end of the range", changed("result.json", lambda r: {
        **r, "integrity": {"claims": {"best": {**CLAIM, "score": 1.7e308, "examples": ["v0", "v1", "v2"]}}},
        "scores": {**r["scores"], "best": {"validate": 1.7e308, "examples": examples(3, 1.7e308)}}}), TAKEN),
    # -- states and lines ------------------------------------------------------------------------------------------
    Volume("a state that is a list", changed("states.json", lambda s: {**s, "best": {"x": [1]}}), said="$.best.x"),
    Volume("a state that is true", changed("states.json", lambda s: {**s, "best": {"x": True}}), said="$.best.x"),
    Volume("a state without a beginning", changed("states.json", lambda s: {"best": s["best"]}), said="$.initial"),
    Volume("a state of other parameters", changed("states.json", lambda s: {**s, "best": {"y": 1.0}}),
           said="parameters"),
    Volume("a state with a long name", changed("states.json", lambda s: {
        kind: {"x" * 201: 1.0} for kind in s}), said="$.initial"),
    Volume("states in a result's place", lambda files: [whole({**files, "result.json": files["states.json"]})],
           said="result.json"),
    Volume("a history in any order", history(lambda lines: [line.replace(b'"step": 0', b'"step": 9') for line in lines]
                                             + lines), TAKEN),
    Volume("a history with a torn last line", history(lambda lines: [*lines, b'{"step": 7, "cand']), TAKEN),
    Volume("a history that goes on after a torn line", history(lambda lines: [b'{"step": 7, "cand\n', *lines]),
           said="line 1"),
    Volume("a history that ends in zeros", history(lambda lines: [*lines, bytes(100)]), TAKEN),
    Volume("a history with zeros in it", history(lambda lines: [bytes(100) + b"\n", *lines]), said="line 1"),
    Volume("a history of arrays", history(lambda lines: [b"[1]\n"]), said="line 1"),
    Volume("a step below zero", history(lambda lines: [lines[0].replace(b'"step": 0', b'"step": -1')]),
           said="$.step"),
    Volume("an event of commands for terminals", with_file(
        "events.jsonl", json.dumps({"t": 0, "event": "\x1b[2J", "x": ESCAPES}).encode() + b"\n"), TAKEN),
    Volume("an event without a time", with_file("events.jsonl", b'{"event": "a"}\n'), said="$.t"),
    Volume("an event of two objects", with_file("events.jsonl", b'{"t":0,"event":"a"}{"t":0,"event":"b"}\n'),
           said="line 1"),
    Volume("an event of 64 levels", with_file(
        "events.jsonl", b'{"t":0,"event":"a","x":' + b"[" * 64 + b"]" * 64 + b"}\n"), said="deeper than 64"),
    Volume("an event between empty lines", with_file("events.jsonl", b'\n{"t":0,"event":"a"}\n'), said="line 1"),
)  # fmt: skip


def _flood(files: Files) -> Iterator[bytes]:
    yield _unended(whole(files))
    for n in range(1000):
        info = tarfile.TarInfo(f"out/extra/{n}")
        info.size = 16 << 20
        yield info.tobuf(tarfile.GNU_FORMAT)
        for _ in range(16):
            yield bytes(1 << 20)
    yield bytes(1024)
