"""What jobs and runs of mode real share, in real containers: limits towards the provider, a budget, answers kept."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import OpenAIServer, optimize
from tests.integration.cli import TASKS, cli, run, start, write_config
from tests.integration.test_replay import assert_equal, replay

pytestmark = pytest.mark.docker

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2, "num_threads": 4}}
ONE: dict[str, Any] = {"mode": "real", "tasks": ["internal:numeric_param"], "trainers": [SEARCH]}
PATIENCE = 60.0
"""Seconds in which what has to come comes."""
SOON = 2.0
"""Seconds in which a call that nothing holds back comes."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer() as started:
        yield started


def llm(server: OpenAIServer, **keys: Any) -> dict[str, Any]:
    return {"provider": "openai", "model": "gpt-x", "base_url": server.url,
            "prices": {"prompt": 1.0, "completion": 4.0}, **keys}  # fmt: skip


def calls_of(folder: str | Path) -> list[dict[str, Any]]:
    paths = sorted(Path(folder).glob("jobs/*/llm.jsonl"))
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [line for line in lines if not line["refused"] and line["reused_from"] is None]


def copy_of(home: Path, folder: Path) -> Path:
    """A home of its own, with the same images."""
    return Path(shutil.copytree(home, folder / "home", ignore=lambda _, names: [n for n in names if "lock" not in n]))


class Crowded:
    """A brain that keeps the first calls until each of `temperatures` has one, and then a third for a while.

    Attributes:
        most: how many calls there were at a time.
        met: whether calls of all temperatures were there at a time.
    """

    def __init__(self, *temperatures: float) -> None:
        self._awaited = set(temperatures)
        self._at_work: list[float] = []
        self._change = threading.Condition()
        self._kept = False
        self.most = 0
        self.met = False

    def __call__(self, body: Mapping[str, Any]) -> str:
        with self._change:
            self._at_work.append(body["temperature"])
            self.most = max(self.most, len(self._at_work))
            self._change.notify_all()
            self._change.wait_for(self._all_there, PATIENCE)
            if not self._kept:
                self._change.wait_for(lambda: self.most > 2, SOON)
                self._kept = True
            self._at_work.remove(body["temperature"])
        return optimize(body)

    def await_one(self) -> None:
        """Return once a call is at work."""
        with self._change:
            assert self._change.wait_for(lambda: bool(self._at_work), PATIENCE)

    def _all_there(self) -> bool:
        self.met = self.met or self._awaited <= set(self._at_work)
        return self.met


@pytest.mark.slow
def test_two_runs_at_once_keep_one_limit_of_calls_at_a_time(server: OpenAIServer, images: Path, tmp_path: Path) -> None:
    """One asks one call after the other, so that the second place is the other's, which could use twelve. Each has a
    home of its own."""
    server.answer = crowded = Crowded(0.1, 0.2)
    single = {**SEARCH, "params": {**SEARCH["params"], "num_threads": 1}}
    processes = []
    for temperature, trainer, seeds in ((0.1, single, [1]), (0.2, SEARCH, [1, 2, 3])):
        folder = tmp_path / str(temperature)
        folder.mkdir()
        model = llm(server, temperature=temperature, limits={"concurrent": 2})
        config = write_config(
            folder, mode="real", tasks=ONE["tasks"], trainers=[trainer], llm=model, seeds=seeds, max_workers=3
        )
        home = copy_of(images, folder)
        processes.append(start("run", "--config", str(config), "--root", str(TASKS), home=home))
        if len(processes) == 1:  # else the other run may take both places, and each would wait for the other
            crowded.await_one()
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert crowded.met, "one call of each run at the same time"
    assert crowded.most == 2


@pytest.mark.slow
def test_without_a_limit_more_calls_come_together(server: OpenAIServer, images: Path, tmp_path: Path) -> None:
    server.answer = crowded = Crowded(0.2)
    done = run(tmp_path, images, **ONE, llm=llm(server, temperature=0.2), seeds=[1, 2, 3], max_workers=3)
    assert done["code"] == 0, done["stderr"]
    assert crowded.most > 2


@pytest.mark.slow
def test_dollars_of_a_run_are_counted_exactly_under_four_workers(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    config: dict[str, Any] = {**ONE, "seeds": list(range(1, 9)), "max_workers": 4, "run_id": "shared"}
    limit = 0.02
    cut = run(tmp_path, images, **config, llm=llm(server), budget={"run": {"usd": limit}})
    assert cut["code"] == 1, cut["stderr"]
    calls = calls_of(cut["folder"])
    prices = [Fraction(call["prompt_tokens"] + 4 * call["completion_tokens"], 10**6) for call in calls]
    total = sum(prices, Fraction())
    summary = json.loads(Path(cut["folder"], "summary.json").read_text())
    # Sums of the jobs' own sums: exact but for the last bit of a double.
    assert summary["cost_usd"] == cut["cost_usd"] == pytest.approx(float(total), rel=1e-14)
    assert len(server.asked("/v1/chat/completions")) == len(calls) == summary["llm_calls"]
    assert Fraction("0.02") <= total < Fraction("0.02") + max(prices), "it ends with the answer that reaches the limit"
    ended = {row["stop_reason"] for row in cut["jobs"] if row["cut_by_run_budget"]}
    assert ended == {"budget"} and {row["status"] for row in cut["jobs"]} <= {"ok", "skipped"}
    more = run(tmp_path, images, **config, llm=llm(server), budget={"run": {"usd": 1}})
    assert more["code"] == 0, more["stderr"]
    assert len(server.asked("/v1/chat/completions")) == len(calls_of(more["folder"])), "what was paid is kept"


def test_a_price_that_nobody_knows_is_an_error_before_the_first_call(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    config = write_config(tmp_path, **ONE, llm=llm(server, prices=None), budget={"run": {"usd": 1}})
    done = cli("run", "--config", str(config), home=images)
    assert done.returncode == 2 and "price" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert server.requests == [] and not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_second_run_with_the_cache_asks_nobody_and_goes_the_same_way(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    home = copy_of(images, tmp_path)
    config: dict[str, Any] = {**ONE, "llm": llm(server), "llm_cache": True}
    first = run(tmp_path, home, **config, run_id="first")
    asked = len(server.asked("/v1/chat/completions"))
    second = run(tmp_path, home, **config, run_id="second")
    assert (first["code"], second["code"]) == (0, 0), second["stderr"]
    assert len(server.asked("/v1/chat/completions")) == asked == first["llm_calls"] > 0
    for one, other in zip(first["jobs"], second["jobs"], strict=True):
        for name in ("score_best", "score_initial", "score_final", "llm_calls", "total_tokens"):
            assert one[name] == other[name], name
        assert one["cost_usd"] > 0 == other["cost_usd"] and other["llm_cached"] == other["llm_calls"]
    calls = calls_of(second["folder"])
    assert {call["cached"] for call in calls} == {True}
    assert len({call["request_hash"] for call in calls}) < len({(c["request_hash"], c["slot"]) for c in calls})
    again = replay(second["folder"], tmp_path, home)
    assert_equal(second["folder"], again)
    assert [row["llm_cached"] for row in again["jobs"]] == [row["llm_cached"] for row in second["jobs"]]
