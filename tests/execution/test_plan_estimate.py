"""Which hosts take which jobs, and what sandboxes cost at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.planning.test_backends import _config
from trace_bench.artifacts.contract import JobLimits
from trace_bench.config.models import SandboxConfig
from trace_bench.config.places import ModalPricesConfig
from trace_bench.errors import SandboxError
from trace_bench.execution.plan_estimate import PlanEstimate, bound_of, estimate_plan
from trace_bench.planning.prepare import most_seconds
from trace_bench.sandbox.base import Host, Traits

PRICES = ModalPricesConfig(cpu_core_hour=0.1, memory_gib_hour=0.02, gpu_hour={"H100": 4.0})
SMALL, BIG = SandboxConfig(cpus=1.0, memory=1 << 30), SandboxConfig(cpus=2.0, memory=4 << 30, gpus=2, labels=("lab",))
LIMITS = {"job_timeout": 3000.0, "score_timeout": 600.0}


def _plan(hosts: Any, backend: str, sandboxes: Any, *, limits: Any = LIMITS, **config: Any) -> Any:
    def listed() -> Any:
        if isinstance(hosts, Exception):
            raise hosts
        return hosts

    jobs = [
        SimpleNamespace(decision=decision, job=SimpleNamespace(sandbox=sandbox, limits=limits))
        for decision, sandbox in sandboxes
    ]
    traits = Traits(is_service=backend == "modal")
    there = SimpleNamespace(name=backend, traits=traits, hosts=listed)
    return SimpleNamespace(jobs=jobs, backend=there, config=_config(**config))


def _estimate(*args: Any, **kwargs: Any) -> PlanEstimate:
    return estimate_plan(_plan(*args, **kwargs))


def test_hosts_take_what_they_can_and_say_why_they_do_not_take_the_rest() -> None:
    hosts = [Host("near", gpus=("0",)), Host("far", gpus=("0", "1"), labels=frozenset({"lab"}))]
    more = SandboxConfig(labels=("none",))
    jobs = [("run", SMALL)] * 3 + [("run", BIG)] * 2 + [("adopt", more), ("reuse", BIG), ("skip", BIG)]
    found = _estimate(hosts, "docker", jobs)
    near, far = found.hosts
    assert (near.can_run, near.why_not) == (3, {"has no label 'lab'": 2, "has no label 'none'": 1})
    assert (far.can_run, far.why_not) == (5, {"has no label 'none'": 1})
    assert found.bound is None


def test_an_engine_that_does_not_answer_is_said_and_ends_no_plan() -> None:
    found = _estimate(SandboxError("the engine does not answer"), "docker", [("run", SMALL)])
    assert (found.hosts, found.problem) == ((), "the engine does not answer")


def test_the_bound_is_how_long_the_service_lets_sandboxes_live_times_prices_times_attempts() -> None:
    prices = {"cpu_core_hour": 0.1, "memory_gib_hour": 0.02, "gpu_hour": {"H100": 4.0}}
    found = _estimate(
        [Host("modal")], "modal", [("run", SMALL), ("run", BIG), ("reuse", BIG)],
        modal={"gpu": "H100", "prices": prices}, retries=1,
    ).bound  # fmt: skip
    assert found is not None and (found.jobs, found.attempts, found.unlimited_jobs) == (2, 2, 0)
    life = most_seconds(JobLimits(**LIMITS), 60.0)
    assert life is not None and life > sum(LIMITS.values())
    hours = 2 * life / 3600
    assert (found.core_hours, found.gib_hours, found.gpu_hours) == pytest.approx((3 * hours, 5 * hours, 2 * hours))
    assert found.usd == pytest.approx(hours * (3 * 0.1 + 5 * 0.02 + 2 * 4.0)) and found.missing_prices == ()


@pytest.mark.parametrize("limits", [{**LIMITS, "job_timeout": None}, {**LIMITS, "score_timeout": None}])
def test_without_a_limit_of_time_there_is_no_bound(limits: Any) -> None:
    found = _estimate([Host("modal")], "modal", [("run", SMALL)], limits=limits).bound
    assert found is not None and (found.unlimited_jobs, found.usd, found.core_hours) == (1, None, None)


def test_what_the_table_lacks_is_named_and_not_reckoned_as_nothing() -> None:
    small = bound_of([(SMALL, 3600.0)], ModalPricesConfig(cpu_core_hour=0.1), gpu=None, attempts=1)
    assert (small.usd, small.missing_prices, small.core_hours) == (None, ("memory_gib_hour",), 1.0)
    big = bound_of([(BIG, 3600.0)], PRICES, gpu="A100", attempts=1)
    assert big.missing_prices == ("gpu_hour.A100",)
    assert bound_of([(SMALL, 3600.0)], PRICES, gpu="A100", attempts=1).missing_prices == (), "no job has a GPU"


def test_models_cost_what_budgets_say_and_else_nobody_knows() -> None:
    real = {"mode": "real", "llm": {"model": "openai/gpt-4o-mini"}}
    jobs = [("run", SMALL)] * 4
    assert _estimate([Host()], "docker", jobs).model_usd == 0.0
    assert _estimate([Host()], "docker", jobs, **real).model_usd is None
    assert _estimate([Host()], "docker", jobs, budget={"usd": 0.5}, **real).model_usd == 2.0
    assert _estimate([Host()], "docker", jobs, budget={"usd": 0.5, "run": {"usd": 1.5}}, **real).model_usd == 1.5
