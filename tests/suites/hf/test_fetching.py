"""Data sets of the hub are fetched from a server that answers as the hub does, with huggingface_hub as it is."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.cli import cli
from tests.suites.hf.made_rows import gsm8k, parquet
from tests.suites.publisher import Publisher, commit

pytest.importorskip("huggingface_hub")
GSM8K = "openai/gsm8k"
CARD = b"""---
license: mit
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
- config_name: socratic
  data_files: socratic/*
---
# GSM8K
"""
SOME = {
    "README.md": CARD,
    "main/train-00000-of-00002.parquet": gsm8k(1, 2),
    "main/train-00001-of-00002.parquet": gsm8k(3),
    "main/test-00000-of-00001.parquet": gsm8k(4, 5),
    "socratic/train-00000-of-00001.parquet": gsm8k(9),
}


def fetch(hub: Publisher, *arguments: str, code: int = 0, **env: str) -> Any:
    done = cli("data", "fetch", *(arguments or ("hf:gsm8k",)), "--mirror", hub.url, **env)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    return done


def lock(home: Path) -> dict[str, Any]:
    return json.loads((home / "data" / "hf" / "lock.json").read_bytes())


def rows_of(home: Path, split: str, dataset: str = GSM8K, config: str = "main") -> list[dict[str, Any]]:
    sha256 = lock(home)[dataset][config]["splits"][split]["sha256"]
    return pq.read_table(home / "data" / "hf" / "objects" / f"{sha256}.parquet").to_pylist()


def test_rows_are_frozen_and_recorded(hub: Publisher, home: Path) -> None:
    hub.publish(GSM8K, SOME, commit(1))
    done = fetch(hub)
    assert f"openai/gsm8k main: train 3 rows, test 2 rows, 0.0 MiB, revision {commit(1)}" in done.stdout
    assert "licence: MIT (its README.md says mit)" in done.stderr and "cite: Cobbe et al." in done.stderr
    assert "1 of 3: main/test-00000-of-00001.parquet" in done.stderr and "socratic" not in done.stderr
    entry = lock(home)[GSM8K]["main"]
    train = entry["splits"]["train"]
    assert entry["revision"] == commit(1) and train["rows"] == 3 and train["columns"] == ["question", "answer"]
    path = home / "data" / "hf" / "objects" / f"{train['sha256']}.parquet"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == train["sha256"] and path.stat().st_size == train["bytes"]
    assert [row["question"][8] for row in rows_of(home, "train")] == ["1", "2", "3"]
    assert not list((home / "data" / "hf").rglob(".*")), "nothing half-written is left"


def test_the_recorded_revision_is_kept_until_another_one_is_named(hub: Publisher, home: Path) -> None:
    hub.publish(GSM8K, {**SOME, "main/test-00000-of-00001.parquet": gsm8k(4)}, commit(1)).names["old"] = commit(1)
    hub.publish(GSM8K, SOME, commit(2))
    fetch(hub, "hf:gsm8k", "--revision", "old")
    assert lock(home)[GSM8K]["main"]["revision"] == commit(1)
    hub.asked.clear()
    assert f"revision {commit(1)}" in fetch(hub).stdout and hub.asked == [], "what is there is not asked for"
    for path in (home / "data" / "hf" / "objects").iterdir():
        path.write_bytes(b"")
    fetch(hub)
    assert len(rows_of(home, "test")) == 1
    fetch(hub, "hf:gsm8k", "--revision", commit(2))
    assert lock(home)[GSM8K]["main"]["revision"] == commit(2) and len(rows_of(home, "test")) == 2


@pytest.mark.slow
def test_equal_rows_make_equal_files(hub: Publisher, home: Path) -> None:
    hub.publish(GSM8K, SOME, commit(1))
    fetch(hub)
    first = {name: split["sha256"] for name, split in lock(home)[GSM8K]["main"]["splits"].items()}
    joined = {name: text for name, text in SOME.items() if "train" not in name}
    hub.publish(GSM8K, {**joined, "main/train-00000-of-00001.parquet": gsm8k(1, 2, 3)}, commit(2))
    fetch(hub, "hf:gsm8k", "--revision", commit(2))
    assert first == {name: split["sha256"] for name, split in lock(home)[GSM8K]["main"]["splits"].items()}


def test_a_revision_with_other_content_is_refused(hub: Publisher, home: Path, tmp_path: Path) -> None:
    hub.publish(GSM8K, SOME, commit(1))
    fetch(hub)
    recorded = lock(home)
    (home / "data" / "hf" / "objects" / f"{recorded[GSM8K]['main']['splits']['test']['sha256']}.parquet").unlink()
    other = gsm8k(6, 7)
    hub.publish(GSM8K, {**SOME, "main/test-00000-of-00001.parquet": other}, commit(1))
    done = fetch(hub, code=2, HF_HOME=str(tmp_path / "another"))
    for content in (other, SOME["main/test-00000-of-00001.parquet"]):
        assert hashlib.sha256(content).hexdigest() in done.stderr
    assert "lock.json first" in done.stderr and lock(home) == recorded


def test_a_download_goes_on_where_the_connection_was_cut(hub: Publisher, home: Path) -> None:
    text = random.Random(1).randbytes(6 << 20).hex()
    hub.publish(GSM8K, {**SOME, "main/test-00000-of-00001.parquet": parquet([{"question": text, "answer": "1"}])})
    hub.cut["main/test-00000-of-00001.parquet"] = 11 << 20  # it counts what has come in pieces of 10 MiB
    fetch(hub)
    assert rows_of(home, "test")[0]["question"] == text
    assert hub.ranges == [f"bytes={10 << 20}-"], "the rest alone was asked for"


def test_what_is_not_there_is_one_sentence(hub: Publisher, home: Path) -> None:
    done = fetch(hub, code=2)
    assert f"{hub.url}/datasets/openai/gsm8k does not exist" in done.stderr and "dataset_id of hf:gsm8k" in done.stderr
    hub.publish(GSM8K, {name: text for name, text in SOME.items() if "test" not in name})
    done = fetch(hub, "hf:gsm8k", "--revision", "v9", code=2)
    assert "openai/gsm8k has no revision 'v9'" in done.stderr
    done = fetch(hub, code=2)
    assert "openai/gsm8k main: no file of split 'test', which is 'main/test-*' in README.md; found" in done.stderr
    assert not (home / "data" / "hf" / "lock.json").exists()
    done = cli("data", "fetch", "hf:gsm8k", "--mirror", "http://127.0.0.1:9")
    assert done.returncode == 3 and "openai/gsm8k cannot be fetched" in done.stderr and "Traceback" not in done.stderr
    assert "did you mean 'hf:gsm8k'" in fetch(hub, "hf:gsm8", code=2).stderr


def test_a_gated_data_set_takes_a_token_that_is_kept_nowhere(hub: Publisher, home: Path, tmp_path: Path) -> None:
    token = "hf_" + "SecretOfTheHost" * 2
    hub.publish(GSM8K, SOME).token = token
    done = fetch(hub, code=3)
    assert "openai/gsm8k is gated" in done.stderr and "HF_TOKEN" in done.stderr
    done = fetch(hub, HF_TOKEN=token)
    assert token not in done.stdout + done.stderr
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written and all(token.encode() not in path.read_bytes() for path in written)
    done = fetch(hub, "hf:gsm8k", "--revision", token, code=2, HF_TOKEN=token)
    assert "has no revision '***'" in done.stderr


def test_a_group_is_one_data_set_whose_splits_are_its_tasks(hub: Publisher, home: Path) -> None:
    names = [path.name for path in (Path("benchmarks") / "hf" / "bbeh").iterdir()]
    files = {f"data/{n}-00000-of-00001.parquet": parquet([{"input": n, "target": "x"}]) for n in names}
    hub.publish("hubert233/BigBenchExtraHard", files)
    fetch(hub, "hf:bbeh/nycc")
    first = lock(home)["hubert233/BigBenchExtraHard"][""]
    assert list(first["splits"]) == ["nycc"]
    done = fetch(hub, "hf:bbeh", "hf:bbeh_eight", "hf:bbeh/*")
    assert len(done.stdout.splitlines()) == 1 and "of 22: data/" in done.stderr
    assert rows_of(home, "web_of_lies", "hubert233/BigBenchExtraHard", "") == [{"input": "web_of_lies", "target": "x"}]
    assert len(lock(home)["hubert233/BigBenchExtraHard"][""]["splits"]) == 23


def test_options_for_one_data_set_are_refused_for_two(hub: Publisher, home: Path) -> None:
    done = fetch(hub, "hf:gsm8k", "hf:qasc", "--revision", "v1", code=2)
    assert "--revision is for one data set, and these are 2: openai/gsm8k main, allenai/qasc" in done.stderr
    assert "--checksums is for collections" in fetch(hub, "hf:gsm8k", "--checksums", "x", code=2).stderr


ROWS = [{"question": "Who?", "answer": "A", "n": n, "more": [] if n else ["é\n"]} for n in range(3)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data/{}-00000-of-00001-0123456789abcdef.parquet", parquet(ROWS)),
        ("set_v1.0_{}.jsonl", LINES),
        ("{}.json", LINES),
        ("strategy_{}.json", json.dumps(ROWS, indent=1).encode()),
        ("{}.json", json.dumps({"version": "1", "data": ROWS}).encode()),
        ("main/{}/0000.parquet", parquet(ROWS)),
        ("{}.csv", b'question,answer,n\n"Who,\nme?",A,0\nWho?,A,1\nWho?,A,2\n'),
    ],
)
def test_a_copy_on_disk_is_taken(home: Path, tmp_path: Path, name: str, content: bytes) -> None:
    for split in ("train", "test"):
        path = tmp_path / "copy" / name.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    done = cli("data", "fetch", "hf:gsm8k", "--from", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert lock(home)[GSM8K]["main"]["revision"] == "local"
    found = rows_of(home, "train")
    assert [row["n"] for row in found] == [0, 1, 2] and found[0]["answer"] == "A"
    if name.endswith(".csv"):
        assert found[0]["question"] == "Who,\nme?"
    else:
        assert found == ROWS


@pytest.mark.slow
def test_a_copy_that_cannot_be_read_is_one_sentence(home: Path, tmp_path: Path) -> None:
    for name, content, said in (
        ("train.parquet", b"no parquet", "train.parquet: cannot be read as rows"),
        ("train.jsonl", b'{"a": 1}\n{"a"', "train.jsonl: cannot be read as rows"),
        ("train.jsonl", b'{"a": 1}\n{"a": "x"}\n', "train.jsonl: cannot be read as rows"),
        ("train.jsonl", b"[1]\n", "train.jsonl, row 1: is not a JSON object"),
        ("other.csv", b"a\n1\n", "no file is named after the split 'train'; found were other.csv"),
        ("train.txt", b"a\n1\n", "no file with rows was found"),
    ):
        copy = tmp_path / f"copy-{hashlib.sha256(content + name.encode()).hexdigest()[:6]}"
        copy.mkdir()
        (copy / name).write_bytes(content)
        (copy / name.replace("train", "test")).write_bytes(content)
        done = cli("data", "fetch", "hf:gsm8k", "--from", str(copy))
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert cli("data", "fetch", "hf:gsm8k", "--from", str(tmp_path / "nowhere")).returncode == 2


def test_the_list_says_what_is_here_and_what_is_damaged(hub: Publisher, home: Path) -> None:
    def row(code: int = 0) -> dict[str, Any]:
        done = cli("data", "list", "--json")
        assert done.returncode == code
        return next(row for row in json.loads(done.stdout) if row["name"] == "openai/gsm8k main")

    assert row()["state"] == "not fetched"
    hub.publish(GSM8K, SOME, commit(1))
    fetch(hub)
    found = row()
    assert (found["state"], found["rows"], found["revision"]) == ("ok", 5, commit(1))
    (home / "data" / "hf" / "objects" / f"{lock(home)[GSM8K]['main']['splits']['test']['sha256']}.parquet").write_text(
        ""
    )
    assert row(3)["damaged"] == ["test"]
