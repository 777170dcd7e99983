"""``llm ls|show|cache``: what a run asked its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import RUN, job_id, make_run, row
from tests.cli.conftest import refused
from tests.integration.cli import cli
from trace_bench.analysis.frames import calls_frame
from trace_bench.artifacts.calls import LlmCall, LlmTry
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import Journal

HOSTILE = "\x1b[2Jgone\x9b31m\u202e"
HASH = "0" * 64


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """Two jobs: the first made four calls, one of them failed, one was answered by another one."""
    made = make_run(tmp_path / "runs", rows=[row(0), row(1)], planned=2)
    spent = {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 40, "reasoning_tokens": 5}
    write(made, 0, [
        call(1, slot="step=0", **spent, cost_usd=0.25, latency=1.5, tries=(LlmTry(status=429), LlmTry(status=200))),
        call(2, slot="step=0", reused_from=1),
        call(3, phase="score", status=502, response=said_no(f"down {HOSTILE}"), tries=(LlmTry(error="reset"),)),
        call(4, **spent, cached=True),
    ])  # fmt: skip
    write(made, 1, [call(1, **spent, cost_usd=0.05)])
    return made


def said_no(text: str) -> dict[str, Any]:
    return {"error": {"message": text}}


def call(n: int, **fields: Any) -> LlmCall:
    reused = "reused_from" in fields
    body = {
        "model": "m", "temperature": 0.5,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": f"{HOSTILE}\nx\ty"}],
    }  # fmt: skip
    whole = {
        "n": n, "t": "2026-01-02T03:04:05Z", "request_id": f"train-{n}", "phase": "train", "slot": None,
        "request_hash": HASH, "status": 200, "provider": "openai", "model": "m", "sent": {} if reused else {"seed": 7},
        "request": None if reused else {"method": "POST", "path": "/v1/chat/completions", "body": body},
        "response": None if reused else {"choices": [{"message": {"role": "assistant", "content": "word " * 1200}}]},
        **fields,
    }  # fmt: skip
    return LlmCall.model_validate(whole)


def write(run: RunLayout, number: int, calls: list[LlmCall]) -> None:
    with Journal(run.job(job_id(number)).cassette) as cassette:
        for line in calls:
            cassette.append(line)


def shown(run: RunLayout, *arguments: str) -> str:
    done = cli(*arguments, "--runs-dir", str(run.root.parent))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert not any(letter in done.stdout for letter in "\x1b\x9b\u202e")
    return done.stdout


def parsed(run: RunLayout, *arguments: str) -> Any:
    return json.loads(shown(run, *arguments, "--json"))


def test_ls_has_a_line_for_each_call_and_the_totals(run: RunLayout) -> None:
    header, *lines, empty, totals = shown(run, "llm", "ls", "latest").splitlines()
    assert header.split() == [
        "job", "n", "phase", "slot", "model", "status", "prompt", "cached", "completion", "reasoning", "usd", "s",
        "tries", "note",
    ]  # fmt: skip
    cells = [line.split() for line in lines]
    first, second = job_id(0), job_id(1)
    assert cells[0] == [first, "1", "train", "step=0", "m", "200", "100", "40", "20", "5", "0.25", "1.50", "2"]
    assert cells[1] == [first, "2", "train", "step=0", "m", "200", *"-------", "answered", "by", "1"]
    assert cells[2][:6] == [first, "3", "score", "-", "m", "502"] and cells[2][13] == "down"
    assert cells[3][13:] == ["from", "the", "response", "cache"]
    assert cells[4][:2] == [second, "1"]
    assert empty == ""
    assert totals == (
        "5 lines: 3 calls in 3 tries, 300 prompt tokens (120 cached), 60 completion tokens (15 reasoning), 0.3000 USD, "
        "1 answered by the cassette, 1 by the response cache"
    )


def test_tokens_of_discarded_answers_are_in_the_line_of_their_call_and_in_the_totals(tmp_path: Path) -> None:
    made = make_run(tmp_path / "runs", rows=[row(0)], planned=1)
    tries = (LlmTry(status=200, error="an answer without choices", prompt_tokens=7, completion_tokens=3, cost_usd=0.5),)
    write(made, 0, [call(1, status=502, response=said_no("discarded"), tries=tries * 2)])
    _, line, _, totals = shown(made, "llm", "ls", "latest").splitlines()
    assert line.split()[5:11] == ["502", "14", "0", "6", "0", "1"]
    assert totals.startswith("1 lines: 1 calls in 2 tries, 14 prompt tokens (0 cached), 6 completion tokens")
    assert "an answer without choices (7 prompt and 3 completion tokens)" in shown(
        made, "llm", "show", "latest", job_id(0)
    )
    (frame,) = calls_frame(made, [row(0)]).to_dict("records")
    assert (frame["prompt_tokens"], frame["completion_tokens"], frame["cost_usd"]) == (14, 6, 1.0)


def test_ls_of_one_job_and_of_some_calls(run: RunLayout) -> None:
    def numbers(*arguments: str) -> list[tuple[str, int]]:
        return [(line["job_id"], line["n"]) for line in parsed(run, "llm", "ls", RUN[:12], *arguments)["calls"]]

    first, second = job_id(0), job_id(1)
    assert numbers() == [(first, 1), (first, 2), (first, 3), (first, 4), (second, 1)]
    assert numbers(second[:4]) == [(second, 1)]
    assert numbers("--failed") == [(first, 3)]
    assert numbers("--phase", "score") == [(first, 3)]
    assert numbers("--phase", "build") == []
    assert shown(run, "llm", "ls", "latest", "--phase", "build").startswith("0 lines: 0 calls")


def test_ls_as_json_has_the_totals_of_what_it_lists_and_no_texts(run: RunLayout) -> None:
    whole = parsed(run, "llm", "ls", "latest")
    assert whole["run_id"] == RUN
    assert whole["totals"]["cost_usd"] == pytest.approx(0.3)
    assert (whole["totals"]["calls"], whole["totals"]["tries"], whole["totals"]["reused"]) == (3, 3, 1)
    assert not {"request", "response", "sent"} & set(whole["calls"][0])
    assert parsed(run, "llm", "ls", "latest", "--failed")["totals"]["calls"] == 0


def test_show_prints_what_was_said_with_escapes_and_cut_off(run: RunLayout) -> None:
    text = shown(run, "llm", "show", "latest", job_id(0)[:6], "1")
    assert f"1 of job {job_id(0)}, attempt 1, train-1" in text
    assert "100 prompt (40 cached), 20 completion (5 reasoning), 0.250000 USD" in text
    assert "request  temperature=0.5" in text and "sent     seed=7" in text
    assert "→ POST /v1/chat/completions\n[system]\n  be brief\n[user]\n  \\x1b[2Jgone\\x9b31m\\u202e\n  x\ty\n" in text
    assert "← 200\n[assistant]\n  word word" in text
    assert "  … 2000 more characters; --full shows them" in text
    assert "tries    429 after" in text
    whole = shown(run, "llm", "show", "latest", job_id(0), "1", "--full")
    assert whole.count("word") == 1200 and "--full" not in whole


def test_show_of_a_call_that_was_answered_by_another_one_has_its_texts(run: RunLayout) -> None:
    text = shown(run, "llm", "show", "latest", job_id(0), "2")
    assert "answered by 1" in text and "be brief" in text and "word" in text
    (line,) = parsed(run, "llm", "show", "latest", job_id(0), "2")
    assert line["reused_from"] == 1 and line["request"]["body"]["temperature"] == 0.5 and line["response"]["choices"]


def test_show_of_a_failure_says_why(run: RunLayout) -> None:
    text = shown(run, "llm", "show", "latest", job_id(0), "3")
    assert "no answer after 0.00 s: reset" in text
    assert "← 502\n[error]\n  down \\x1b[2Jgone" in text


def test_show_without_a_number_prints_all_calls_of_the_job(run: RunLayout) -> None:
    text = shown(run, "llm", "show", "latest", job_id(0))
    assert [f"{n} of job {job_id(0)}" in text for n in range(1, 6)] == [True, True, True, True, False]
    assert [line["n"] for line in parsed(run, "llm", "show", "latest", job_id(0))] == [1, 2, 3, 4]


def test_a_job_without_calls_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", rows=[row(0)], planned=1)
    assert shown(run, "llm", "ls", "latest").startswith("0 lines: 0 calls")
    done = cli("llm", "show", "latest", job_id(0), "--runs-dir", str(run.root.parent))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"job {job_id(0)} has made no call\n")
    assert parsed(run, "llm", "show", "latest", job_id(0)) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "latest", job_id(0), "5"), f"error: job {job_id(0)} has no call 5; its calls are 1 to 4"),
        (("show", "latest", job_id(0), "0"), f"error: job {job_id(0)} has no call 0; its calls are 1 to 4"),
        (("show", "latest", job_id(0), "x"), "error: N must be a whole number, not 'x'"),
        (("show", "latest", "ffff"), "error: there is no job 'ffff' in run"),
        (("ls", "nowhere"), "error: "),
        (
            ("ls", "latest", "--phase", "scor"),
            "error: --phase: there is no phase 'scor'; known are build, train, score",
        ),
        (("ls", "latest", "ffff"), "error: there is no job 'ffff' in run"),
    ],
)
def test_mistakes(run: RunLayout, arguments: tuple[str, ...], sentence: str) -> None:
    assert refused("llm", *arguments, "--runs-dir", str(run.root.parent)).startswith(sentence)


def test_a_damaged_cassette_is_named(run: RunLayout) -> None:
    run.job(job_id(0)).cassette.write_text('{"n": 1}\n')
    said = refused("llm", "ls", "latest", "--runs-dir", str(run.root.parent), code=1)
    assert f"{job_id(0)}/llm.jsonl, line 1: " in said


def test_the_cache_is_counted_and_cleared(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = cli("llm", "cache", home=home)
    assert done.stdout == f"0 answers (0.0 MiB) in {home / 'llm-cache'}\n"
    entry = home / "llm-cache" / "00" / f"{HASH}.json"
    entry.parent.mkdir(parents=True)
    entry.write_text("{}")
    assert json.loads(cli("llm", "cache", "--json", home=home).stdout) == {
        "folder": str(home / "llm-cache"), "answers": 1, "bytes": 2, "removed": 0,
    }  # fmt: skip
    done = cli("llm", "cache", "--clear", home=home)
    assert done.stdout == f"removed 1 answers (0.0 MiB) from {home / 'llm-cache'}\n"
    assert not entry.exists()


def test_show_says_what_the_calls_of_a_job_took_and_that_the_runs_budget_cut_it_off(tmp_path: Path) -> None:
    cut = row(
        0, stop_reason="budget", cut_by_run_budget=True, llm_calls=3, llm_tries=5, llm_reused=2, llm_cached=1,
        prompt_tokens=10, completion_tokens=5, total_tokens=15, cached_tokens=4, reasoning_tokens=2,
    )  # fmt: skip
    run = make_run(tmp_path / "runs", rows=[cut], planned=1)
    text = shown(run, "show", "latest", job_id(0))
    assert "15 (10 in, 5 out), 4 in the provider's cache, 2 reasoning\n" in text
    assert "3 (5 tries, 2 more answered by the job's cassette, 1 of them by the response cache)\n" in text
    assert "ok, cut off by the run's budget; a larger one continues it" in text
    assert "cut off by the run's budget" in shown(run, "show", "latest")
    assert parsed(run, "ls")[0]["state"] == "unfinished"
