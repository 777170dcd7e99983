"""Secrets that the process knows, masked by value in everything that is written."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trace_bench.artifacts.collector import collect
from trace_bench.artifacts.writers import Journal, write_csv, write_json, write_pieces, write_text
from trace_bench.display.console import note_block as note
from trace_bench.secrets import Secrets, is_secret_name, known, secrets_in

KEY = 'planted-Key/with+signs=and"quote'


@pytest.fixture(autouse=True)
def _one_key() -> Iterator[None]:
    known.add([KEY])
    yield
    known.clear()


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"Authorization: Bearer {KEY}",
        json.dumps({"key": KEY}),
        json.dumps({"body": json.dumps({"key": KEY})}),
        "?key=planted-Key%2Fwith%2Bsigns%3Dand%22quote",
        '"planted-Key/with+signs=and""quote"',
    ],
)
def test_a_secret_is_found_however_it_is_written(text: str) -> None:
    assert "***" in known.text(text) and "planted" not in known.text(text)
    assert known.data(text.encode()).decode() == known.text(text)


def test_json_that_is_masked_is_still_the_same_json_but_for_the_secret() -> None:
    assert json.loads(known.text(json.dumps({"a": [f"x{KEY}y"], "n": 12345678}))) == {"a": ["x***y"], "n": 12345678}
    assert known.value({"a": [f"x{KEY}y"], KEY: 1, "n": 12345678}) == {"a": ["x***y"], "***": 1, "n": 12345678}


@pytest.mark.parametrize("value", ["1234567890", "-12.5e10", "short", "", "        ", "disabled", "/etc/passwd"])
def test_what_cannot_be_told_from_ordinary_text_is_no_secret(value: str) -> None:
    secrets = Secrets()
    secrets.add([value])
    assert secrets.text(f"it is {value} here") == f"it is {value} here"
    assert not secrets_in({"SOME_TOKEN": value})


def test_names_say_what_is_secret() -> None:
    assert all(map(is_secret_name, ("OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "aws_secret_access_key", "KEY")))
    assert not any(map(is_secret_name, ("MAX_TOKENS", "KEYBOARD", "OPENAI_BASE_URL", "MONKEY")))


@pytest.mark.parametrize("size", range(1, 12))
def test_a_secret_that_comes_in_pieces_is_masked(size: int) -> None:
    text = f"{KEY} then {KEY}{KEY} and the beginning {KEY[:9]} of one, {KEY[:5]}{KEY}"
    masker = known.text_masker()
    seen = "".join(masker.feed(text[at : at + size]) for at in range(0, len(text), size)) + masker.rest()
    assert seen == f"*** then ****** and the beginning {KEY[:9]} of one, {KEY[:5]}***"


@pytest.mark.parametrize("size", range(1, 12))
def test_of_two_secrets_that_overlap_nothing_is_seen(size: int) -> None:
    secrets = Secrets()
    secrets.add(["abcdefgh", "abcdefghijklmn", "mnopqrstuv"])
    for text in ("abcdefghijklm", "xabcdefghijklmn", "abcdefghijklmnopqrstuv", "abcdefgh"):
        masker = secrets.data_masker()
        data = text.encode()
        seen = b"".join(masker.feed(data[at : at + size]) for at in range(0, len(data), size)) + masker.rest()
        assert b"abcdefgh" not in seen and b"mnopqrstuv" not in seen and b"***" in seen


def test_nothing_is_held_back_that_is_no_beginning() -> None:
    assert known.text_masker().feed("step 1 of 3\n") == "step 1 of 3\n"
    assert Secrets().text_masker().feed(KEY) == KEY


def test_files_journals_and_the_console_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_text(tmp_path / "a.txt", f"<{KEY}>")
    write_json(tmp_path / "a.json", {"feedback": f"<{KEY}>"})
    write_csv(tmp_path / "a.csv", ["feedback"], [[f"<{KEY}>"]])
    write_pieces(tmp_path / "b.txt", (f"<{KEY}>".encode()[at : at + 5] for at in range(0, 40, 5)))
    write_text(tmp_path / "a.yaml", yaml.safe_dump({"model": f"<{KEY}>"}))
    with Journal(tmp_path / "a.jsonl") as journal:
        first = journal.append({"text": f"<{KEY}>"})
        second = journal.append({"text": "next"})
        assert journal.read(first) == {"text": "<***>"} and journal.read(second) == {"text": "next"}
    note(f"error: <{KEY}>")
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(written) == 6
    for name, text in {**written, "stderr": capsys.readouterr().err}.items():
        assert "<***>" in text and "planted" not in text, name


def test_what_a_sandbox_hands_back_is_masked_and_still_fits_its_schema(tmp_path: Path) -> None:
    archive = io.BytesIO()
    event = json.dumps({"t": 1.0, "event": "warning", "text": KEY}) + "\n"
    files = {"stdout.log": f"env: OPENAI_API_KEY={KEY}\n", "events.jsonl": event, "extra/notes.txt": KEY * 3}
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("out", "out/extra"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        for name, text in files.items():
            info = tarfile.TarInfo(f"out/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    data = archive.getvalue()
    collected = collect((data[at : at + 100] for at in range(0, len(data), 100)), tmp_path / "out")
    assert (tmp_path / "out" / "stdout.log").read_text() == "env: OPENAI_API_KEY=***\n"
    assert json.loads((tmp_path / "out" / "events.jsonl").read_text())["text"] == "***"
    assert (tmp_path / "out" / "extra" / "notes.txt").read_text() == "*********"
    assert collected.files["stdout.log"] == (tmp_path / "out" / "stdout.log").stat().st_size


def test_a_defect_shows_its_traceback_and_no_secret() -> None:
    code = (
        "import trace_bench.cli, trace_bench.cli.app as app\n"
        "from trace_bench.secrets import known\n"
        "def broken():\n"
        f"    known.add([{KEY!r}])\n"
        f"    raise RuntimeError('it holds ' + {KEY!r})\n"
        "app.run_app = broken\n"
        "trace_bench.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("Traceback"), done.stderr
    assert done.stderr.endswith("RuntimeError: it holds ***\n") and "planted" not in done.stderr + done.stdout
