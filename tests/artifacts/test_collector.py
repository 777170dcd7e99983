"""The collector against engines that are honest and sandboxes that are not."""

from __future__ import annotations

import json
import os
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.artifacts.archives import GOOD, archive, chunked, member, of_files, raw_header
from tests.artifacts.samples import EVENT, RESULT
from trace_bench.artifacts.collector import Collected, CollectLimits, collect
from trace_bench.errors import CollectError, EnvironmentUnavailable, HarnessError, SandboxError


def refused(tmp_path: Path, data: bytes, limits: CollectLimits | None = None) -> str:
    """The sentence with which `data` is refused; checks what must hold of every refusal."""
    dest = tmp_path / "1" / "out"
    with pytest.raises(CollectError) as caught:
        collect(chunked(data), dest, limits)
    assert not dest.exists()
    assert [p.name for p in dest.parent.iterdir()] == ["evidence"]
    evidence = dest.parent / "evidence"
    noted = json.loads((evidence / "error.json").read_text())
    assert (evidence / "stream.head").read_bytes() == data[: (evidence / "stream.head").stat().st_size]
    for path in evidence.rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or path.is_file()
    message = str(caught.value)
    assert message == f"{noted['message']}. What was read is kept in {evidence}."
    assert message.isprintable()
    shown: str = noted["message"]
    return shown


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("size", [1, 511, 512, 513, 1 << 20])
def test_a_good_archive_is_collected(tmp_path: Path, format: int, size: int) -> None:
    dest = tmp_path / "1" / "out"
    data = of_files(GOOD, format)
    got = collect(chunked(data, size), dest)
    assert {name: (dest / name).read_bytes() for name in GOOD} == GOOD
    assert dict(got.files) == {name: len(content) for name, content in GOOD.items()}
    assert got.root == dest
    assert got.result is not None
    assert got.result.scores.best is not None
    assert got.result.scores.best.test == -0.75
    assert got.states is not None
    assert got.states.best == {"guess": 2.5, "code": "def f():\n    return 2 \n"}
    assert (got.events, got.history, got.torn, got.ignored) == (3, 2, 0, ())
    assert got.stream_bytes == len(data)
    assert [p.name for p in dest.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(("umask", "folder", "file"), [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600)])
def test_modes_are_of_our_umask_and_owners_are_ours(tmp_path: Path, umask: int, folder: int, file: int) -> None:
    data = archive(
        [
            member("out/extra", type=tarfile.DIRTYPE, mode=0o7777),
            member("out/extra/tool", b"x", mode=0o6777, uid=0, gid=0, uname="root"),
        ]
    )
    old = os.umask(umask)
    try:
        collect(chunked(data), tmp_path / "out")
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "out").rglob("*")}
    assert modes == {"extra": folder, "tool": file}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == folder


def test_an_empty_volume_is_collected_as_such(tmp_path: Path) -> None:
    got = collect(chunked(archive([])), tmp_path / "out")
    assert (dict(got.files), got.result, got.states) == ({}, None, None)


def test_a_killed_sandbox_leaves_torn_and_unfinished_files(tmp_path: Path) -> None:
    files = {
        "events.jsonl": GOOD["events.jsonl"][:-5],
        "state_history.jsonl": GOOD["state_history.jsonl"],
        ".states.json": b'{"initial"',
        ".result.json": b"",
        "x.tmp": b"?",
    }
    got = collect(chunked(of_files(files)), tmp_path / "out")
    assert (got.events, got.torn, got.history) == (2, 1, 2)
    assert got.ignored == (".states.json", ".result.json", "x.tmp")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["events.jsonl", "state_history.jsonl"]
    kept = (tmp_path / "out" / "events.jsonl").read_bytes()
    assert kept == (json.dumps(EVENT) + "\n").encode() * 2
    assert got.files["events.jsonl"] == len(kept)


