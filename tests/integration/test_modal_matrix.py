"""A matrix on backend modal comes to what it comes to on Docker, and nothing of the host goes there."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.openai_server import Behaviour, OpenAIServer
from tests.integration.cli import TASKS, history, run, start, write_config
from tests.integration.files import check_files
from tests.integration.modal_runs import Pushed, job_of, on_modal
from tests.integration.test_interruption import wait_for

if TYPE_CHECKING:
    from tests.modal_server.server import ModalServer

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
MATRIX: dict[str, Any] = {
    "tasks": ["internal:numeric_param", "llm4ad:circle_packing"],
    "trainers": ["NoOp", SEARCH],
    "seeds": [1, 2],
    "max_workers": 4,
}
DIFFERS = {"run_id", "backend", "seconds", "train_seconds", "time_seconds", "t", "latency", "host"}
"""Which run it is, where, when, and how long it took."""
OF_THE_SALT = {"score_test"}
KEY = "sk-of-nobody-8f3a1c77"


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def found_in(result: dict[str, Any]) -> dict[str, Any]:
    """All of a run that must be the same wherever it ran, by job."""
    folder = Path(result["folder"])
    return {
        row["job_id"]: without(
            {
                "row": row,
                "history": history(result, row),
                "cassette": lines(job_folder / "llm.jsonl"),
                "states": {path.name: path.read_text() for path in sorted(job_folder.glob("artifacts/*_state.yaml"))},
                "events": lines(job_folder / "events.jsonl"),
            },
            DIFFERS | OF_THE_SALT,
        )
        for row in result["jobs"]
        for job_folder in [folder / "jobs" / row["job_id"]]
    }


def test_a_matrix_on_modal_comes_to_what_it_comes_to_on_docker(
    pushed: Pushed, modal_server: ModalServer, tmp_path: Path
) -> None:
    for name in ("modal", "docker"):
        (tmp_path / name).mkdir()
    there = run(tmp_path / "modal", pushed.home, **MATRIX, **on_modal())
    assert (there["code"], len(there["jobs"])) == (0, 8), there["stderr"]
    here = run(tmp_path / "docker", pushed.home, **MATRIX)
    assert found_in(there) == found_in(here)
    assert sum(row["llm_calls"] for row in there["jobs"]) > 8, "there was something to compare"

    folder = Path(there["folder"])
    assert check_files(folder) > 8 * 15
    assert {row["backend"] for row in there["jobs"]} == {"modal"}
    made = modal_server.sandboxes()
    assert Counter(map(job_of, made)) == Counter(row["job_id"] for row in there["jobs"])
    assert all(sandbox.blocked for sandbox in made), "the network is blocked"
    for row in there["jobs"]:
        meta = json.loads((folder / "jobs" / row["job_id"] / "job_meta.json").read_text())
        assert meta["image"]["ref"] in pushed.names and meta["integrity"] == "protected"
        lacking = {control["name"] for control in meta["controls"] if not control["in_force"]}
        assert "pids" in lacking and not lacking & {"network", "capabilities", "no_new_privileges"}


# -- what goes there --------------------------------------------------------------------------------------------------


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as server:
        server.choose = lambda asked: Behaviour(delay=0.3)
        yield server


def inside_of(container: str) -> bytes:
    """What a job could read there: command lines and environments of all processes, and the files that were written."""
    code = (
        "for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do cat $f 2>/dev/null; done; "
        "find /dev/shm /tmp /run /out /root /var/tmp -type f -exec cat {} + 2>/dev/null; true"
    )
    return subprocess.run(["docker", "exec", container, "sh", "-c", code], capture_output=True, check=False).stdout


def test_no_key_and_no_address_leaves_the_host(
    provider: OpenAIServer, pushed: Pushed, modal_server: ModalServer, tmp_path: Path
) -> None:
    llm = {"provider": "openai", "model": "gpt-x", "base_url": provider.url}
    config = write_config(
        tmp_path, mode="real", tasks=["internal:numeric_param"], trainers=[SEARCH], seeds=[1], llm=llm, **on_modal()
    )
    inside: list[bytes] = []
    process = start("run", "--config", str(config), "--root", str(TASKS), home=pushed.home)
    try:
        wait_for(lambda: provider.asked("/v1/chat/completions"))
        (sandbox,) = modal_server.running()
        inside.append(inside_of(f"modal-{sandbox.id}"))
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()
    assert {asked.headers["authorization"] for asked in provider.requests} == {f"Bearer {KEY}"}
    everything = b"\0".join([*(call.message.SerializeToString() for call in modal_server.calls()), *inside])
    assert b"trace-bench.job" in everything and b"trace_bench.worker" in inside[0], "it was looked at"
    address = provider.url.split("//")[1].split("/")[0]
    port = f":{address.rpartition(':')[2]}"
    for secret in (KEY, address, port, *modal_server.credentials):
        assert secret.encode() not in everything, secret
