"""A run that asked a provider over HTTP is repeated without it: no provider, no key, no litellm, another folder."""

from __future__ import annotations

import csv
import itertools
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import (
    CUT_SHORT,
    DROPPED,
    MALFORMED,
    NO_USAGE,
    OUT_OF_TOKENS,
    PLAIN,
    OpenAIServer,
    failing,
    optimize,
    rate_limited,
)
from tests.integration.cli import TASKS, cli, result_of, run
from tests.integration.files import check_files
from tests.integration.test_replay import assert_equal, rows

pytestmark = pytest.mark.docker

KEY = "sk-of-this-test-0123456789"
SIZES = {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}
SEARCH = {"id": "PrioritySearch", "params_variants": [SIZES, {**SIZES, "num_threads": 4}]}
FOUR_THREADS = {"id": "PrioritySearch", "params": {**SIZES, "num_threads": 4}}
TASKS_ASKED = ["internal:numeric_param", {"id": "llm4ad:circle_packing", "eval_kwargs": {"n": 7}}]
NO_LITELLM = "raise ImportError('litellm is not to be imported by a replay')\n"


class Moody:
    """A brain that never says the same twice, so that an answer at the wrong place is seen in what comes of it."""

    def __init__(self) -> None:
        self._draws = random.Random(5)
        self._count = itertools.count()

    def __call__(self, body: Mapping[str, Any]) -> str:
        said = json.loads(optimize(body))
        said["reasoning"] += f" This is answer {next(self._count)}."
        for name, value in said["suggestion"].items():
            if isinstance(value, float):
                said["suggestion"][name] = value + self._draws.uniform(-0.5, 0.5)
        return json.dumps(said)


@pytest.fixture(scope="module")
def recorded(
    request: pytest.FixtureRequest, images: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """A run of two models at a provider with all its moods. It lies elsewhere now, and the provider is gone.

    Under --full it has jobs of one thread too.
    """
    trainer = SEARCH if request.config.getoption("--full") else FOUR_THREADS
    folder = tmp_path_factory.mktemp("real")
    bad = [failing(500), rate_limited("0"), DROPPED, CUT_SHORT, MALFORMED, NO_USAGE, OUT_OF_TOKENS]
    with OpenAIServer(Moody()) as server:
        server.script(*(behaviour for one in bad for behaviour in (PLAIN, one)))
        model = {"provider": "openai", "base_url": server.url, "model": "gpt-x", "api_key_env": "MY_KEY",
                 "prices": {"prompt": 1.0, "completion": 4.0, "cached": 0.5}}  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MY_KEY", KEY)
            done = run(
                folder, images, mode="real", tasks=TASKS_ASKED, trainers=[trainer], seeds=[1], max_workers=4,
                llms=[model, {**model, "id": "warm", "temperature": 0.9}],
            )  # fmt: skip
        asked = server.asked("/v1/chat/completions")
    assert done["code"] == 0, done["stderr"]
    copy = Path(shutil.move(done["folder"], tmp_path_factory.mktemp("elsewhere") / "copy"))
    yield {**done, "folder": str(copy), "asked": asked, "bad": bad}


def calls_of(folder: str | Path) -> list[dict[str, Any]]:
    paths = sorted(Path(folder).glob("jobs/*/llm.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def states_of(folder: str | Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).glob("jobs/*/artifacts/*.yaml")}


def test_every_total_is_the_sum_over_the_cassettes_and_every_request_is_a_try(recorded: dict[str, Any]) -> None:
    calls = calls_of(recorded["folder"])
    tries = [one for call in calls for one in call["tries"]]
    assert len(tries) == len(recorded["asked"]), "every request that the provider saw"
    assert sum(one["status"] != 200 for one in tries) == len(recorded["bad"]) - 2, "the last two are answers"
    assert [call["estimated"] for call in calls].count(True) == 1, "the one without a usage"
    summary = json.loads(Path(recorded["folder"], "summary.json").read_text())
    with Path(recorded["folder"], "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    results = [json.loads(path.read_text()) for path in Path(recorded["folder"]).glob("jobs/*/results.json")]
    for name in ("prompt_tokens", "completion_tokens"):
        counted = sum(call[name] for call in calls)
        assert counted > 0
        assert counted == sum(int(row[name]) for row in table) == sum(row[name] for row in results)
        assert counted == summary["token_totals"][name.removesuffix("_tokens")]
    cost = sum(call["cost_usd"] for call in calls)
    assert cost > 0 and summary["cost_usd"] == pytest.approx(cost, rel=1e-12)
    paid = sum(call["prompt_tokens"] + 4 * call["completion_tokens"] for call in calls) / 1e6
    assert cost == pytest.approx(paid, rel=1e-12)
    assert summary["llm_calls"] == len(calls) == sum(int(row["llm_calls"]) for row in table)


def test_identical_requests_have_seeds_of_their_own_and_what_was_sent_is_recorded(recorded: dict[str, Any]) -> None:
    calls = calls_of(recorded["folder"])
    seeds = [call["sent"]["seed"] for call in calls]
    assert len(set(seeds)) == len({(call["request_hash"], call["slot"]) for call in calls}), "of jobs that ask the same"
    assert set(seeds) == {asked.body["seed"] for asked in recorded["asked"]}
    equal = [call["request_hash"] for call in calls]
    assert len(set(equal)) < len(equal), "two proposals of one prompt"


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.slow), "4"])
def test_it_comes_out_equal_without_provider_key_and_litellm(
    recorded: dict[str, Any], images: Path, tmp_path: Path, workers: str
) -> None:
    (tmp_path / "litellm").mkdir()
    (tmp_path / "litellm" / "__init__.py").write_text(NO_LITELLM)
    done = cli(
        "run", "--replay", recorded["folder"], "--root", str(TASKS), "--runs-dir", str(tmp_path / "again"), "--json",
        "--max-workers", workers, home=images, PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = {**result_of(done.stdout), "code": done.returncode, "stderr": done.stderr}
    again["report"] = json.loads(Path(again["folder"], "meta", "replay.json").read_text())
    assert_equal(recorded["folder"], again)
    assert states_of(again["folder"]) == states_of(recorded["folder"])
    count = len(rows(again["folder"]))
    assert count == len(recorded["jobs"]) >= 4 and check_files(again["folder"]) > count * 10
