"""A provider whose model thinks, from its socket to the evaluated program: the draft stays in the record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import Behaviour, OpenAIServer
from tests.integration.cli import history, run

RIGHT = """import itertools


def encode(text):
    return "".join(letter + str(len(list(run))) for letter, run in itertools.groupby(text))
"""
TASK = "internal:code_param"


def draft(number: int) -> str:
    return f"def encode(text):\n    return text[:{number}]  # DRAFT\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A provider that thinks in two places: beside the content, and in a block in it, behind a line end."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    numbers = itertools.count(1)

    def think(body: Mapping[str, Any]) -> str:
        return f"\n<think>\nA draft:\n```python\n{draft(next(numbers))}```\n</think>\n{RIGHT}"

    def beside(body: dict[str, Any]) -> None:
        body["choices"][0]["message"]["reasoning_content"] = f"Maybe this:\n```python\n{draft(99)}```"

    with OpenAIServer(think) as started:
        started.choose = lambda asked: Behaviour(then=beside)
        yield started


def lines(got: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (row,) = got["jobs"]
    return [json.loads(line) for line in Path(got["folder"], "jobs", row["job_id"], name).read_text().splitlines()]


def search(server: OpenAIServer, folder: Path, trainer: dict[str, Any], **keys: Any) -> dict[str, Any]:
    llm = {"provider": "openai", "model": "gpt-x", "base_url": server.url, "prices": {"prompt": 1.0, "completion": 4.0}}
    got = run(
        folder,
        folder / "home",
        mode="real",
        backend="local",
        tasks=[TASK],
        trainers=[trainer],
        seeds=[1],
        llm=llm,
        **keys,
    )
    assert got["code"] == 0, got["stderr"]
    return got


def test_the_answer_is_evaluated_and_the_draft_is_in_the_cassette(server: OpenAIServer, tmp_path: Path) -> None:
    alone = Behaviour(text=f"\n<think>\n```python\n{RIGHT}```\n")
    cut = Behaviour(text=f"```python\n{RIGHT}```\n" * 2, finish="length")
    server.script(alone, cut)
    got = search(server, tmp_path, {"id": "EoH", "params": {"population_size": 1, "num_steps": 1, "operators": ["e1"]}})
    (row,) = got["jobs"]
    assert (row["score_initial"], row["score_best"]) == (0.0, 1.0)
    programs = [str(line["parameters"]) for line in history(got, row)]
    assert not any("DRAFT" in program for program in programs) and any("groupby" in program for program in programs)
    said = [line["response"]["choices"][0]["message"] for line in lines(got, "llm.jsonl")][2:]
    assert said and all("DRAFT" in message["content"] for message in said)
    assert all("text[:99]" in message["reasoning_content"] for message in said)
    told = [line for line in lines(got, "events.jsonl") if line["event"] == "proposal.unusable"]
    assert [(line["kind"], line["reason"]) for line in told] == [
        ("reasoning_only", "the message is reasoning alone, which does not end"),
        ("cut_off", "the answer was cut off at max_tokens"),
    ]
