"""The filesystem helper: every operation, and every error as the client's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import modal
import pytest
from modal import exception
from modal.types import FileType, FileWatchEventType

from tests.modal_server.conftest import Account

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(processes: Account) -> Iterator[modal.Sandbox]:
    sandbox = processes.create("sleep", "120")
    yield sandbox
    sandbox.terminate()


def test_text_goes_both_ways_and_parents_are_made(files: modal.Sandbox) -> None:
    files.filesystem.write_text("grüße\n", "/out/a/b/text")
    assert files.filesystem.read_text("/out/a/b/text") == "grüße\n"
    files.filesystem.write_bytes(b"", "/out/a/b/text")
    assert files.filesystem.read_bytes("/out/a/b/text") == b""


def test_stat_and_list_describe(files: modal.Sandbox) -> None:
    files.exec("sh", "-c", "mkdir -p /out/s/d; echo 12345 > /out/s/f; chmod 600 /out/s/f; ln -s f /out/s/l").wait()
    found = {entry.name: entry for entry in files.filesystem.list_files("/out/s")}
    assert {name: entry.type for name, entry in found.items()} == {
        "d": FileType.DIRECTORY,
        "f": FileType.FILE,
        "l": FileType.SYMLINK,
    }
    one = files.filesystem.stat("/out/s/f")
    assert (one.size, one.mode, one.permissions, one.path) == (6, 0o600, "-rw-------", "/out/s/f")
    assert files.filesystem.stat("/out/s/l").symlink_target == "f"


def test_directories_are_made_and_removed(files: modal.Sandbox) -> None:
    files.filesystem.make_directory("/out/m/n")
    files.filesystem.make_directory("/out/m/n")
    with pytest.raises(exception.SandboxFilesystemPathAlreadyExistsError):
        files.filesystem.make_directory("/out/m", create_parents=False)
    with pytest.raises(exception.SandboxFilesystemDirectoryNotEmptyError):
        files.filesystem.remove("/out/m")
    files.filesystem.remove("/out/m", recursive=True)
    with pytest.raises(exception.SandboxFilesystemNotFoundError):
        files.filesystem.stat("/out/m")


def test_errors_are_the_clients_own(files: modal.Sandbox) -> None:
    files.filesystem.write_text("x", "/out/e/file")
    with pytest.raises(exception.SandboxFilesystemNotFoundError):
        files.filesystem.read_bytes("/out/e/none")
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        files.filesystem.read_bytes("/out/e")
    with pytest.raises(exception.SandboxFilesystemIsADirectoryError):
        files.filesystem.write_text("x", "/out/e")
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        files.filesystem.write_text("x" * 3_000_000, "/out/e/file/below")
    with pytest.raises(exception.SandboxFilesystemNotADirectoryError):
        files.filesystem.list_files("/out/e/file")
    with pytest.raises(exception.SandboxFilesystemNotFoundError):
        files.filesystem.remove("/out/e/none")


def test_a_watch_tells_of_what_is_made(files: modal.Sandbox) -> None:
    files.filesystem.make_directory("/out/w")
    timer = threading.Timer(0.5, lambda: files.filesystem.write_text("x", "/out/w/new"))
    timer.start()
    events = list(files.filesystem.watch("/out/w", filter=[FileWatchEventType.Create], timeout=1))
    timer.join()
    assert [(event.type, event.paths) for event in events] == [(FileWatchEventType.Create, ["/out/w/new"])]