def test_long_and_foreign_names_are_kept(tmp_path: Path) -> None:
    names = ["extra/" + "d" * 120 + "/" + "f" * 200, "extra/日本語 😀.txt", "extra/ a b", "extra/-rf"]
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        dest = tmp_path / str(format)
        collect(chunked(of_files(dict.fromkeys(names, b"1"), format)), dest)
        assert sorted(str(p.relative_to(dest)) for p in dest.rglob("*") if p.is_file()) == sorted(names)


LINKS = [
    (member("out/extra/a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "out/extra/a is a symbolic link"),
    (member("out/extra/a", type=tarfile.LNKTYPE, linkname="out/result.json"), "is a hard link"),
    (member("out/extra/a", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "is a character device"),
    (member("out/extra/a", type=tarfile.BLKTYPE), "is a block device"),
    (member("out/extra/a", type=tarfile.FIFOTYPE), "is a fifo"),
    (member("out/extra/a", type=tarfile.CONTTYPE), "is a contiguous file"),
    (member("out/extra/a", type=b"Z"), "unknown type"),
    (member("out", type=tarfile.SYMTYPE, linkname="/"), "out is a symbolic link"),
]
NAMES = [
    ("/etc/passwd", "is absolute"),
    ("out/../x", "'..'"),
    ("out/extra/../../x", "'..'"),
    ("out/extra/./x", "'.'"),
    ("out//extra/x", "empty component"),
    ("..", "has an empty component"),
    ("outside/x", "does not lie in the volume 'out'"),
    ("x", "does not lie in the volume 'out'"),
    ("out/extra/a\\b", "backslash"),
    ("out/extra/a\nb", "control character"),
    ("out/extra/\x1b[31m", "control character"),
    ("out/extra/\u202etxt.exe", "control character"),
    ("out/extra/" + "a" * 256, "a component of"),
    ("out/extra/" + "a/" * 600 + "b", "longer than 1024 bytes"),
    ("out/extra/" + "a/" * 13 + "b", "deeper than 12 folders"),
    ("out/passwd", "passwd is no file of the job contract"),
    ("out/bin/x", "bin/x is no file of the job contract"),
    ("out/extra", "extra is no file of the job contract"),
    ("out/result.json/x", "result.json/x is no file of the job contract"),
    ("out", "is a file"),
]


@pytest.mark.parametrize(("entry", "said"), LINKS)
def test_anything_but_files_and_folders_is_refused(tmp_path: Path, entry: Any, said: str) -> None:
    assert said in refused(tmp_path, archive([entry]))


@pytest.mark.parametrize(("name", "said"), NAMES)
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_that_could_lead_elsewhere_are_refused(tmp_path: Path, name: str, said: str, format: int) -> None:
    assert said in refused(tmp_path, archive([member(name, b"1")], format))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["extra/a", "extra/a"], "extra/a occurs twice"),
        (["extra/a", "extra/A"], "differ by case only"),
        (["extra/a/x", "extra/A/y"], "differ by case only"),
        (["extra/é", "extra/e\u0301"], "differ by case only"),
        (["extra/ﬁ", "extra/fi"], "differ by case only"),
        (["extra/a", "extra/a/b"], "a file and a folder"),
        (["extra/a/b", "extra/a"], "a file and a folder"),
        ([".result.json", ".result.json"], "occurs twice"),
    ],
)
def test_names_that_collide_are_refused(tmp_path: Path, names: list[str], said: str) -> None:
    assert said in refused(tmp_path, archive([member(f"out/{name}", b"1") for name in names]))


