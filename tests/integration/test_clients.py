"""Unmodified `openai` and `litellm` in a hardened container without a network, through the relay to the gateway."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import TASKS
from tests.integration.clients import ANSWER, WEATHER, Clerk, client_image
from trace_bench.artifacts.jsonio import read_model
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import ImageRecord, JobMeta, Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.config import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import catalog_of
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.run_records import write_records
from trace_bench.gateway.server import Gateway
from trace_bench.planning.images import Images
from trace_bench.planning.planner import PlanInputs, jobs_of, pack_tasks, plan_run
from trace_bench.sandbox.docker import DockerBackend

pytestmark = [pytest.mark.docker, pytest.mark.slow]
LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"
CALLS = [["call_0", "weather", {"city": "Paris"}], ["call_1", "weather", {"city": LONG}]]
PHASES = ("train", "score")
OUTSIDER = """
import json, socket
from pathlib import Path
rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
found = {}
for port in [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"]:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as sock:
            # Answered by the relay itself: whoever waits for a model is not in the way.
            sock.sendall(b"nonsense\\r\\n\\r\\n")
            found[port] = sock.recv(12).decode()
    except ConnectionError:
        found[port] = ""
print(json.dumps(found))
"""
BUILD, TRAIN, SCORE, CANDIDATE = 0, 1, 2, 4
"""Offsets of uids in a job's block."""


@dataclass(frozen=True)
class Seen:
    """What came of the job: its row, its folder, what the model was asked, and what the clients got."""

    row: Results
    job: JobLayout
    clerk: Clerk
    got: dict[tuple[str, str, str], Any]

    @property
    def meta(self) -> JobMeta:
        return read_model(JobMeta, self.job.meta.read_bytes())


@pytest.fixture(scope="module")
def seen(images: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    ref, key = client_image(home)
    folder = tmp_path_factory.mktemp("clients")
    config = parse_config({"tasks": ["internal:clients"], "trainers": ["NoOp"], "mode": "stub", "job_timeout": 300,
                           "score_timeout": 300, "runs_dir": str(folder / "runs")})  # fmt: skip
    backend = DockerBackend()
    resolved = resolve(config, catalog_of(config, [TASKS]))
    image = ImageRecord(family="core", ref=ref, key=key)
    jobs = jobs_of(config, resolved)
    material, prepared = pack_tasks(jobs, resolved), Images({image.family: image})
    plan = plan_run(PlanInputs(config, material, jobs, backend, prepared, sources_hash="clients"))
    write_records(plan)
    clerk = Clerk(lambda: _look_in(plan.run_id))
    resources = RunResources(backend, Gateway({"stub": clerk}), plan.layout)
    (planned,) = plan.jobs
    row = Attempt(resources, plan.prepare(planned)).run()
    job = plan.layout.job(planned.job_id)
    lines = [line.removeprefix("CLIENTS ") for line in job.stdout.read_text().splitlines() if "CLIENTS " in line]
    found = [json.loads(line) for line in lines]
    return Seen(row, job, clerk, {(x["phase"], x["client"].removeprefix("With"), x["check"]): x["got"] for x in found})


def _look_in(run_id: str) -> dict[str, dict[str, str]]:
    """For each uid of the block: the ports that listen in the job's container, and what they answer to it."""
    ask = ["docker", "ps", "-q", "--filter", f"label=trace-bench.run={run_id}"]
    container = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    ask = ["docker", "inspect", "-f", '{{index .Config.Labels "trace-bench.uid-base"}}', container]
    base = int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
    found = {}
    for offset in (BUILD, TRAIN, SCORE, CANDIDATE):
        command = ["docker", "exec", "--user", str(base + offset), container, "python3", "-I", "-c", OUTSIDER]
        found[str(offset)] = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return found


def test_the_job_ends_well(seen: Seen) -> None:
    assert (seen.row.status, seen.row.feedback) == ("ok", "")
    failed = {what: got for what, got in seen.got.items() if isinstance(got, str) and "Error" in got}
    assert failed == {}
    assert len(seen.got) == 2 * (20 + 11)


@pytest.mark.parametrize("phase", PHASES)
class TestOpenai:
    @pytest.fixture
    def got(self, seen: Seen, phase: str) -> dict[str, Any]:
        return {check: got for (when, client, check), got in seen.got.items() if (when, client) == (phase, "Openai")}

    def test_an_answer_has_the_jobs_model_and_no_field_of_the_providers_own(self, got: dict[str, Any]) -> None:
        chat = got["chat"]
        assert (chat["text"], chat["model"], chat["tokens"]) == (ANSWER, "stub", 7)
        assert set(chat["whole"]) == {"id", "object", "created", "model", "choices", "usage"}
        assert set(chat["whole"]["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
        assert "secret" not in json.dumps(chat)

    def test_a_stream_is_the_answer_in_pieces(self, got: dict[str, Any]) -> None:
        stream = got["chat_streamed"]
        assert (stream["text"], stream["reason"], stream["tokens"]) == (ANSWER, "stop", None)
        assert stream["pieces"] > 5
        assert got["chat_streamed_with_usage"]["tokens"] == 7
        assert got["stream_helper"]["text"] == ANSWER and "content.delta" in got["stream_helper"]["kinds"]

    def test_tools_are_called_and_told(self, got: dict[str, Any]) -> None:
        assert got["tools"] == {"calls": CALLS, "reason": "tool_calls", "then": "It is 21 degrees."}
        assert (got["tools_streamed"]["calls"], got["tools_streamed"]["reason"]) == (CALLS, "tool_calls")

    def test_json_comes_as_json(self, got: dict[str, Any]) -> None:
        assert got["json_mode"] == got["json_schema"] == WEATHER

    def test_the_other_endpoints_answer(self, got: dict[str, Any]) -> None:
        assert got["embeddings"] == [2, [0.5, -0.25], [0.5, -0.25]]
        assert got["completions"] == ANSWER
        streamed = got["completions_streamed"]
        assert (streamed["text"], streamed["reason"]) == (ANSWER, "stop") and streamed["pieces"] > 5
        assert got["responses"] == {"text": ANSWER, "status": "completed", "tokens": 7}
        assert got["models"] == [["stub"], "stub"]

    def test_a_response_comes_as_a_sequence_of_events(self, got: dict[str, Any]) -> None:
        streamed = got["responses_streamed"]
        assert streamed["text"] == streamed["whole"] == ANSWER and streamed["pieces"] > 5
        assert (streamed["first"], streamed["last"]) == ("response.created", "response.completed")
        assert streamed["ordered"] is True
        weather = {"city": "Paris"}
        assert got["responses_tools"] == {"deltas": weather, "name": "weather", "given": weather}

    def test_calls_go_side_by_side(self, got: dict[str, Any]) -> None:
        assert got["parallel"] == [f"number {i}" for i in range(8)]
        assert got["asynchronous"] == [[f"async {i}" for i in range(8)], ANSWER]

    def test_a_client_that_gives_up_goes_on(self, got: dict[str, Any]) -> None:
        assert got["patience"] == "after"

    def test_what_leads_out_is_refused_as_the_client_expects(self, got: dict[str, Any]) -> None:
        assert got["refusals"] == {
            "another model": ["NotFoundError", 404, "model_not_found"],
            "key": ["BadRequestError", 400, "refused_field"],
            "hosted tool": ["BadRequestError", 400, "refused_tool"],
            "stored": ["BadRequestError", 400, "refused_field"],
            "picture": ["BadRequestError", 400, "refused_address"],
            "other phase": ["BadRequestError", 400, "unknown_header"],
            "files": ["NotFoundError", 404, "unknown_path"],
            "refused upstream": ["BadRequestError", 400, "context_length_exceeded"],
        }

    def test_a_port_serves_its_phase_alone_and_only_while_it_lasts(self, got: dict[str, Any], phase: str) -> None:
        answers = {int(offset): ports for offset, ports in got["outsiders"].items()}
        (port,) = answers[BUILD]
        mine = {"train": TRAIN, "score": SCORE}[phase]
        expected = {offset: {port: "HTTP/1.1 400" if offset == mine else ""} for offset in answers}
        assert answers == expected


@pytest.mark.parametrize("phase", PHASES)
def test_litellm_gets_the_same(seen: Seen, phase: str) -> None:
    got = {check: got for (when, client, check), got in seen.got.items() if (when, client) == (phase, "Litellm")}
    assert got["chat"] == {"text": ANSWER, "tokens": 7}
    assert (got["chat_streamed"]["text"], got["chat_streamed"]["tokens"]) == (ANSWER, 7)
    assert got["chat_streamed"]["pieces"] > 5
    assert got["tools"] == CALLS and got["tools_streamed"]["calls"] == CALLS
    assert got["json_mode"] == WEATHER
    assert got["embeddings"] == [2, [0.5, -0.25]]
    assert got["completions"] == got["responses"] == ANSWER
    assert got["responses_streamed"]["text"] == ANSWER and got["responses_streamed"]["pieces"] > 5
    assert got["responses_streamed"]["last"] == "response.completed"
    assert got["parallel"] == [f"number {i}" for i in range(8)]
    assert got["asynchronous"] == [f"async {i}" for i in range(8)]


def test_who_was_turned_away_is_counted_in_a_warning(seen: Seen) -> None:
    for phase in PHASES:
        assert (
            f"3 connections to the {phase} phase's port for LLM calls came from another uid and were dropped"
            in seen.meta.warnings
        )


def test_what_was_left_out_of_requests_is_a_warning(seen: Seen) -> None:
    left_out = [warning for warning in seen.meta.warnings if warning.startswith("the gateway left ")]
    assert any("'user'" in warning for warning in left_out) and any("'metadata'" in warning for warning in left_out)
    assert all("user" not in request.body and "metadata" not in request.body for request in seen.clerk.asked)


def test_the_model_is_asked_for_answers_and_never_for_streams(seen: Seen) -> None:
    assert {request.path for request in seen.clerk.asked} == {
        "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
    }  # fmt: skip
    for request in seen.clerk.asked:
        assert request.body.keys().isdisjoint({"stream", "stream_options", "api_key", "api_base"})
        assert request.path != "/v1/responses" or request.body["store"] is False


def test_the_cassette_says_which_phase_asked(seen: Seen) -> None:
    lines = read_journal(seen.job.cassette).lines
    phases = [str(line["phase"]) for line in lines]
    assert set(phases) == set(PHASES) and phases == sorted(phases, reverse=True), "train, then score"
    assert [line["request_id"] for line in lines if not str(line["request_id"]).startswith(str(line["phase"]))] == []
