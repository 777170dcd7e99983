"""The service over real HTTP, with evaluations that a test controls."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kernel_server.serving import PATIENCE, Evaluations, body, eventually, serving
from trace_bench.kernel_server.problems import Problems
from trace_bench.kernel_server.submission import LARGEST_BODY


@pytest.fixture
def evaluations() -> Iterator[Evaluations]:
    found = Evaluations()
    yield found
    found.go.set()


@pytest.fixture
def client(evaluations: Evaluations) -> Iterator[httpx.Client]:
    with serving(evaluations) as found:
        yield found


@pytest.fixture(scope="module")
def idle() -> Iterator[httpx.Client]:
    """A client of a server that gets no job."""
    with serving(Evaluations()) as found:
        yield found


def job(client: httpx.Client, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/job/{job_id}").raise_for_status().json()
    return found


def finished(client: httpx.Client, job_id: str) -> dict[str, Any]:
    eventually(lambda: job(client, job_id)["status"] in ("completed", "failed"))
    return job(client, job_id)


def submitted(client: httpx.Client, *arguments: Any, **fields: Any) -> str:
    reply = client.post("/evaluate", json=body(*arguments, **fields)).raise_for_status().json()
    assert reply.keys() == {"job_id", "status"} and reply["status"] == "queued"
    return str(reply["job_id"])


def test_a_client_submits_a_job_and_asks_until_it_is_completed(client: httpx.Client, evaluations: Evaluations) -> None:
    assert client.get("/").json().keys() == {"message"}
    job_id = submitted(client, "wait", 7, level=1, timeout=300)
    eventually(lambda: job(client, job_id)["status"] == "running")
    assert client.get("/status").json() == {
        "server_status": "running",
        "device_status": {"cpu": "busy"},
        "queue_info": {"queued_jobs": 0, "active_jobs": 1, "completed_jobs": 0, "available_devices": 0},
    }
    evaluations.go.set()
    found = finished(client, job_id)
    assert found["status"] == "completed" and found["error"] is None and found["device"] == "cpu"
    assert found["result"]["runtime"] == 7.0
    assert found["queued_at"] <= found["started_at"] <= found["completed_at"]
    assert client.get("/status").json()["device_status"] == {"cpu": "idle"}


def test_jobs_of_a_device_run_one_after_another_in_order(client: httpx.Client, evaluations: Evaluations) -> None:
    ids = [submitted(client, "wait", number) for number in range(5)]
    eventually(lambda: evaluations.begun)
    listed = client.get("/jobs").json()
    assert [row["job_id"] for row in listed["active_jobs"]] == ids and listed["completed_jobs"] == []
    assert [row["status"] for row in listed["active_jobs"]] == ["running", *["queued"] * 4]
    evaluations.go.set()
    for job_id in ids:
        finished(client, job_id)
    assert evaluations.begun == [0, 1, 2, 3, 4] and evaluations.most_at_once == 1


def test_several_devices_work_at_once(evaluations: Evaluations) -> None:
    with serving(evaluations, devices=("first", "second")) as client:
        ids = [submitted(client, "wait", number) for number in range(3)]
        eventually(lambda: evaluations.at_once == 2)
        assert client.get("/status").json()["device_status"] == {"first": "busy", "second": "busy"}
        evaluations.go.set()
        assert {finished(client, job_id)["device"] for job_id in ids} == {"first", "second"}


def test_a_full_queue_refuses_with_the_time_to_wait(evaluations: Evaluations) -> None:
    with serving(evaluations, room=2) as client:
        submitted(client, "wait")
        eventually(lambda: evaluations.begun)
        submitted(client, "wait")
        submitted(client, "wait")
        for path in ("/evaluate", "/evaluate_sync"):
            refused = client.post(path, json=body())
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
            assert refused.json()["detail"] == "2 jobs wait already; try again later"


def test_the_timeout_of_a_synchronous_request_counts_its_time_in_the_queue(
    client: httpx.Client, evaluations: Evaluations
) -> None:
    submitted(client, "wait", 1)
    reply = client.post("/evaluate_sync", json=body("wait", 2, timeout=1))
    assert reply.status_code == 408
    assert "timeout of 1 s" in reply.json()["detail"]
    assert client.get("/status").json()["queue_info"]["queued_jobs"] == 0
    evaluations.go.set()
    eventually(lambda: evaluations.ended == [1])
    assert evaluations.begun == [1]


def test_a_timeout_ends_the_evaluation(client: httpx.Client, evaluations: Evaluations) -> None:
    assert client.post("/evaluate_sync", json=body("wait", 1, timeout=1)).status_code == 408
    found = finished(client, submitted(client, "wait", 2, timeout=1))
    assert found["status"] == "failed" and found["result"] is None
    assert found["error"] == "the evaluation took longer than its timeout of 1 s"
    assert evaluations.ended == [1, 2]


def test_the_timeout_of_a_queued_job_counts_from_its_start(client: httpx.Client, evaluations: Evaluations) -> None:
    submitted(client, "wait", 1, timeout=2)
    second = submitted(client, "a kernel", 2, timeout=1)
    assert finished(client, second)["status"] == "completed"


@pytest.mark.parametrize("runs", [True, False])
def test_a_client_that_hangs_up_ends_its_job(client: httpx.Client, evaluations: Evaluations, runs: bool) -> None:
    if not runs:
        submitted(client, "wait", 1)
        eventually(lambda: evaluations.begun == [1])
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{client.base_url}/evaluate_sync", json=body("wait", 2), timeout=0.5)
    if runs:
        eventually(lambda: evaluations.ended == [2])
    else:
        eventually(lambda: client.get("/status").json()["queue_info"]["queued_jobs"] == 0)
        assert evaluations.begun == [1]


def test_a_body_that_breaks_off_is_no_job(client: httpx.Client, evaluations: Evaluations) -> None:
    address = (client.base_url.host, client.base_url.port or 0)
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(
            b"POST /evaluate HTTP/1.1\r\nHost: localhost:1\r\nContent-Type: application/json\r\n"
            b'Content-Length: 1000\r\n\r\n{"problem_id": 1'
        )
    submitted(client)
    eventually(lambda: evaluations.ended)
    assert len(client.get("/jobs").json()["completed_jobs"]) == 1


def test_a_failure_is_a_sentence_and_the_server_goes_on(client: httpx.Client) -> None:
    failed = client.post("/evaluate_sync", json=body("fail")).raise_for_status().json()
    assert (failed["status"], failed["result"]) == ("failed", None)
    assert failed["error"] == "task: the reference is at fault"
    broken = client.post("/evaluate_sync", json=body("break")).raise_for_status().json()
    assert broken["error"] == "the server failed; its log says why"
    assert client.post("/evaluate_sync", json=body()).json()["status"] == "completed"


def test_an_unknown_job_is_not_found(idle: httpx.Client) -> None:
    client = idle
    assert client.get("/job/nope").status_code == 404
    assert client.get("/nope").status_code == 404
    assert client.get("/evaluate").status_code == 405


def test_finished_jobs_expire_by_number_and_by_age(evaluations: Evaluations) -> None:
    with serving(evaluations, kept=2) as client:
        ids = [submitted(client, "a kernel", number) for number in range(4)]
        eventually(lambda: len(evaluations.ended) == 4)
        eventually(lambda: client.get("/status").json()["queue_info"]["active_jobs"] == 0)
        assert [client.get(f"/job/{job_id}").status_code for job_id in ids] == [404, 404, 200, 200]
        assert [row["job_id"] for row in client.get("/jobs").json()["completed_jobs"]] == [ids[3], ids[2]]
    with serving(evaluations, kept_seconds=0.0) as client:
        job_id = submitted(client)
        eventually(lambda: client.get(f"/job/{job_id}").status_code == 404)


@pytest.mark.parametrize(
    ("content", "status", "named"),
    [
        (b"", 400, "body"),
        (b"\xff", 400, "not UTF-8"),
        (b'{"problem_id": NaN}', 400, "NaN"),
        (b'{"a": "\\ud800"}', 400, "body"),
        (b"[" * 100_000, 400, "body"),
        (b"{}", 422, "problem_id"),
        ({"problem_id": -1}, 422, "problem_id"),
        ({"sample_id": None}, 422, "sample_id"),
        ({"custom_cuda": ""}, 422, "custom_cuda"),
        ({"ref_arch_src": None}, 422, "ref_arch_src"),
        ({"level": "one"}, 422, "level"),
        ({"timeout": 0}, 422, "timeout"),
        ({"timeout": 3601}, 422, "timeout"),
        ({"custom_cuda": "x" * LARGEST_BODY}, 413, "bytes"),
    ],
)
def test_a_request_that_cannot_be_evaluated_is_refused_by_name(
    idle: httpx.Client, content: bytes | dict[str, Any], status: int, named: str
) -> None:
    sent = content if isinstance(content, bytes) else json.dumps(body(**content)).encode()
    for path in ("/evaluate", "/evaluate_sync"):
        refused = idle.post(path, content=sent, headers={"content-type": "application/json"})
        assert refused.status_code == status, refused.text
        said = refused.json()["detail"]
        assert named in said and "\n" not in said and len(said) < 300


def test_only_json_is_read(idle: httpx.Client) -> None:
    sent = json.dumps(body())
    assert idle.post("/evaluate", content=sent).status_code == 415
    assert idle.post("/evaluate", content=sent, headers={"content-type": "text/plain"}).status_code == 415


def test_a_client_may_leave_out_or_null_what_is_optional(client: httpx.Client) -> None:
    for fields in ({}, {"level": None, "timeout": None}, {"level": 2, "backend": "cuda"}):
        assert client.post("/evaluate_sync", json=body(**fields)).json()["status"] == "completed"


def test_a_token_is_asked_for_at_every_address(evaluations: Evaluations) -> None:
    token = "a-token-that-is-long-enough"
    with serving(evaluations, token=token) as client:
        for path in ("/", "/status", "/jobs", "/job/x", "/nope"):
            for given in ({}, {"authorization": f"Bearer {token}x"}, {"authorization": token}, {"authorization": "é"}):
                headers = {key: value.encode() for key, value in given.items()}
                refused = client.get(path, headers=headers)
                assert refused.status_code == 401 and "token" in refused.json()["detail"]
        assert client.post("/evaluate", json=body()).status_code == 401
        allowed = client.post("/evaluate_sync", json=body(), headers={"authorization": f"Bearer {token}"})
        assert allowed.json()["status"] == "completed"


def test_without_a_token_only_names_of_this_machine_are_answered(idle: httpx.Client) -> None:
    for name, status in (("localhost", 200), ("127.0.0.1:9", 200), ("[::1]:9", 200), ("evil.example:9", 403)):
        assert idle.get("/", headers={"host": name}).status_code == status, name


def test_a_server_that_stops_ends_its_jobs_and_answers_their_clients(evaluations: Evaluations) -> None:
    with ThreadPoolExecutor(2) as pool:
        with serving(evaluations) as client:
            ask = f"{client.base_url}/evaluate_sync"
            replies = [pool.submit(httpx.post, ask, json=body("wait", n), timeout=PATIENCE) for n in (1, 2)]
            eventually(lambda: client.get("/status").json()["queue_info"]["queued_jobs"] == 1)
        assert evaluations.begun == evaluations.ended and evaluations.at_once == 0
        assert {reply.result().json()["error"] for reply in replies} == {"the server is stopping"}


def test_many_clients_at_once_all_get_their_own_results(client: httpx.Client, evaluations: Evaluations) -> None:
    def ask(number: int) -> Any:
        return client.post("/evaluate_sync", json=body(sample_id=number)).json()

    with ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(ask, range(30)))
    assert [reply["result"]["runtime"] for reply in replies] == list(range(30))
    assert evaluations.most_at_once == 1


OFFICIAL = "class Model: ...\n\ndef get_inputs(): ...\n\ndef get_init_inputs(): ...\n"


def test_official_problems_are_named_by_level_and_id(evaluations: Evaluations, tmp_path: Path) -> None:
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "19_ReLU.py").write_text(OFFICIAL)
    with serving(evaluations, problems=Problems.below([tmp_path])) as client:
        named = {"level": 1, "problem_id": 19, "ref_arch_src": OFFICIAL}
        same = {"ref_arch_src": OFFICIAL.replace("\n", "\r\n").rstrip()}
        for fields in ({}, same):
            assert client.post("/evaluate_sync", json=body(**{**named, **fields})).json()["status"] == "completed"
        others = [({"level": None}, "level"), ({"problem_id": 20}, "problem_id"), ({"level": 2}, "problem_id")]
        for other, field in [*others, ({"ref_arch_src": f"{OFFICIAL}x = 1"}, "ref_arch_src")]:
            refused = client.post("/evaluate_sync", json=body(**{**named, **other}))
            assert refused.status_code == 422 and f"$.{field}: " in refused.json()["detail"]