def test_a_folder_twice_or_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    folder = member("out/extra/a", type=tarfile.DIRTYPE)
    assert "occurs twice" in refused(tmp_path / "a", archive([folder, folder]))
    assert "occurs twice" in refused(tmp_path / "b", archive([member("out", type=tarfile.DIRTYPE)]))
    data = archive([member("out/result.json", type=tarfile.DIRTYPE)])
    assert "result.json is no folder of the job contract" in refused(tmp_path / "c", data)


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    assert "is not UTF-8" in refused(tmp_path, raw_header(b"out/extra/\xff") + bytes(1024))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (CollectLimits(total_bytes=5000), "larger than 5000 bytes"),
        (CollectLimits(file_bytes=500), "500 is the limit"),
        (CollectLimits(files=4), "more than 4 files and folders"),
        (CollectLimits(depth=1), "deeper than 1 folders"),
        (CollectLimits(name_bytes=4), "a component of out/result.json is longer"),
        (CollectLimits(path_bytes=10), "is longer than 10 bytes"),
        (CollectLimits(json_bytes=100), "result.json has"),
        (CollectLimits(line_bytes=30), "events.jsonl, line 1: it is longer than 30 bytes"),
        (CollectLimits(lines=2), "events.jsonl has more than 2 lines"),
    ],
)
def test_limits_hold(tmp_path: Path, limits: CollectLimits, said: str) -> None:
    assert said in refused(tmp_path, of_files(GOOD), limits)


def test_a_size_that_is_a_lie_allocates_nothing(tmp_path: Path) -> None:
    for size in (b"77777777777\0", b"\x80" + b"\x7f" * 11):
        data = raw_header(size=size) + b"x" * 100
        assert "is the limit" in refused(tmp_path / str(size[0]), data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "ends at byte 0 in the middle"),
        (b"x" * 512, "has no valid checksum"),
        (bytes(512), "in the middle of an entry"),
        (bytes(512) + b"x" * 512, "lone zero block"),
        (bytes(1024) + b"x", "data follows the end"),
        (raw_header()[:300], "in the middle"),
        (raw_header(size=b"00000001000\0"), "in the middle"),
        (raw_header(size=b"9" * 12) + bytes(1024), "no valid size"),
        (raw_header(size=b"\xff" * 12) + bytes(1024), "no valid size"),
        (raw_header(size=b"-0000000001\0") + bytes(1024), "no valid size"),
        (raw_header(kind=b"5", name=b"out/extra", size=b"00000000010\0") + bytes(2048), "claims 8 bytes of content"),
        (raw_header(kind=b"S") + bytes(1024), "a sparse file"),
        (raw_header(kind=b"g") + bytes(1024), "a global extended header"),
        (raw_header(kind=b"K") + bytes(1024), "a long link"),
        (raw_header(kind=b"x", size=b"77777777777\0") + bytes(1024), "claims 8589934591 bytes; 65536 is the limit"),
        (raw_header(kind=b"L", size=b"00000200001\0") + bytes(1024), "65536 is the limit"),
        (raw_header(kind=b"x") + raw_header(kind=b"x") + bytes(1024), "two extended headers"),
        (raw_header(kind=b"x") + bytes(1024), "describes nothing"),
        (raw_header().replace(b"ustar\x0000", b"\0" * 8) + bytes(1024), "wrong checksum"),
    ],
)
def test_a_malformed_archive_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, data)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (b"11 path=ab\n", "does not lie in the volume"),
        (b"999 path=ab\n", "malformed"),
        (b"0 path=ab\n", "malformed"),
        (b"path=ab\n", "malformed"),
        (b"11 path=abX", "malformed"),
        (b"9 patha\n\n", "malformed"),
        (b"11 path=ab\n11 path=ab\n", "twice"),
        (b"8 size=9\n", "malformed"),
        (b"9 size=99\n", "malformed"),
        (b"11 size=99\n", "contradicts the size"),
        (b"22 GNU.sparse.major=1\n", "sparse"),
        (b"21 hdrcharset=BINARY\n", "character set"),
        (b"9999999999999999999999999 a=b\n", "malformed"),
    ],
)
def test_a_hostile_extended_header_is_refused(tmp_path: Path, records: bytes, said: str) -> None:
    size = b"%011o\0" % len(records)
    extended = raw_header(kind=b"x", name=b"x", size=size) + records.ljust(512, b"\0")
    assert said in refused(tmp_path, extended + raw_header() + bytes(1024))


