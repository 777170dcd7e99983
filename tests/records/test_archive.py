"""Archives of runs: equal bytes for equal runs, and nothing that a stranger puts into one does harm."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.analysis.folders import RUN, make_run
from trace_bench.artifacts.folder_lock import IMPORTING, held_for_reading, is_in_use, lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.records import archive as archives
from trace_bench.records import removing
from trace_bench.records.archive import CHECKSUMS, ArchiveLimits, extract, pack
from trace_bench.records.digest import checksum_lines, index_digest
from trace_bench.records.reading import read_index
from trace_bench.records.tables import write_files_index


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    made = make_run(tmp_path / "runs", planned=2)
    write_files_index(made)
    return made


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there"


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_real_run_goes_into_an_archive_and_comes_out_as_it_was(recorded: RunLayout, tmp_path: Path) -> None:
    made = pack(recorded, tmp_path / "a.tar.gz")
    assert made.sha256 == hashlib.sha256((tmp_path / "a.tar.gz").read_bytes()).hexdigest()
    index = read_index(recorded)
    assert index is not None and made.digest == index_digest(index) and made.changed == () == made.left_out
    found = extract(tmp_path / "a.tar.gz", tmp_path / "there")
    assert files(found.run.root) == files(recorded.root) and found.run.run_id == recorded.run_id
    assert (found.digest, found.files, found.already, found.changed) == (made.digest, made.files, False, ())
    assert [path.name for path in (tmp_path / "there").iterdir()] == [recorded.run_id]


def test_equal_runs_give_equal_bytes_whoever_has_them(run: RunLayout, tmp_path: Path) -> None:
    one = pack(run, tmp_path / "a.tar.gz").path.read_bytes()
    assert one[3:8] == bytes(5)  # neither a name nor a time in gzip's header
    copy = RunLayout(tmp_path / "elsewhere" / RUN)
    shutil.copytree(run.root, copy.root)
    for path in copy.root.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert pack(copy, tmp_path / "b.tgz").path.read_bytes() == one
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        members = tar.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.isreg()) for m in members} == {(0, 0, 0, "", True)}
    names = [member.name for member in members]
    assert names[-1] == CHECKSUMS and names[:-1] == sorted(names[:-1])


def test_coreutils_check_an_archive_without_us(run: RunLayout, tmp_path: Path) -> None:
    (run.root / "jobs" / "back\\slash").write_text("x")
    write_files_index(run)
    made = pack(run, tmp_path / "a.tar")
    subprocess.run(["tar", "xf", made.path, "-C", str(tmp_path)], check=True)
    subprocess.run(["sha256sum", "-c", "--quiet", "--strict", CHECKSUMS], cwd=tmp_path, check=True)
    index = read_index(run)
    assert index is not None
    listed = sorted((entry.path for entry in index.files), key=str.encode)
    told = subprocess.run(["sha256sum", *listed], cwd=run.root, check=True, capture_output=True).stdout
    assert hashlib.sha256(told).hexdigest() == made.digest


def test_what_stays_here_is_in_no_archive(run: RunLayout, tmp_path: Path) -> None:
    run.salt.write_text("secret")
    run.cancel.write_text("{}")
    (run.meta / ".lock.json.1.2.tmp").write_text("half")
    (run.meta / ".out.collecting-1").mkdir()
    (run.meta / ".out.collecting-1" / "f").write_text("half")
    (run.root / "link").symlink_to("/etc/passwd")
    (run.jobs / "out").symlink_to("/etc")
    os.mkfifo(run.root / "fifo")
    made = pack(run, tmp_path / "a.tar")
    assert made.left_out == ("meta/.cancel", "meta/.salt", "fifo", "jobs/out", "link")
    with tarfile.open(made.path) as tar:
        names = {Path(name).relative_to(RUN).as_posix() for name in tar.getnames() if name != CHECKSUMS}
    plain = {path.relative_to(run.root).as_posix() for path in run.root.rglob("[!.]*") if path.is_file()}
    assert names == {name for name in plain if "collecting" not in name} - {"link"}


def test_files_that_are_not_as_the_index_says_are_told_on_both_sides(
    run: RunLayout, tmp_path: Path, there: Path
) -> None:
    run.summary.write_text("{}")
    (run.root / "more").write_text("")
    run.lock.unlink()
    made = pack(run, tmp_path / "a.tar")
    assert made.changed == ("meta/lock.json", "more", "summary.json")
    assert extract(made.path, there).changed == made.changed


def test_the_same_run_is_imported_once_and_another_of_its_id_is_refused(
    run: RunLayout, tmp_path: Path, there: Path
) -> None:
    made = pack(run, tmp_path / "a.tar")
    extract(made.path, there)
    assert extract(made.path, there).already
    (there / RUN / "more").write_text("")
    with pytest.raises(ConfigError, match="it exists, and differs"):
        extract(made.path, there)
    assert [path.name for path in there.iterdir()] == [RUN]


def test_a_dangling_link_in_the_place_of_the_run_is_not_followed(run: RunLayout, tmp_path: Path, there: Path) -> None:
    there.mkdir()
    (there / RUN).symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="it exists, and differs"):
        extract(pack(run, tmp_path / "a.tar").path, there)


def test_an_import_under_way_is_in_use(
    run: RunLayout, tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    compare = archives._compare

    def watched(*arguments: object) -> None:
        compare(*arguments)  # type: ignore[arg-type]
        seen.extend(is_in_use(work) for work in there.iterdir())
        assert not list(removing.removable(there))

    monkeypatch.setattr(archives, "_compare", watched)
    extract(pack(run, tmp_path / "a.tar").path, there)
    assert seen == [True]


def test_a_controller_and_an_export_keep_each_other_out(run: RunLayout) -> None:
    with lock_run(run), pytest.raises(ConfigError, match="a controller is at work"), held_for_reading(run):
        pass
    occupied = pytest.raises(ConfigError, match="another controller")
    with held_for_reading(run), held_for_reading(run), occupied, lock_run(run):
        pass


# -------------------------------------------------------------------------------------------------------- hostile


class Maker:
    """Makes archives that export never would."""

    def __init__(self, folder: Path, run: RunLayout) -> None:
        self.folder = folder
        self.content = {f"{RUN}/{path}": data for path, data in files(run.root).items()}

    def __call__(
        self, *members: tarfile.TarInfo, change: Callable[[dict[str, bytes]], object] = lambda _: None,
        listed: Callable[[dict[str, str]], object] = lambda _: None, listing: bytes | None = None,
    ) -> Path:  # fmt: skip
        content = dict(self.content)
        change(content)
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
        listed(sums)
        content[CHECKSUMS] = "".join(checksum_lines(sums)).encode() if listing is None else listing
        path = self.folder / "hostile.tar"
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
            for name, data in content.items():
                tar.addfile(entry(name, len(data)), io.BytesIO(data))
            for member in members:
                tar.addfile(member, io.BytesIO(b"x" * member.size))
        return path


def entry(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, target
    return made


@pytest.fixture
def maker(run: RunLayout, tmp_path: Path) -> Maker:
    return Maker(tmp_path, run)


@pytest.fixture
def untouched(tmp_path: Path, there: Path) -> Iterator[None]:
    """Whatever was refused has left nothing."""
    yield
    assert not there.exists() or list(there.iterdir()) == []
    assert not (tmp_path / "escaped").exists() and not Path("/tmp/escaped-archive").exists()


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("member", "said"),
    [
        (entry("../escaped", 1), "empty component, '.' or '..'"),
        (entry(f"{RUN}/../../escaped", 1), "empty component, '.' or '..'"),
        (entry("/tmp/escaped-archive", 1), "absolute"),
        (entry(f"{RUN}/a\\b", 1), "backslash"),
        (entry(f"{RUN}/\x1b[2J", 1), "control character"),
        (entry(f"{RUN}/{'d/' * 20}f", 1), "deeper than 16 folders"),
        (entry(f"{RUN}/{'n' * 300}", 1), "longer than 255 bytes"),
        (entry(f"{RUN}/l", kind=tarfile.SYMTYPE, target="/etc/passwd"), "a symbolic link"),
        (entry(f"{RUN}/l", kind=tarfile.LNKTYPE, target="/etc/passwd"), "a hard link"),
        (entry(f"{RUN}/l", kind=tarfile.CHRTYPE), "a character device"),
        (entry(f"{RUN}/l", kind=tarfile.FIFOTYPE), "a fifo"),
        (entry(f"{RUN}/summary.json", 1), "occurs twice"),
        (entry(f"{RUN}/SUMMARY.json", 1), "differ by case only"),
        (entry(f"{RUN}/summary.json/f", 1), "lies in a file"),
        (entry(f"{RUN}/meta", 1), "meta occurs twice, or lies in a file"),
        (entry("other-run/f", 1), "more than one folder"),
        (entry("setup.sh", 1), "it holds setup.sh"),
        (entry(CHECKSUMS, 1), "occurs twice"),
        (entry("../../x", kind=tarfile.DIRTYPE), "empty component"),
        (entry("-rf", kind=tarfile.DIRTYPE), "not the id of a run"),
        (entry(f"{RUN}/unlisted", 1), f"does not fit {RUN}/unlisted: a file is missing, changed or not listed"),
    ],
    ids=lambda value: None if isinstance(value, tarfile.TarInfo) else value.replace(" ", "-")[:30],
)
def test_a_hostile_entry_is_refused_in_a_sentence(
    maker: Maker, there: Path, member: tarfile.TarInfo, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        extract(maker(member), there)
    assert said in str(caught.value) and str(caught.value).endswith("; nothing was imported")
    assert "\x1b" not in str(caught.value)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"change": lambda c: c.pop(f"{RUN}/meta/manifest.json")}, "it has no manifest"),
        ({"change": lambda c: c.update({f"{RUN}/meta/manifest.json": b"["})}, "its manifest"),
        ({"change": dict.clear}, "it holds no run"),
        ({"listed": lambda s: s.update({f"{RUN}/gone": "0" * 64})}, "does not fit .*gone: a file is missing"),
        (
            {"listed": lambda s: s.update({f"{RUN}/summary.json": "0" * 64})},
            "does not fit .*summary.json: a file is missing, changed",
        ),
        ({"listing": b"\xff\xfe nonsense"}, "does not fit"),
        ({"listing": b""}, "does not fit"),
    ],
    ids=["no-manifest", "bad-manifest", "empty", "missing", "changed", "nonsense", "none"],
)
def test_an_archive_that_is_not_what_its_checksums_say_is_refused(
    maker: Maker, there: Path, how: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        extract(maker(**how), there)  # type: ignore[arg-type]


@pytest.mark.usefixtures("untouched")
def test_a_run_in_the_folder_of_another_id_is_refused(maker: Maker, there: Path) -> None:
    maker.content = {name.replace(RUN, "another-id"): data for name, data in maker.content.items()}
    with pytest.raises(ConfigError, match=f"folder is another-id, and its manifest is of {RUN}"):
        extract(maker(), there)


@pytest.mark.usefixtures("untouched")
def test_limits_hold_before_the_disk_is_full(maker: Maker, there: Path) -> None:
    path = maker(entry(f"{RUN}/zeros", 1 << 20))
    bomb = path.with_suffix(".tar.gz")
    bomb.write_bytes(gzip.compress(path.read_bytes()))
    assert bomb.stat().st_size < 20_000
    usual = ArchiveLimits()
    for limits, said in (
        (replace(usual, total_bytes=500_000), "larger than 500000 bytes"),
        (replace(usual, file_bytes=500_000), "500000 is the limit"),
        (replace(usual, files=3), "more than 3 files and folders .--max-files"),
        (replace(usual, json_bytes=10), "10 is the limit"),
    ):
        with pytest.raises(ConfigError, match=said):
            extract(bomb, there, limits)


@pytest.mark.usefixtures("untouched")
def test_a_torn_or_damaged_download_is_refused_wherever_it_ends(run: RunLayout, tmp_path: Path, there: Path) -> None:
    data = pack(run, tmp_path / "a.tar.gz").path.read_bytes()
    torn = tmp_path / "torn.tar.gz"
    for size in (0, 1, 2, 9, len(data) // 2, len(data) - 1):
        torn.write_bytes(data[:size])
        with pytest.raises(ConfigError, match=r"torn\.tar\.gz: .*; nothing was imported"):
            extract(torn, there)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    torn.write_bytes(damaged)
    with pytest.raises(ConfigError, match="nothing was imported"):
        extract(torn, there)
    plain = gzip.decompress(data)
    for size in (511, 513, len(plain) // 2):
        torn.write_bytes(plain[:size])
        with pytest.raises(ConfigError, match="nothing was imported"):
            extract(torn, there)


@pytest.mark.usefixtures("untouched")
def test_what_is_no_archive_is_refused(run: RunLayout, tmp_path: Path, there: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("not an archive" * 100)
    (tmp_path / "short.csv").write_text("a,b\n")
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"no tar" * 1000))
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "it is not a file"),
                       (tmp_path / "fifo", "it is not a file"), (tmp_path / "text", "text: it is not an archive"),
                       (tmp_path / "short.csv", "not an archive"), (tmp_path / "x.gz", "not an archive")):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            extract(path, there)


def test_a_file_that_shrinks_while_it_is_read_is_said(
    run: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives.os, "fstat", lambda _: SimpleNamespace(st_size=10**6))
    with pytest.raises(EnvironmentUnavailable, match="became shorter while it was read"):
        pack(run, tmp_path / "a.tar")
    assert not list(tmp_path.glob("*.ta*"))


def test_an_import_that_was_killed_is_swept(there: Path) -> None:
    (there / f"{IMPORTING}x").mkdir(parents=True)
    (there / f"{IMPORTING}x" / "f").write_text("half")
    (item,) = removing.removable(there)
    assert (item.size, item.why) == (4, "an incomplete import")
    removing.remove([item])
    assert list(there.iterdir()) == []
