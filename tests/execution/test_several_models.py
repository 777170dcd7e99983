"""Runs with several models, and what is settled about them before the first call."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.bench import Bench
from trace_bench.artifacts.records import Lock, ModelPrices
from trace_bench.config import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.execution.providers import limits_folder, providers_of
from trace_bench.execution.run_records import write_records
from trace_bench.execution.start import run_config
from trace_bench.gateway.base import ProviderReply, ProviderRequest
from trace_bench.gateway.masked import masked
from trace_bench.gateway.stub import StubProvider
from trace_bench.matrix import models_of
from trace_bench.planning.completion import complete_models
from trace_bench.planning.models import with_models
from trace_bench.planning.prices import prices_of
from trace_bench.secrets import known

TWO = [
    {"model": "gpt-x", "provider": "openai", "prices": {"prompt": 1.0, "completion": 4.0}},
    {"model": "gpt-x", "provider": "openai", "id": "warm", "temperature": 1.0, "prices": {"prompt": 2.0}},
]
KEY = "planted-0123456789"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    known.clear()


def config(**keys: object) -> RunConfig:
    return with_models(parse_config({"tasks": ["internal:numeric_param"], "mode": "real", **keys}), {})


def test_each_model_has_jobs_of_its_own_and_each_says_which(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    plan = bench.plan(mode="real", llms=TWO, seeds=[1, 2])
    assert [job.model for job in plan.jobs[:4]] == ["gpt-x", "gpt-x", "warm", "warm"]
    assert len({job.job_id for job in plan.jobs}) == len({job.fingerprint for job in plan.jobs}) == len(plan.jobs) == 16
    write_records(plan)
    entries = json.loads(plan.layout.manifest.read_text())["jobs"]
    assert [entry["model"] for entry in entries] == [job.model for job in plan.jobs]


def test_a_job_has_the_same_fingerprint_whichever_models_stand_beside_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    both = {job.job_id: job.fingerprint for job in bench.plan(mode="real", llms=TWO).jobs}
    for alone in TWO:
        for job in bench.plan(mode="real", llms=[alone]).jobs:
            assert both[job.job_id] == job.fingerprint


def test_the_prices_that_a_run_began_with_stay(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bare = [{"model": "gpt-x", "provider": "openai"}]
    first = bench.plan(mode="real", llms=bare)
    lock = first.lock.model_copy(update={"prices": {"gpt-x": ModelPrices(prompt=3.0)}})
    write_records(first)
    first.layout.lock.write_text(lock.model_dump_json())
    again = bench.plan(mode="real", llms=bare)
    assert again.run_id == first.run_id and again.lock.prices == {"gpt-x": ModelPrices(prompt=3.0)}
    assert Lock.model_validate_json(first.layout.lock.read_text()).prices == again.lock.prices


def test_prices_are_the_configs_else_those_of_the_table() -> None:
    warned: list[str] = []
    known_ones = prices_of(config(llms=[*TWO, "openai/gpt-4o-mini"]), warned)
    assert known_ones["gpt-x"] == ModelPrices(prompt=1.0, completion=4.0) and known_ones["warm"].prompt == 2.0
    assert 0 < known_ones["gpt-4o-mini"].prompt < known_ones["gpt-4o-mini"].completion < 100
    assert warned == []


def test_a_price_that_is_not_known_is_a_warning_and_with_a_budget_of_dollars_a_mistake() -> None:
    warned: list[str] = []
    assert prices_of(config(llm={"model": "gpt-nobody-knows"}), warned) == {}
    assert len(warned) == 1 and "the price of gpt-nobody-knows is not known" in warned[0]
    for budget in ({"usd": 1.0}, {"run": {"usd": 1.0}}):
        with pytest.raises(ConfigError, match=r"usd: the price of gpt-nobody-knows is not known.*write llm.prices"):
            prices_of(config(llm={"model": "gpt-nobody-knows"}, budget=budget), [])
        assert prices_of(config(llms=TWO, budget=budget), []) != {}
    assert prices_of(config(llm={"model": "gpt-nobody-knows"}, budget={"tokens": 5}), []) == {}


def test_every_model_of_a_run_has_its_provider_and_only_real_ones_cost() -> None:
    whole = config(llms=[*TWO, "stub", {"model": "stub", "id": "again"}])
    with providers_of(whole, prices_of(whole, []), {"OPENAI_API_KEY": KEY}) as providers:
        assert {name: provider.paid for name, provider in providers.items()} == {
            "gpt-x": True, "warm": True, "stub": False, "again": False,
        }  # fmt: skip
        assert KEY not in repr(providers)


def test_all_homes_of_a_user_count_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BENCH_LOCK_DIR", str(tmp_path))
    folders = set()
    for home in ("one", "another"):
        monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / home))
        folders.add(limits_folder())
    (folder,) = folders
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("taken", ["a link", "a file", "somebody else's"])
def test_a_folder_of_counts_that_is_not_ones_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.setenv("TRACE_BENCH_LOCK_DIR", str(tmp_path))
    place = tmp_path / f"limits-{os.getuid()}"
    if taken == "a link":
        place.symlink_to(tmp_path)
    elif taken == "a file":
        place.write_text("")
    else:
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        (tmp_path / f"limits-{mine + 1}").mkdir()
    with pytest.raises(EnvironmentUnavailable, match="is not a folder of yours; have it removed"):
        limits_folder()


class Echo(StubProvider):
    """A provider that says what it should not."""

    def complete(self, request: ProviderRequest) -> ProviderReply:
        return ProviderReply(401, {"error": {"message": f"bad key {KEY}"}}, sent={"user": KEY})


def test_what_a_provider_echoes_is_masked_before_anybody_sees_it() -> None:
    known.add([KEY])
    request = ProviderRequest("/v1/chat/completions", {}, None, 1, "0" * 64)  # type: ignore[arg-type]
    reply = masked(lambda: Echo().complete(request))
    assert reply.body == {"error": {"message": "bad key ***"}} and reply.sent == {"user": "***"}


def test_without_litellm_mode_real_ends_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)  # what importlib takes for "not there"
    given = parse_config({"tasks": ["internal:numeric_param"], "mode": "real", "llms": TWO, "runs_dir": "made"})
    with pytest.raises(EnvironmentUnavailable, match=r"pip install 'trace-bench\[llm\]'"):
        run_config(given)
    assert list(tmp_path.iterdir()) == []
    warned: list[str] = []
    assert set(prices_of(config(llms=[*TWO, "gpt-4o-mini"]), warned)) == {"gpt-x", "warm"}
    assert len(warned) == 1 and "without it the price of gpt-4o-mini is not known" in warned[0]


def test_built_in_models_stand_beside_real_ones_each_with_jobs_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "rules.yaml"
    script.write_text("rules:\n  - text: hello\n")
    llms = [*TWO, "stub", f"scripted:{script}"]
    beside = complete_models(parse_config({"tasks": ["internal:numeric_param"], "mode": "real", "llms": llms}))
    assert [model["id"] for model in models_of(beside)] == ["gpt-x", "warm", "stub", "scripted:rules"]
    with providers_of(beside, {}, {"OPENAI_API_KEY": KEY}) as providers:
        assert set(providers) == {"gpt-x", "warm", "stub", "scripted:rules"}
