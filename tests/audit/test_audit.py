"""What an audit says of runs that nobody has forged: going on, killed, of an earlier version, or made to hurt who reads
them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.forger import Forger
from tests.integration.cli import cli
from trace_bench.artifacts import schema
from trace_bench.artifacts.calls import LlmCall, LlmTry, Usage
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta, Lock, ModelPrices
from trace_bench.audit.cassette import Calls, check_usage, read_cassette
from trace_bench.audit.claims import CLAIMS, AuditReport, Findings
from trace_bench.audit.plan import check_prices
from trace_bench.audit.reading import MAX_LINE, Folder
from trace_bench.audit.run import open_run
from trace_bench.audit.scores import is_mean
from trace_bench.audit.secrets import OVERLAP, Scanner
from trace_bench.audit.verify import audit
from trace_bench.config.loader import parse_config
from trace_bench.records.digest import run_digest
from trace_bench.records.reading import read_index
from trace_bench.records.tables import write_files_index

UNKNOWN = {"unknown.provider", "unknown.scores", "unknown.author"}


def verdicts(report: AuditReport) -> dict[str, str]:
    return {claim.claim: claim.verdict for claim in report.claims}


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def evidence(report: AuditReport, claim: str) -> str:
    (found,) = [c for c in report.claims if c.claim == claim]
    assert found.verdict == "contradicted", found
    return json.dumps([e.model_dump(mode="json") for e in found.evidence], ensure_ascii=False)


@pytest.fixture(scope="module")
def report(recorded: RunLayout) -> AuditReport:
    return audit(recorded)


def test_all_that_can_be_known_of_a_run_is_verified(report: AuditReport) -> None:
    found = verdicts(report)
    assert list(found) == list(CLAIMS)
    # Whoever works on this checkout has changed files in it.
    unverifiable = {claim for claim, verdict in found.items() if verdict != "verified"} - {"identity.git"}
    assert unverifiable == UNKNOWN


def test_the_digest_is_that_of_the_index(report: AuditReport, recorded: RunLayout) -> None:
    index = read_index(recorded)
    assert index is not None and report.digest == run_digest({entry.path: entry.sha256 for entry in index.files})


def test_nothing_is_written_and_no_file_looks_used(recorded: RunLayout) -> None:
    def tree() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in recorded.root.rglob("*")}

    before = tree()
    audit(recorded)
    assert tree() == before


def test_the_command_says_it_to_people_and_to_programs(copied: RunLayout) -> None:
    done = cli("audit", str(copied.root), "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    schema.validate("audit", report)
    assert cli("audit", str(copied.root), "--expect", report["digest"]).returncode == 0
    done = cli("audit", str(copied.root), "--expect", "0" * 64)
    assert done.returncode == 4
    assert "contradicted  unknown.author" in done.stdout and "1 contradicted" in done.stdout


def test_a_folder_that_is_not_there_is_a_mistake() -> None:
    done = cli("audit", "nowhere")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


# ------------------------------------------------------------------------------------------- runs that are not over


@pytest.fixture
def killed(copied: RunLayout) -> RunLayout:
    """As if its controller had died in the middle of the last job."""
    lines = copied.events.read_text().splitlines()
    (*_, end) = (number for number, line in enumerate(lines) if json.loads(line)["event"] == "job.end")
    last = json.loads(lines[end])["job_id"]
    copied.events.write_text("\n".join(lines[:end]) + '\n{"t":"2026-')
    copied.job(last).results.unlink()
    change(copied.job(last).meta, status="running", attempts=[])
    salt = json.loads(copied.lock.read_text())["salt"]
    change(copied.lock, salt=None)
    copied.salt.write_text(salt)
    manifest = json.loads(copied.manifest.read_text())
    change(copied.manifest, jobs=[{**job, "status": None, "reason": None} for job in manifest["jobs"]])
    return copied


def test_of_a_run_that_was_killed_what_is_not_there_yet_is_unverifiable(killed: RunLayout) -> None:
    report = audit(killed)
    assert report.ok, report.contradicted
    found = verdicts(report)
    unknown = {claim for claim in found if found[claim] == "unverifiable"}
    assert {"files.hashes", "files.unlisted", "tables.summary", "held_out.salt", "held_out.seeds"} <= unknown
    assert found["derivation.results"] == found["derivation.usage"] == found["identity.job_ids"] == "verified"
    (hashes,) = [claim for claim in report.claims if claim.claim == "files.hashes"]
    assert "the run was cut off" in hashes.says


def test_a_score_changed_in_a_run_that_was_killed_is_found(killed: RunLayout) -> None:
    job = next(job for job in killed.job_dirs() if job.results.exists())
    change(job.results, score_best=1e6)
    assert "score_best" in evidence(audit(killed), "derivation.results")


def test_a_salt_that_is_published_too_early_or_left_behind_is_told(killed: RunLayout) -> None:
    change(killed.lock, salt=killed.salt.read_text())
    told = evidence(audit(killed), "held_out.salt")
    assert "while jobs have not finished" in told and "meta/.salt" in told


@pytest.mark.parametrize(("adopted", "verdict"), [(True, "unverifiable"), (False, "contradicted")])
def test_an_attempt_without_a_row_was_cut_off_if_the_next_one_has_its_sandbox(
    forger: Forger, adopted: bool, verdict: str
) -> None:
    """Its controller was killed between the record and the row, and the next one took up the sandbox."""
    job = forger.failed
    meta = json.loads(job.meta.read_text())
    for attempt in meta["attempts"]:
        attempt["sandbox_id"] = "one" if adopted else f"of {attempt['number']}"
    change(job.meta, attempts=meta["attempts"])
    (job.attempt(1) / job.results.name).unlink()
    write_files_index(forger.run)
    assert verdicts(audit(forger.run))["conduct.attempts"] == verdict


# ---------------------------------------------------------------------------------------------------- held-out data


def test_the_salt_gives_the_seeds_that_jobs_committed_themselves_to(copied: RunLayout) -> None:
    change(copied.lock, salt="0" * 32)
    report = audit(copied)
    assert "test_seed_commitment" in evidence(report, "held_out.seeds")
    assert "salt_commitment" in evidence(report, "held_out.salt")


def test_runs_of_an_earlier_version_have_committed_themselves_to_nothing(copied: RunLayout) -> None:
    for path, key in [(copied.lock, "salt_commitment"), *((j.meta, "test_seed_commitment") for j in copied.job_dirs())]:
        value = json.loads(path.read_text())
        del value[key]
        path.write_text(json.dumps(value))
    write_files_index(copied)
    report = audit(copied)
    assert report.ok
    assert verdicts(report)["held_out.seeds"] == verdicts(report)["held_out.salt"] == "unverifiable"


# ------------------------------------------------------------------------------------------------ what it has cost


@pytest.mark.parametrize(
    ("recorded_tokens", "verdict"), [(60, "unverifiable"), (59, "contradicted"), (101, "contradicted")]
)
def test_late_calls_account_for_what_they_cost_and_no_more(
    recorded: RunLayout, recorded_tokens: int, verdict: str
) -> None:
    """Of 100 tokens in the cassette two late calls have 40 and 10, and one is said to have been missed."""
    meta = JobMeta.model_validate_json(next(recorded.job_dirs()).meta.read_bytes())
    usage = Usage(prompt_tokens=recorded_tokens)
    warning = "1 LLM call was under way when the job ended and came to no end in time"
    meta = meta.model_copy(update={"usage": usage, "usage_by_phase": {"train": usage}, "warnings": (warning,)})
    whole = Usage(prompt_tokens=100)
    late = [("train", Usage(prompt_tokens=40)), ("train", Usage(prompt_tokens=10))]
    findings = Findings()
    check_usage(meta, Calls(usage=whole, by_phase={"train": whole}, late=late), findings)
    assert {claim.claim: claim.verdict for claim in findings.claims()}["derivation.usage"] == verdict


def paid_call(run: RunLayout, cost: float) -> tuple[JobMeta, LlmCall]:
    """A call of a job, with a discarded answer before the one that counts."""
    row = min(run.jobs.glob("*/job_meta.json"))
    meta = JobMeta.model_validate_json(row.read_bytes())
    request = {"method": "POST", "path": "/v1/chat/completions", "body": {}}
    discarded = LlmTry(status=200, error="no choices", prompt_tokens=500, completion_tokens=70, cost_usd=0.5)
    call = LlmCall(
        n=1, t="2026-01-01T00:00:00Z", request_id="train-1", phase="train", slot=None, request_hash="0" * 64,
        request=request, status=200, provider="openai", model=meta.model.id, prompt_tokens=1000, completion_tokens=100,
        cost_usd=cost, tries=(discarded, LlmTry(status=200)),
    )  # fmt: skip
    return meta, call


def test_an_error_in_the_sums_that_tables_are_made_from_is_found(
    recorded: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta, call = paid_call(recorded, 0.0012)
    (tmp_path / "llm.jsonl").write_text(call.model_dump_json() + "\n")
    monkeypatch.setattr("trace_bench.artifacts.usage.tokens_of", lambda call: (call.prompt_tokens, 0))
    findings = Findings()
    with Folder(tmp_path) as folder:
        calls = read_cassette(folder, findings.in_file("llm.jsonl"), meta, {})
    check_usage(meta.model_copy(update={"usage": calls.usage, "usage_by_phase": calls.by_phase}), calls, findings)
    (usage,) = (claim for claim in findings.claims() if claim.claim == "derivation.usage")
    assert (usage.verdict, usage.evidence[0].due) == ("contradicted", [1500, 170])


@pytest.mark.parametrize(
    ("mean", "same"), [(1e-3 / 3, True), (1e-3 / 3 + 1e-8, True), (0.01, False), (None, False), (1e308, False)]
)
def test_a_mean_can_differ_by_the_rounding_of_its_sum(mean: float | None, same: bool) -> None:
    assert is_mean(mean, [1e8, 1e-3, -1e8]) is same


@pytest.mark.parametrize(
    ("cost", "own", "verdict"),
    [
        (0.0012, True, "verified"),
        (0.0034, True, "contradicted"),
        (0.0012, False, "verified"),
        (0.0034, False, "unverifiable"),
        (0.0, False, "contradicted"),
    ],
)
def test_a_cost_follows_from_the_prices_of_the_config_or_is_litellms(
    recorded: RunLayout, tmp_path: Path, cost: float, own: bool, verdict: str
) -> None:
    meta, call = paid_call(recorded, cost)
    (tmp_path / "llm.jsonl").write_text(call.model_dump_json() + "\n")
    findings, prices = Findings(), {meta.model.id: ModelPrices(prompt=1.0, completion=2.0)}
    with Folder(tmp_path) as folder:
        calls = read_cassette(folder, findings.in_file("llm.jsonl"), meta, prices, own)
    found = {claim.claim: claim.verdict for claim in findings.claims()}
    assert found["derivation.prices"] == verdict
    assert (calls.usage.prompt_tokens, calls.usage.completion_tokens) == (1500, 170), "a discarded answer counts"


@pytest.mark.parametrize(
    ("prompt", "told", "verdict"),
    [
        (100.0, {"m": {"prompt": 100.0}}, "verified"),
        (100.0, {"m": {"prompt": 10.0}}, "contradicted"),
        (100.0, {}, "contradicted"),
        (100.0, {"m": {"prompt": 100.0}, "n": {"prompt": 1.0}}, "contradicted"),
        (None, {"m": {"prompt": 10.0}}, "unverifiable"),
    ],
)
def test_prices_of_the_lock_are_those_of_the_config(
    recorded: RunLayout, prompt: float | None, told: dict[str, Any], verdict: str
) -> None:
    llm = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "KEY"}
    said = {"prices": {"prompt": prompt}} if prompt is not None else {}
    tasks = [{"id": "internal:numeric_param"}]
    config = parse_config({"mode": "real", "tasks": tasks, "trainers": [{"id": "NoOp"}], "llm": {**llm, **said}})
    lock = Lock.model_validate_json(recorded.lock.read_bytes())
    findings = Findings()
    lock = Lock.model_validate_json(json.dumps({**lock.model_dump(mode="json"), "prices": told}))
    with Folder(recorded.root) as folder:
        check_prices(replace(open_run(folder, recorded, findings), config=config, lock=lock))
    assert {claim.claim: claim.verdict for claim in findings.claims()}["derivation.prices"] == verdict


# --------------------------------------------------------------------------------------- tables of another version


def of_another_version(run: RunLayout) -> None:
    change(run.summary, package_hash="0" * 64)


@pytest.mark.parametrize("key", ["package_hash", "cut_by_run_budget"])
def test_a_summary_lacks_what_is_new_since(copied: RunLayout, key: str) -> None:
    of_another_version(copied)
    summary = json.loads(copied.summary.read_text())
    del summary[key]
    copied.summary.write_text(json.dumps(summary))
    write_files_index(copied)
    assert audit(copied).ok


def test_a_page_of_another_version_that_says_something_else_is_not_verified(copied: RunLayout) -> None:
    page = copied.leaderboard_md.read_text()
    copied.leaderboard_md.write_text(page.replace("18 jobs", "12 jobs"))
    header, rest = copied.leaderboard.read_text().split("\n", 1)
    copied.leaderboard.write_text(f"{header},p_of_something\n{rest}")
    of_another_version(copied)
    write_files_index(copied)
    report = audit(copied)
    assert report.ok, report.contradicted
    (claim,) = (claim for claim in report.claims if claim.claim == "tables.leaderboard")
    assert claim.verdict == "unverifiable" and "another version" in claim.says
    assert "12 jobs" in claim.says and "p_of_something" in claim.says


def test_a_number_of_the_table_of_jobs_is_a_copy_in_every_version(copied: RunLayout) -> None:
    table = copied.results_csv.read_text()
    number = next(iter(re.findall(r",(\d+\.\d{3,}),", table)))
    copied.results_csv.write_text(table.replace(number, "9" + number, 1))
    of_another_version(copied)
    assert f"9{number}" in evidence(audit(copied), "tables.results_csv")


# ------------------------------------------------------------------------------------------------------- strangers


def test_a_folder_made_to_hurt_is_read_and_told(copied: RunLayout, tmp_path: Path) -> None:
    first, second, third, fourth = list(copied.job_dirs())[:4]
    outside = tmp_path / "outside.json"
    first.results.rename(outside)
    first.results.symlink_to(outside)
    second.meta.write_text("[" * 100_000)
    third.cassette.unlink()
    os.mkfifo(third.cassette)
    with fourth.state_history.open("wb") as file:
        file.truncate(MAX_LINE + 1)
    for kind in (first.artifacts,):
        (kind / "na\x1b[2Jme\n\u202e").write_text("x")
    (copied.root / os.fsdecode(b"\xff\xfe")).write_text("x")
    (copied.jobs / "loop").symlink_to(copied.root)
    report = audit(copied)
    told = evidence(report, "files.links")
    assert "a link" in told and "a pipe" in told and "jobs/loop" in told
    assert "nested deeper" in evidence(report, "files.schemas")
    assert "\x1b" not in report.model_dump_json() and "\u202e" not in evidence(report, "files.unlisted")


def test_values_of_any_kind_and_size_become_evidence_that_fits(tmp_path: Path) -> None:
    findings = Findings().in_file("f" * 5000)
    for value in ("x" * 10**6, {"k" * 1000: [[[["deep"]]]]}, 10**400, [None] * 10**4, float(10**300)):
        findings.wrong("files.places", "k" * 5000, value, value)
    claims = {claim.claim: claim for claim in findings.claims()}
    assert claims["files.places"].found == 5
    assert len(claims["files.places"].model_dump_json()) < 20_000


def keys() -> Iterator[tuple[str, str]]:
    letters = "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3"
    yield "sk-", f"sk-proj-{letters}"
    yield "AKIA", "AKIA" + "IOSFODNN7" + "EXAMPLE"
    yield "ghp_", f"ghp_{letters[:36]}"
    yield "hf_", f"hf_{letters[:34]}"
    yield "AIza", f"AIza{letters[:35]}"
    yield "----", "-----BEGIN RSA PRIVATE KEY-----"
    yield "Bear", f"Bearer {letters}"


@pytest.mark.parametrize(("beginning", "key"), list(keys()), ids=lambda value: value[:6])
def test_what_looks_like_a_key_is_found_where_two_blocks_meet(beginning: str, key: str) -> None:
    scanner = Scanner({})
    text = b"a" * (OVERLAP * 2) + b' "' + key.encode() + b'" '
    for cut in (len(text) // 2, OVERLAP * 2 + 9, len(text)):
        scanner.begin()
        found = [*scanner.feed(text[:cut]), *scanner.feed(text[cut:])]
        ((place, _, shown),) = found
        assert place == OVERLAP * 2 + 2 and shown.startswith(beginning) and len(shown) == 5


def test_ordinary_text_is_no_key() -> None:
    scanner = Scanner({"MAX_TOKENS": "123456789", "HOME": "/home/someone-here"})
    text = b"task-description-of-something-long risk-2024-something-else hf_hub_download sk-" + b"x" * 25 + b" "
    assert list(scanner.feed(text + b"bearer of the very-long-news-that-we-had 123456789 /home/someone-here")) == []


def test_a_key_in_any_file_is_told_and_not_shown(copied: RunLayout) -> None:
    job = next(copied.job_dirs())
    key = f"sk-ant-{'a1B2' * 10}"
    job.stdout.write_text(f"calling with {key}\nand hunter2-of-mine\n")
    report = audit(copied, environ={"OUR_API_KEY": "hunter2-of-mine"})
    told = evidence(report, "secrets.none")
    assert "byte 13" in told and "variable of this environment" in told
    assert key not in report.model_dump_json() and "hunter2" not in report.model_dump_json()
