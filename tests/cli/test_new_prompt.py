"""`new task --prompt`: labelled examples become a task that optimizes a prompt."""

from __future__ import annotations

import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import assert_refused, refused
from tests.console import here
from tests.integration.cli import cli
from trace_bench.cli.new import new_prompt_task
from trace_bench.errors import ConfigError
from trace_bench.suites.hf.own_examples import KINDS, Columns
from trace_bench.suites.spec import load_task_spec

ROWS = [(f"What is {n} and 1?", str(n + 1)) for n in range(10)]
CSV = "question,answer,remark\n" + "".join(f"{q},{a},x\n" for q, a in ROWS)


def examples(folder: Path, text: str | bytes = CSV, name: str = "examples.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(task: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (task / "data" / split / "rows.jsonl").read_text().splitlines()]


def test_examples_become_a_task_that_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples(tmp_path)
    done = here("new", "task", "my/sums", "--prompt", "examples.csv", "--metric", "number")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "run it with: trace-bench run --root tasks -t internal:my/sums\n"
    ran = cli("run", "-t", "internal:my/sums", "--root", "tasks", "--backend", "local", home=tmp_path / "home")
    assert ran.returncode == 0 and "1 of 1 jobs ok" in ran.stdout, ran.stderr
    assert "fixture" not in ran.stdout + ran.stderr
    row = next(Path("runs").glob("*/results.csv")).read_text().splitlines()
    assert len(row) == 2


def test_searches_that_spend_a_budget_of_calls_are_scored_all_the_same(tmp_path: Path) -> None:
    """Each answer to a question is a call. Scoring asks more questions than the budget has left."""
    new_prompt_task("sums", tmp_path / "tasks", examples(tmp_path), Columns())
    ran = cli("run", "-t", "internal:sums", "--root", str(tmp_path / "tasks"), "-T", "NoOp", "-T", "PrioritySearch",
              "-T", "GEPA-Base", "--budget", "calls=20", "--backend", "local", "--runs-dir", str(tmp_path / "runs"),
              home=tmp_path / "home")  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (path,) = (tmp_path / "runs").glob("*/results.csv")
    with path.open(newline="") as file:
        found = {row["trainer_id"]: row for row in csv.DictReader(file)}
    for name in ("PrioritySearch", "GEPA-Base"):
        row = found[name]
        assert (row["status"], row["stop_reason"], row["score_test"] != "") == ("ok", "budget", True)
        assert int(row["llm_calls"]) - int(row["scoring_calls"]) == 20 and int(row["scoring_calls"]) >= 4
        assert 0 < int(row["search_answers"]) < 20, "answers to questions are none to the search"
    table = cli("results", str(path.parent), home=tmp_path / "home").stdout
    assert "PrioritySearch" in table and "equal terms" not in table, "equal terms; NoOp is no search"
    assert cli("audit", str(path.parent), home=tmp_path / "home").returncode == 0


def test_splits_share_no_example_and_follow_from_the_seed_alone(tmp_path: Path) -> None:
    tasks = {}
    for name, text, seed in (("a", CSV, 0), ("b", CSV + CSV.partition("\n")[2], 0), ("c", CSV, 1)):
        new_prompt_task(name, tmp_path, examples(tmp_path, text), Columns(), seed=seed)
        tasks[name] = {split: rows(tmp_path / name, split) for split in ("train", "validate", "test")}
    sizes = {split: len(found) for split, found in tasks["a"].items()}
    assert sizes == {"train": 4, "validate": 2, "test": 4}
    everything = [row["question"] for split in tasks["a"].values() for row in split]
    assert sorted(everything) == sorted(q for q, _ in ROWS)
    assert tasks["a"] == tasks["b"] != tasks["c"], "an example that is there twice counts once"
    spec = load_task_spec(tmp_path / "a")
    assert "dealt by seed 0: train 4, validate 2, test 4" in spec.source and "examples.csv (SHA-256" in spec.source
    assert (spec.splits.train, spec.splits.validate_, spec.splits.test) == (4, 2, 4)
    assert spec.qa is not None and spec.qa.initial_instructions.startswith("Answer the question.")
    assert "fixture" not in spec.eval_kwargs


def test_the_model_judges_answers(tmp_path: Path) -> None:
    new_prompt_task("sums", tmp_path / "tasks", examples(tmp_path), Columns(), metric="judge")
    folder = str(tmp_path / "runs")
    ran = cli("run", "-t", "internal:sums", "--root", str(tmp_path / "tasks"), "--backend", "local",
              "--runs-dir", folder, home=tmp_path / "home")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (cassette,) = Path(folder).glob("*/jobs/*/llm.jsonl")
    asked = [json.loads(line) for line in cassette.read_text().splitlines()]
    asked = [call for call in asked if call["slot"].startswith("agent=")]
    told = {call["request_hash"]: call["request"] for call in asked if call["request"] is not None}
    prompts = [told[call["request_hash"]]["body"]["messages"][-1]["content"] for call in asked]
    judged = [prompt for prompt in prompts if prompt.startswith("Judge an answer to a question.")]
    assert 0 < len(judged) == len(prompts) / 2, "each answer is judged once"
    assert all("<right_answer>" in prompt and "Say yes or no" in prompt for prompt in judged)


@pytest.mark.parametrize("metric", sorted(KINDS))
def test_every_metric_makes_a_task(metric: str, tmp_path: Path) -> None:
    lines = [
        json.dumps({"input": f"Say {word}", "target": str(n) if metric == "number" else word, "a": word, "b": "z"})
        for n, word in enumerate(["one", "two", "three"])
    ]
    columns = Columns("input", "target", ("a", "b") if metric == "choice" else ())
    new_prompt_task("t", tmp_path, examples(tmp_path, "\n".join(lines), "x.jsonl"), columns, metric=metric)
    spec = load_task_spec(tmp_path / "t")
    assert spec.qa is not None and spec.qa.task_type == KINDS[metric]
    assert all(len(rows(tmp_path / "t", split)) == 1 for split in ("train", "validate", "test"))


def test_options_are_a_list_or_columns(tmp_path: Path) -> None:
    listed = "question,answer,options\n" + "".join(f'q{n},B,"[""x"", ""y""]"\n' for n in range(3))
    new_prompt_task("t", tmp_path, examples(tmp_path, listed), Columns(options=("options",)), metric="choice")
    assert rows(tmp_path / "t", "train")[0]["options"] == ["x", "y"]
    apart = "question,answer,A,B,C\n" + "".join(f"q{n},y,x,y,\n" for n in range(3))
    new_prompt_task("u", tmp_path, examples(tmp_path, apart), Columns(options=("A", "B", "C")), metric="choice")
    assert rows(tmp_path / "u", "train")[0]["A / B / C"] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (b"", "e.csv", "e.csv: is empty; give a header"),
        (b"question,answer\n", "e.csv", "e.csv: has 0 different examples; a task needs at least 3"),
        (b"question,answer\na,b\nc,d\na,b\n", "e.csv", "has 2 different examples"),
        (b'{"question": "a", "answer": NaN}\n', "e.jsonl", "line 1: is not a JSON object: NaN is not a number of JSON"),
        (b'{"question": "a", "answer": null}\n', "e.jsonl", "column 'answer' is null"),
        (b"question,anser\na,b\n", "e.csv", "e.csv, line 1: has no column 'answer'; did you mean 'anser'"),
        (b"question,answer,answer\na,b,c\n", "e.csv", "e.csv, line 1: has two columns 'answer'; rename one"),
        (b"question,answer\na,b\nc,\xff\n", "e.csv", "e.csv, line 3: is not UTF-8; save the file as UTF-8"),
        (b"question,answer\na,b\nc\n", "e.csv", "e.csv, line 3: has 1 cells, and the header has 2"),
        (b'question,answer\na,b\n"c,d\n', "e.csv", "e.csv, line 3: is not CSV: unexpected end of data"),
        (b'question,answer\n"a\nb",x\nc,\n', "e.csv", "e.csv, line 4: column 'answer' is empty"),
        (b"question,answer\na,b\nc,d\na,e\n", "e.csv", "line 4: asks the same as line 2, with 'answer' written"),
        (b"question,answer\na,+\n", "e.csv", "e.csv, line 2: column 'answer' is '+', which has no words"),
        (b'{"question": "a", "answer": 1}\n{"question": "b"}\n', "e.jsonl", "line 2: has no column 'answer'"),
        (b'{"answer": 1, "answer": 2}\n', "e.jsonl", "line 1: is not a JSON object: it has the key 'answer' twice"),
        (b"[1]\n", "e.jsonl", "e.jsonl, line 1: is not a JSON object; give one on each line"),
        (b"{\n", "e.jsonl", "e.jsonl, line 1: is not a JSON object: Expecting property name"),
        (b'{"question": "\\ud800", "answer": "x"}', "e.jsonl", "line 1: has half of a surrogate pair"),
        (b'{"question": "a", "answer": 5}\n{"question": "a", "answer": "5"}\n', "e.jsonl", "line 2: asks the same as "
         "line 1, with 'answer' written otherwise; keep one"),
        (b'{"question": "x", "answer": true}', "e.jsonl", "line 1: column 'answer' must have text, not bool"),
        (b"x", "e.txt", "unknown extension; use .csv or .jsonl"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_with_its_place(text: bytes, name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        new_prompt_task("t", tmp_path, examples(tmp_path, text, name), Columns())
    assert said in str(caught.value) and str(caught.value).count("\n") == 0
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--prompt", "pipe.csv"), "pipe.csv: is not a file; name a file of examples"),
        (("--prompt", "gone.csv"), "gone.csv: cannot be read: No such file"),
        (("--prompt", "examples.csv", "--metric", "exakt"), "--metric exakt: unknown metric; did you mean 'exact'"),
        (("--prompt", "examples.csv", "--metric", "choice"), "--metric choice needs --options COLUMN"),
        (("--prompt", "examples.csv", "--options", "a,b"), "--options is for --metric choice, and the metric is exact"),
        (("--prompt", "examples.csv", "--metric", "number", "--target", "remark"), "line 2: column 'remark' must end"),
        (
            ("--prompt", "examples.csv", "--interaction", "solve"),
            "--interaction: leave it out with --prompt and --function",
        ),
        (("--target", "answer"), "--target: is for another kind of task; add --prompt FILE, or leave it out"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples(tmp_path)
    os.mkfifo("pipe.csv")
    assert said in refused("new", "task", "t", *options)


def test_a_task_whose_rows_are_gone_says_so(tmp_path: Path) -> None:
    new_prompt_task("t", tmp_path, examples(tmp_path), Columns())
    (tmp_path / "t" / "data" / "test" / "rows.jsonl").unlink()
    done = here("run", "-t", "internal:t", "--root", str(tmp_path), "--dry-run", "--backend", "local")
    assert_refused(done, 2)
    assert "has no data/test/rows.jsonl" in done.stderr


@pytest.mark.parametrize("answer", ["3,5", "1_000", "1e500"])
def test_a_number_that_the_metric_reads_otherwise_is_refused(answer: str, tmp_path: Path) -> None:
    text = f'question,answer\na,"1,800"\nb,$5\nc,50%\nd,"{answer}"\n'
    with pytest.raises(ConfigError, match=f"line 5: column 'answer' is '{answer}', in which the metric reads another"):
        new_prompt_task("t", tmp_path, examples(tmp_path, text), Columns(), metric="number")
    new_prompt_task("t", tmp_path, examples(tmp_path, text.replace(answer, "7")), Columns(), metric="number")


def test_any_name_of_a_file_will_do_and_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = examples(tmp_path, CSV, "caf\udce9.CSV")
    new_prompt_task("t", tmp_path / "tasks", path, Columns())
    assert "caf\ufffd.CSV (SHA-256" in load_task_spec(tmp_path / "tasks" / "t").source
    real = Path.write_text

    def full(self: Path, *args: Any, **kwargs: Any) -> int:
        if "data" in self.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(ConfigError, match="cannot be written: No space left"):
            new_prompt_task("u", tmp_path / "tasks", path, Columns())
    new_prompt_task("u", tmp_path / "tasks", path, Columns())
