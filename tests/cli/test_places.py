"""``ps``, ``clean`` and ``doctor`` where sandboxes are in several places."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.analysis.folders import job_id, make_job, make_run
from tests.integration.cli import cli, environment, write_config
from trace_bench.cli.commands.clean import clean
from trace_bench.cli.commands.doctor import doctor
from trace_bench.cli.commands.ps import ps, short
from trace_bench.cli.plan_page import print_estimate
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.execution.plan_estimate import HostCapacity, PlanEstimate, SandboxBound
from trace_bench.planning import backends
from trace_bench.sandbox.base import Host
from trace_bench.sandbox.labels import job_labels

HOSTS = {
    "backend": "docker",
    "docker": {"hosts": [{"url": "ssh://me@near"}, {"url": "ssh://me@far", "labels": ["lab"]}]},
}


class Sandbox:
    """One that is on a host, and has no controller."""

    def __init__(self, run_id: str, number: int, host: str) -> None:
        self.name, self.host, self.gone = f"{run_id}-{number}", host, False
        self.labels = job_labels(run_id, job_id(number), 60)

    def status(self) -> str:
        return "running"

    def remove(self) -> None:
        self.gone = True


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SANDBOX_BACKEND", raising=False)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], list[Sandbox]]:
    """By the names of the hosts that a backend was made with: the sandboxes that it finds."""
    found: dict[tuple[str, ...], list[Sandbox]] = {}

    def get(name: str, hosts: Any = (), settings: Any = None) -> Any:
        key = tuple(host.called for host in hosts) or ((settings.app,) if settings else ())
        if "down" in key:
            raise EnvironmentUnavailable("down does not answer")
        return SimpleNamespace(
            name=name, default_uid_base=0, find=lambda labels: found.get(key, []),
            hosts=lambda: [Host(each, slots=2, labels=frozenset({"lab"})) for each in key],
            describe=lambda: {"backend": name, "engine": "27.1"}, cannot={"pids": "no such limit", "quota": "x"},
        )  # fmt: skip

    monkeypatch.setattr(backends, "get_backend", get)
    return found


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Mapping[str, Any]]]:
    def call(run: str | None, runs: Path, config: Path | None = None) -> list[Mapping[str, Any]]:
        ps(run, runs, "auto", config, watch=False, as_json=True)
        found: list[Mapping[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    return call


def test_ps_says_host_age_and_what_the_models_cost(
    tmp_path: Path, there: Any, listed: Callable[..., list[Mapping[str, Any]]]
) -> None:
    run = make_run(tmp_path / "runs", "mine", ended=False)
    make_job(run, 0)
    history = run.job(job_id(0)).state_history
    history.write_text('{"step": 1, "cost_usd": 0.25}\n{"step": 2, "cost_usd": 0.75}\n{"step": 3, "cos')
    there[("near", "far")] = [Sandbox("mine", 0, "far"), Sandbox("mine", 1, "near"), Sandbox("other", 2, "near")]
    there[("near", "far")][1].labels["trace-bench.created"] = "1000"
    config = write_config(tmp_path, tasks=["internal:numeric_param"], **HOSTS)
    first, second, third = listed(None, tmp_path / "runs", config)
    assert (first["host"], first["cost_usd"], first["run_id"]) == ("far", 0.75, "mine")
    assert 0 <= first["age_seconds"] < 60 and second["age_seconds"] > 1e9
    assert (second["cost_usd"], third["cost_usd"]) == (None, None)
    assert [each["host"] for each in listed("mine", tmp_path / "runs", config)] == ["far", "near"]


def test_ps_and_clean_of_a_run_look_where_its_user_started_it(
    tmp_path: Path, there: Any, listed: Callable[..., list[Mapping[str, Any]]]
) -> None:
    runs = tmp_path / "runs"
    make_run(runs, "mine", ended=False)
    left = there[("near", "far")] = [Sandbox("mine", 0, "far"), Sandbox("gone", 1, "far")]
    assert listed("mine", runs) == [] == listed(None, runs)
    for run_id in ("mine", "gone"):
        docker = backends.DockerConfig.model_validate(HOSTS["docker"])
        backends.remember_backend(run_id, backends.BackendChoice(backend="docker", docker=docker))
    assert [each["run_id"] for each in listed("mine", runs)] == ["mine"]
    clean("gone", runs_dir=runs, backend="auto", config=None)
    assert [each.gone for each in left] == [False, True], "its folder is gone, and its places are known all the same"
    with pytest.raises(ConfigError, match="no run 'nobody'"):
        ps("nobody", runs, "auto", None, watch=False, as_json=False)


def test_a_config_says_where_to_clean_and_a_named_backend_has_its_usual_place(tmp_path: Path, there: Any) -> None:
    (mine,) = there[("ours",)] = [Sandbox("mine", 0, "")]
    (usual,) = there[("trace-bench",)] = [Sandbox("mine", 1, "")]
    config = write_config(tmp_path, tasks=["internal:numeric_param"], modal={"app": "ours"})
    clean(None, runs_dir=tmp_path, backend="modal", config=config)
    assert mine.gone and not usual.gone
    clean(None, runs_dir=tmp_path, backend="modal", config=None)
    assert usual.gone


def test_doctor_looks_at_each_host_for_itself(
    tmp_path: Path, there: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_BACKEND", "docker")
    hosts = {"hosts": [{"url": "ssh://me@near"}, {"context": "down"}]}
    config = write_config(tmp_path, tasks=["internal:numeric_param"], docker=hosts)
    assert doctor(backend="auto", config=config, as_json=True) == 3
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["host near"]["ok"] and "near: 2 slots, labels lab" in found["host near"]["detail"]
    assert (found["host down"]["ok"], found["host down"]["detail"]) == (False, "down does not answer")
    assert "SANDBOX_BACKEND=docker" in found["variable"]["detail"] and "engine" not in found
    config = write_config(tmp_path, tasks=["internal:numeric_param"], **HOSTS)
    assert doctor(backend="auto", config=config, as_json=False) == 0
    assert "controls   cannot set: pids (no such limit)" in capsys.readouterr().out


def test_doctor_says_what_modal_cannot_set(there: Any, capsys: pytest.CaptureFixture[str]) -> None:
    doctor(backend="modal", config=None, as_json=True)
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["modal"]["ok"] and "trace-bench" in found["modal"]["detail"] and "engine" not in found
    assert found["controls"]["detail"] == "cannot set: pids (no such limit)"


def test_doctor_asks_a_service_that_does_not_answer_once(
    tmp_path: Path, there: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], backend="modal", modal={"app": "down"})
    assert doctor(backend="auto", config=config, as_json=False) == 3
    assert capsys.readouterr().out.count("down does not answer") == 1


def test_watching_ends_when_nobody_reads(tmp_path: Path) -> None:
    program = "from trace_bench.cli import main; from trace_bench.cli.commands import ps; ps.INTERVAL = 0.2; main()"
    command = [sys.executable, "-c", program, "ps", "--watch", "--json", "--backend", "local"]
    alone = environment(TRACE_BENCH_STATE_DIR=str(tmp_path / "state"))  # what others left has an age, which grows
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=alone)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(timeout=20) == 0


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200000, "2d")])
def test_ages_are_short(seconds: float, text: str) -> None:
    assert short(seconds) == text


def test_a_dry_run_says_images_hosts_and_cost(tmp_path: Path) -> None:
    config = str(write_config(tmp_path, tasks=["internal:numeric_param"], backend="local"))
    done = cli("run", "--config", config, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["backend"], plan["images"]["core"]["ref"]) == ("local", "local")
    assert plan["hosts"][0]["takes"] == 1 and plan["cost"]["sandboxes_usd_at_most"] is None


def test_the_lines_of_a_dry_run_on_modal(capsys: pytest.CaptureFixture[str]) -> None:
    image = SimpleNamespace(ref="ghcr.io/you/core@sha256:0", key="k")
    plan: Any = SimpleNamespace(lock=SimpleNamespace(images={"core": image}), costs=())
    hosts = (HostCapacity(Host("far", slots=4), 2, {"has no label 'lab'": 1}),)
    bound = SandboxBound(3, 2, core_hours=6.0, gib_hours=12.0, gpu_hours=2.0, usd=1.25)
    print_estimate(plan, PlanEstimate(hosts, bound, None))
    assert capsys.readouterr().out.splitlines() == [
        "image       core  ghcr.io/you/core@sha256:0",
        "host        far: 4 slots; takes 2 jobs; not 1 job: has no label 'lab'",
        "sandboxes   at most 1.2500 USD by modal.prices, if all 3 jobs use up their time in 2 attempts: 6 core hours, "
        "12 GiB hours, 2 GPU hours",
        "models      cost not estimated: no budget.usd and no budget.run.usd",
    ]
    lacking = SandboxBound(3, 1, core_hours=6.0, gib_hours=12.0, gpu_hours=0.0, missing_prices=("cpu_core_hour",))
    print_estimate(plan, PlanEstimate((), lacking, 2.0, "the engine does not answer"))
    out = capsys.readouterr().out
    assert "no price, as modal.prices lacks cpu_core_hour" in out and "unknown: the engine does not answer" in out
    assert "at most about 2.0000 USD, by the budgets" in out