def test_a_stream_that_stalls_is_cut_off(tmp_path: Path) -> None:
    def slowly() -> Iterator[bytes]:
        for chunk in chunked(of_files(GOOD)):
            time.sleep(0.1)
            yield chunk

    started = time.monotonic()
    with pytest.raises(CollectError, match=r"not read within 0\.25 s"):
        collect(slowly(), tmp_path / "out", CollectLimits(seconds=0.25))
    assert time.monotonic() - started < 2


def test_endless_padding_is_cut_off(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(1 << 16)

    with pytest.raises(CollectError, match="larger than 10000000 bytes"):
        collect(endless(), tmp_path / "out", CollectLimits(total_bytes=10_000_000))


def test_a_stream_that_breaks_is_a_sandbox_failure_and_errors_of_ours_pass(tmp_path: Path) -> None:
    def breaking(error: Exception) -> Iterator[bytes]:
        yield of_files(GOOD)[:700]
        raise error

    with pytest.raises(CollectError, match="broke at byte 700: ConnectionResetError: gone"):
        collect(breaking(ConnectionResetError("gone")), tmp_path / "a" / "out")

    class EngineGone(SandboxError, ConnectionError):
        pass

    with pytest.raises(EngineGone):
        collect(breaking(EngineGone("the engine does not answer")), tmp_path / "b" / "out")
    assert list((tmp_path / "b").iterdir()) == []


def test_a_destination_that_exists_is_a_defect_of_ours(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="exists already"):
        collect(chunked(of_files(GOOD)), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_the_environments_fault(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=64k none {small} 2>/dev/null") != 0:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        with pytest.raises(EnvironmentUnavailable, match="no space left"):
            collect(chunked(of_files({"extra/big": b"x" * 200_000})), small / "out")
        assert list(small.iterdir()) == []
    finally:
        os.system(f"umount {small}")


def broken_result(**change: Any) -> bytes:
    return json.dumps({**RESULT, **change}).encode()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"result.json": b"{"}, "result.json: it is not JSON"),
        ({"result.json": b""}, "result.json: it is not JSON"),
        ({"result.json": b"\xff"}, "result.json: it is not UTF-8"),
        ({"result.json": b"[" * 100_000}, "result.json: it is nested deeper than 64"),
        ({"result.json": broken_result().replace(b"-0.5", b"NaN")}, "result.json: NaN is not a number"),
        ({"result.json": broken_result().replace(b"-0.5", b"1e999")}, "beyond the range"),
        ({"result.json": broken_result().replace(b"-0.5", b'"9"')}, "result.json: $.scores.best.validate: "),
        ({"result.json": broken_result().replace(b"-0.5", b"true")}, "result.json: $.scores.best.validate: "),
        ({"result.json": b'{"status":"failed",' + broken_result()[1:]}, "the key 'status' occurs twice"),
        ({"result.json": broken_result(surprise=1)}, "result.json: $.surprise: "),
        ({"result.json": broken_result(status="great")}, "result.json: $.status: "),
        ({"result.json": broken_result(evaluations=-1)}, "result.json: $.evaluations: "),
        ({"result.json": broken_result(contract=2)}, "result.json: $.contract: "),
        ({"states.json": b'{"initial":{"a":[1]}}'}, "states.json: $.initial.a"),
        ({"states.json": b'{"initial":{"a":"\\ud800"}}'}, "states.json: it holds half of a surrogate pair"),
        ({"events.jsonl": b'{"t":0,"event":"a"}\n{"t":"x","event":"a"}\n'}, "events.jsonl, line 2: $.t"),
        ({"events.jsonl": b'{"t":0,"event":"a"}\n\n'}, "events.jsonl, line 2: it is not JSON"),
        ({"events.jsonl": b'{"t":0,"event":"a","x":Infinity}\n'}, "events.jsonl, line 1: Infinity is not a number"),
        ({"state_history.jsonl": b'{"step":-1}\n'}, "state_history.jsonl, line 1: $.step"),
    ],
)
def test_files_that_break_their_schema_are_refused(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    assert said in refused(tmp_path, of_files({**GOOD, **files}))


def test_evidence_is_kept_up_to_a_limit_and_beside_earlier_evidence(tmp_path: Path) -> None:
    data = of_files({"extra/a": b"a" * 1000, "extra/b": b"b" * 1000, "extra/c": b"c" * 1000, "result.json": b"{"})
    for _ in range(2):
        with pytest.raises(CollectError):
            collect(chunked(data), tmp_path / "out", CollectLimits(evidence_bytes=1500))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evidence", "evidence-2"]
    sizes = [p.stat().st_size for p in (tmp_path / "evidence" / "files").rglob("*") if p.is_file()]
    assert sum(sizes) <= 1500
    assert (tmp_path / "evidence" / "files" / "result.json").read_bytes() == b"{"


def _outcome(data: bytes, folder: Path, size: int = 700) -> Collected | None:
    """Collect into `folder`; None if refused. Anything else that is raised fails the test."""
    limits = CollectLimits(total_bytes=1 << 20, file_bytes=1 << 18, files=100)
    try:
        return collect(chunked(data, size), folder / "out", limits)
    except CollectError as error:
        assert str(error).isprintable()
        return None


def _contained(folder: Path) -> None:
    """Nothing but plain files and folders below `folder`, and nothing unfinished."""
    for path in folder.rglob("*"):
        assert not path.is_symlink()
        assert path.is_file() or path.is_dir()
        assert ".collecting-" not in str(path)


@given(st.binary(max_size=3000))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    assert _outcome(data, folder) is None
    _contained(folder)


mutations = st.lists(
    st.tuples(
        st.integers(0, 20_000),
        st.sampled_from(["flip", "cut", "insert", "number"]),
        st.binary(min_size=1, max_size=20),
    ),
    min_size=1,
    max_size=6,
)


def _repair_checksums(data: bytearray) -> None:
    """Make every block that looks like a header valid again, so that mutations get past the checksum."""
    for at in range(0, len(data) - 511, 512):
        block = data[at : at + 512]
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            data[at + 148 : at + 156] = b"%06o\0 " % sum(block)


@given(mutations, st.booleans(), st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]), st.integers(1, 2000))
def test_mutated_archives_are_collected_or_refused_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str, bytes]],
    repair: bool,
    format: int,
    size: int,
) -> None:
    data = bytearray(of_files({**GOOD, "extra/" + "n" * 150: b"long"}, format))
    for place, action, new in changes:
        at = place % len(data)
        if action == "flip":
            data[at : at + len(new)] = new
        elif action == "cut":
            del data[at : at + len(new) * 100]
        elif action == "insert":
            data[at:at] = new
        else:
            # Into a field of a header: type, size, name, magic, prefix.
            header = at // 512 * 512
            field = header + [0, 124, 156, 257, 345][len(new) % 5]
            data[field : field + len(new)] = new[: max(0, len(data) - field)]
        if not data:
            break
    if repair:
        _repair_checksums(data)
    folder = tmp_path_factory.mktemp("fuzz")
    got = _outcome(bytes(data), folder, size)
    _contained(folder)
    if got is not None:
        found = {str(p.relative_to(got.root)): p.stat().st_size for p in got.root.rglob("*") if p.is_file()}
        assert found == dict(got.files)


@given(
    st.sampled_from(["result.json", "states.json", "events.jsonl", "state_history.jsonl"]),
    st.integers(0, 2000),
    st.binary(max_size=12),
    st.integers(0, 8),
)
def test_mutated_documents_are_collected_or_refused_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, new: bytes, drop: int
) -> None:
    content = bytearray(GOOD[name])
    at = place % len(content)
    content[at : at + drop] = new
    folder = tmp_path_factory.mktemp("fuzz")
    _outcome(of_files({**GOOD, name: bytes(content)}), folder)
    _contained(folder)
