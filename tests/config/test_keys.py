"""Every key of the config, under every name, with hyphens and without, has the effect that the reference states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trace_bench.config import RunConfig, load_config, parse_config
from trace_bench.config.llms import LlmConfig, LlmLimitsConfig, PricesConfig
from trace_bench.config.models import (
    BudgetConfig,
    ImagesConfig,
    MirrorsConfig,
    MlflowMirrorConfig,
    ObjectiveConfig,
    RunBudgetConfig,
    SandboxConfig,
    SplitsConfig,
    TaskConfig,
    TrainerConfig,
    default_job_timeout,
)
from trace_bench.config.names import BARE, KNOBS, keys_of, sections_of
from trace_bench.config.places import DockerConfig, DockerHostConfig, ModalConfig, ModalPricesConfig, SchedulingConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.values import Section
from trace_bench.errors import ConfigError
from trace_bench.matrix import Job, expand

PACKING = "llm4ad:circle_packing"
Seen = Callable[[RunConfig, list[Job]], Any]


def config_key(name: str) -> Seen:
    return lambda config, jobs: getattr(config, name)


def param(name: str) -> Seen:
    return lambda config, jobs: jobs[0].params[name]


def limit(name: str) -> Seen:
    return lambda config, jobs: jobs[0].limits["sandbox"][name]


def sandbox(name: str) -> Seen:
    return lambda config, jobs: getattr(jobs[0].sandbox, name)


def objective(name: str) -> Seen:
    return lambda config, jobs: jobs[0].objective[name]


NEEDED = {"weights": {"mode": "weighted"}, "tie_break": {"mode": "pareto"},
          "seed": {"mode": "pareto", "tie_break": "random_seeded"}}  # fmt: skip
"""What some keys of an objective count with."""
# {section: {key: (value, what a run would see, what it must be)}}
KEYS: dict[type[Section], dict[str, tuple[Any, Seen, Any]]] = {
    RunConfig: {
        "tasks": (["internal:numeric_param"], lambda c, jobs: jobs[0].task_id, "internal:numeric_param"),
        "trainers": (["NoOp"], lambda c, jobs: jobs[0].trainer_id, "NoOp"),
        "name": ("a name", config_key("name"), "a name"),
        "mode": ("stub", lambda c, jobs: jobs[0].model["id"], "stub"),
        "seeds": ([7, 8], lambda c, jobs: [j.seed for j in jobs], [7, 8]),
        "seed": (9, lambda c, jobs: [j.seed for j in jobs], [9]),
        "run_id": ("mine", config_key("run_id"), "mine"),
        "runs_dir": ("out", config_key("runs_dir"), "out"),
        "runs_root": ("out", config_key("runs_dir"), "out"),
        "max_workers": (3, config_key("max_workers"), 3),
        "n_concurrent": (3, config_key("max_workers"), 3),
        "fail_fast": (True, config_key("fail_fast"), True),
        "require_all": (True, config_key("require_all"), True),
        "gaps": (False, config_key("gaps"), False),
        "resume": ("failed", config_key("resume"), "failed"),
        "job_timeout": (5, lambda c, jobs: jobs[0].limits["job_timeout"], 5.0),
        "score_timeout": (6, lambda c, jobs: jobs[0].limits["score_timeout"], 6.0),
        "retries": (0, config_key("retries"), 0),
        "tags": (["a"], config_key("tags"), ("a",)),
        "eval_kwargs": ({"num_train": 2}, lambda c, jobs: jobs[0].eval_kwargs["num_train"], 2),
        "trainer_kwargs": ({"num_steps": 4}, param("num_steps"), 4),
        "optimizer_kwargs": ({"memory_size": 4}, lambda c, jobs: jobs[0].optimizer_kwargs["memory_size"], 4),
        "task_roots": ([], config_key("task_roots"), ()),
        "data_root": (None, config_key("data_root"), None),
        "backend": ("local", config_key("backend"), "local"),
        "images": ({"base": "b"}, lambda c, jobs: c.images.base, "b"),
        "sandbox": ({"pids": 99}, sandbox("pids"), 99),
        "llm": ({"model": "m"}, lambda c, jobs: c.llm.model, "m"),
        "llms": (
            ["stub", {"model": "stub", "id": "n"}],
            lambda c, jobs: [llm.id or llm.model for llm in c.llms],
            ["stub", "n"],
        ),
        "llm_cache": (True, config_key("llm_cache"), True),
        "replay_services": (True, config_key("replay_services"), True),
        "replay_from": ("r", config_key("replay_from"), "r"),
        "budget": ({"calls": 1}, lambda c, jobs: c.budget.calls, 1),
        "splits": ({"train": 2}, lambda c, jobs: jobs[0].splits["train"], 2),
        "objective": ("score", lambda c, jobs: jobs[0].objective["mode"], "scalar"),
        "mirrors": ("mlflow", lambda c, jobs: c.mirrors.mlflow.wait, 10.0),
        "docker": ({"hosts": [{"context": "far"}]}, lambda c, jobs: c.docker.hosts[0].called, "far"),
        "modal": ({"app": "a"}, lambda c, jobs: c.modal.app, "a"),
        "scheduling": ({"max_starting": 3}, lambda c, jobs: c.scheduling.max_starting, 3),
        "threads": (2, param("num_threads"), 2),
        "num_threads": (2, param("num_threads"), 2),
        "verbose": (True, param("verbose"), True),
        "ps_steps": (2, param("num_steps"), 2),
        "ps_batches": (3, param("num_batches"), 3),
        "ps_candidates": (4, param("num_candidates"), 4),
        "ps_proposals": (5, param("num_proposals"), 5),
        "ps_mem_update": (6, param("memory_update_frequency"), 6),
    },
    TaskConfig: {
        "id": (PACKING, lambda c, jobs: jobs[0].task_id, PACKING),
        "key": ("circle_packing", lambda c, jobs: jobs[0].task_id, PACKING),
        "task": ("internal:code_param", lambda c, jobs: jobs[0].task_id, "internal:code_param"),
        "eval_kwargs": ({"n": 7}, lambda c, jobs: jobs[0].eval_kwargs["n"], 7),
        "sandbox": ({"cpus": 0.5}, sandbox("cpus"), 0.5),
    },
    TrainerConfig: {
        "id": ("PrioritySearch", lambda c, jobs: jobs[0].trainer_id, "PrioritySearch"),
        "name": ("NoOp", lambda c, jobs: jobs[0].trainer_id, "NoOp"),
        "trainer": ("NoOp", lambda c, jobs: jobs[0].trainer_id, "NoOp"),
        "key": ("NoOp", lambda c, jobs: jobs[0].trainer_id, "NoOp"),
        "params_variants": ([{"num_steps": 2}, {}], lambda c, jobs: [j.params["num_steps"] for j in jobs], [2, 5]),
        "params": ({"num_steps": 2}, param("num_steps"), 2),
        "trainer_kwargs": ({"num_steps": 2}, param("num_steps"), 2),
        "optimizer": ("OptoPrime", lambda c, jobs: jobs[0].optimizer, "OptoPrime"),
        "optimizer_kwargs": ({"memory_size": 2}, lambda c, jobs: jobs[0].optimizer_kwargs["memory_size"], 2),
        "guide": ("Guide", lambda c, jobs: jobs[0].guide, "default"),
        "guide_kwargs": ({}, lambda c, jobs: jobs[0].guide_kwargs, {}),
        "logger": ("ConsoleLogger", lambda c, jobs: jobs[0].logger, "ConsoleLogger"),
        "logger_kwargs": ({}, lambda c, jobs: c.trainers[0].logger_kwargs, {}),
        "threads": (2, param("num_threads"), 2),
        "num_threads": (2, param("num_threads"), 2),
        "verbose": (True, param("verbose"), True),
        "ps_steps": (2, param("num_steps"), 2),
        "ps_batches": (3, param("num_batches"), 3),
        "ps_candidates": (4, param("num_candidates"), 4),
        "ps_proposals": (5, param("num_proposals"), 5),
        "ps_mem_update": (6, param("memory_update_frequency"), 6),
    },
    SandboxConfig: {
        "cpus": (2, limit("cpus"), 2.0),
        "memory": ("1g", limit("memory_bytes"), 1 << 30),
        "disk": ("64m", limit("disk_bytes"), 64 << 20),
        "tmp": ("32m", limit("tmp_bytes"), 32 << 20),
        "pids": (40, limit("pids"), 40),
        "gpus": (2, limit("gpus"), 2),
        "labels": (["a100"], sandbox("labels"), ("a100",)),
        "pinned": (True, sandbox("pinned"), True),
        "exclusive": (True, sandbox("exclusive"), True),
        "runtime": ("runsc", sandbox("runtime"), "runsc"),
        "require_controls": (["seccomp"], sandbox("require_controls"), ("seccomp",)),
        "allow_weaker": (["ipc"], sandbox("allow_weaker"), ("ipc",)),
    },
    LlmConfig: {
        "provider": ("openai", lambda c, jobs: c.llm.provider, "openai"),
        "base_url": ("http://h/v1", lambda c, jobs: c.llm.base_url, "http://h/v1"),
        "api_base": ("http://h/v1", lambda c, jobs: c.llm.base_url, "http://h/v1"),
        "model": ("m", lambda c, jobs: c.llm.model, "m"),
        "api_key_env": ("OPENAI_API_KEY", lambda c, jobs: c.llm.api_key_env, "OPENAI_API_KEY"),
        "temperature": (1, lambda c, jobs: c.llm.temperature, 1.0),
        "max_tokens": (5, lambda c, jobs: c.llm.max_tokens, 5),
        "id": ("mine", lambda c, jobs: c.llm.id, "mine"),
        "top_p": (0.5, lambda c, jobs: c.llm.top_p, 0.5),
        "seed": (False, lambda c, jobs: c.llm.seed, False),
        "stream": (True, lambda c, jobs: c.llm.stream, True),
        "timeout": (7, lambda c, jobs: c.llm.timeout, 7.0),
        "retries": (0, lambda c, jobs: c.llm.retries, 0),
        "options": ({"api_version": "x"}, lambda c, jobs: c.llm.options, {"api_version": "x"}),
        "prices": ({"prompt": 1}, lambda c, jobs: c.llm.prices.prompt, 1.0),
        "limits": ({"concurrent": 2}, lambda c, jobs: c.llm.limits.concurrent, 2),
    },
    PricesConfig: {
        "prompt": (1, lambda c, jobs: c.llm.prices.prompt, 1.0),
        "completion": (2, lambda c, jobs: c.llm.prices.completion, 2.0),
        "cached": (0.5, lambda c, jobs: c.llm.prices.cached, 0.5),
    },
    LlmLimitsConfig: {
        "requests_per_minute": (60, lambda c, jobs: c.llm.limits.requests_per_minute, 60.0),
        "tokens_per_minute": (1000, lambda c, jobs: c.llm.limits.tokens_per_minute, 1000.0),
        "concurrent": (2, lambda c, jobs: c.llm.limits.concurrent, 2),
    },
    RunBudgetConfig: {
        "calls": (1, lambda c, jobs: c.budget.run.calls, 1),
        "tokens": (2, lambda c, jobs: c.budget.run.tokens, 2),
        "usd": (3, lambda c, jobs: c.budget.run.usd, 3.0),
        "seconds": (4, lambda c, jobs: c.budget.run.seconds, 4.0),
    },
    BudgetConfig: {
        "evaluations": (5, lambda c, jobs: c.budget.evaluations, 5),
        "calls": (1, lambda c, jobs: c.budget.calls, 1),
        "tokens": (2, lambda c, jobs: c.budget.tokens, 2),
        "usd": (3, lambda c, jobs: c.budget.usd, 3.0),
        "seconds": (4, lambda c, jobs: c.budget.seconds, 4.0),
        "run": ({"usd": 1}, lambda c, jobs: c.budget.run.usd, 1.0),
    },
    SplitsConfig: {
        "train": (2, lambda c, jobs: jobs[0].splits["train"], 2),
        "validate": (3, lambda c, jobs: jobs[0].splits["validate"], 3),
        "test": (4, lambda c, jobs: jobs[0].splits["test"], 4),
    },
    ObjectiveConfig: {
        "mode": ("pareto", objective("mode"), "pareto"),
        "score_key": ("reg_loss", objective("score_key"), "reg_loss"),
        "weights": ({"base_loss": 2}, objective("weights"), {"base_loss": 2.0}),
        "minimize": (["base_loss"], lambda c, jobs: c.objective.minimize, ("base_loss",)),
        "pareto_metrics": (["score", "reg_loss"], objective("pareto_metrics"), ("score", "reg_loss")),
        "tie_break": ("lexicographic", objective("tie_break"), "lexicographic"),
        "missing_value": (-1, objective("missing_value"), -1.0),
        "seed": (5, objective("seed"), 5),
        "reference": ({"base_loss": 4}, objective("references"), {"base_loss": 4.0}),
    },
    MirrorsConfig: {
        "mlflow": ({"experiment": "e"}, lambda c, jobs: c.mirrors.mlflow.experiment, "e"),
    },
    MlflowMirrorConfig: {
        "tracking_uri": ("http://h", lambda c, jobs: c.mirrors.mlflow.tracking_uri, "http://h"),
        "experiment": ("e", lambda c, jobs: c.mirrors.mlflow.experiment, "e"),
        "wait": (3, lambda c, jobs: c.mirrors.mlflow.wait, 3.0),
    },
    DockerHostConfig: {
        "url": ("tcp://far:2376", lambda c, jobs: c.docker.hosts[0].called, "far"),
        "context": ("c", lambda c, jobs: c.docker.hosts[0].called, "c"),
        "tls": ("folder", lambda c, jobs: c.docker.hosts[0].tls, "folder"),
        "name": ("n", lambda c, jobs: c.docker.hosts[0].called, "n"),
        "slots": (2, lambda c, jobs: c.docker.hosts[0].slots, 2),
        "gpus": (["0", "1"], lambda c, jobs: c.docker.hosts[0].gpus, ("0", "1")),
        "labels": (["big"], lambda c, jobs: c.docker.hosts[0].labels, ("big",)),
    },
    DockerConfig: {
        "hosts": ([{"url": "ssh://me@far"}], lambda c, jobs: c.docker.hosts[0].called, "far"),
    },
    ModalConfig: {
        **{
            key: ("x", lambda c, jobs, key=key: getattr(c.modal, key), "x")
            for key in ("app", "environment", "region", "image_registry", "registry_access", "gpu")
        },
        **{
            key: (7, lambda c, jobs, key=key: getattr(c.modal, key), 7)
            for key in ("max_sandboxes", "max_starting", "creations_per_second")
        },
        "idle_timeout": (60, lambda c, jobs: c.modal.idle_timeout, 60.0),
        "prices": ({"cpu_core_hour": 1}, lambda c, jobs: c.modal.prices.cpu_core_hour, 1.0),
    },
    ModalPricesConfig: {
        "cpu_core_hour": (1, lambda c, jobs: c.modal.prices.cpu_core_hour, 1.0),
        "memory_gib_hour": (1, lambda c, jobs: c.modal.prices.memory_gib_hour, 1.0),
        "gpu_hour": ({"H100": 4}, lambda c, jobs: c.modal.prices.gpu_hour["H100"], 4.0),
    },
    SchedulingConfig: {
        "suites": ({"internal": 2}, lambda c, jobs: c.scheduling.suites["internal"], 2),
        "max_starting": (3, lambda c, jobs: c.scheduling.max_starting, 3),
        "longest_first": (False, lambda c, jobs: c.scheduling.longest_first, False),
        "within_budget": (False, lambda c, jobs: c.scheduling.within_budget, False),
    },
    ImagesConfig: {
        "base": ("b", lambda c, jobs: c.images.base, "b"),
        "accept_drift": (True, lambda c, jobs: c.images.accept_drift, True),
    },
}
GEPA = tuple(key for key in KNOBS if key.startswith("gepa_"))
"""Knobs that PrioritySearch does not take; `tests/trainers/test_gepa.py` has those that do."""
INSIDE: dict[type[Section], tuple[str, str, dict[str, Any]]] = {
    PricesConfig: ("llm", "prices", {"prompt": 1}),
    LlmLimitsConfig: ("llm", "limits", {}),
    RunBudgetConfig: ("budget", "run", {}),
    MlflowMirrorConfig: ("mirrors", "mlflow", {}),
    ModalPricesConfig: ("modal", "prices", {}),
}
"""Sections inside sections: where, and what they cannot be without."""
ID_KEYS = {"id", "key", "task", "name", "trainer"}


def around(section: type[Section], key: str, value: Any) -> dict[str, Any]:
    """The smallest config with `key` in `section`."""
    config: dict[str, Any] = {"tasks": [PACKING]}
    names = {kind: name for name, kind in sections_of(RunConfig).items() if name not in BARE}
    if section is RunConfig:
        config[key] = value
        if key.replace("-", "_") in ("replay_from", "replay_services"):
            config["mode"] = "replay"
    elif section is TaskConfig:
        entry = {key: value} if key in ID_KEYS else {"id": PACKING, key: value}
        config["tasks"] = [entry]
    elif section is TrainerConfig:
        entry = {key: value} if key in ID_KEYS else {"id": "PrioritySearch", key: value}
        config["trainers"] = [entry]
    elif section in INSIDE:
        outer, name, needed = INSIDE[section]
        config[outer] = {name: {**needed, key: value}}
    elif section is DockerHostConfig:
        config["docker"] = {"hosts": [{**({} if key in ("url", "context") else {"url": "tcp://h:1"}), key: value}]}
    elif section is ObjectiveConfig:
        config["tasks"] = ["internal:multiobjective_convex"]
        config["objective"] = {**NEEDED.get(key.replace("-", "_"), {}), key: value}
    else:
        config[names[section]] = {key: value}
    return config


def seen(tmp_path: Path, config: Mapping[str, Any]) -> tuple[RunConfig, list[Job]]:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(dict(config)))
    loaded = load_config(path)
    found = resolve(loaded)
    return loaded, expand(loaded, found.tasks, found.trainers)


CASES = [(section, key) for section, keys in KEYS.items() for key in keys]


@pytest.mark.parametrize(("section", "key"), CASES, ids=[f"{s.__name__}.{k}" for s, k in CASES])
def test_the_key_has_its_effect_with_underscores_and_with_hyphens(
    section: type[Section], key: str, tmp_path: Path
) -> None:
    value, look, expected = KEYS[section][key]
    config, jobs = seen(tmp_path, around(section, key, value))
    assert look(config, jobs) == expected
    assert parse_config(around(section, key.replace("_", "-"), value)) == config


def test_every_key_of_every_section_is_tried() -> None:
    assert {section: set(keys) | ({*GEPA} if section in (RunConfig, TrainerConfig) else set())
            for section, keys in KEYS.items()} == {
        section: set(keys_of(section)) for section in [*Section.__subclasses__(), BudgetConfig]
    }  # fmt: skip


def test_a_tasks_own_sandbox_takes_every_key_over_the_runs(tmp_path: Path) -> None:
    own = {"cpus": 2, "memory": "1g", "disk": "64m", "pids": 40, "gpus": 3, "runtime": "runsc",
           "require_controls": ["seccomp"]}  # fmt: skip
    tasks = [{"id": PACKING, "sandbox": own}, "internal:numeric_param"]
    _, jobs = seen(tmp_path, {"tasks": tasks, "trainers": ["NoOp"], "sandbox": {"gpus": 1, "tmp": "32m"}})
    first, second = jobs[0].sandbox, jobs[1].sandbox
    assert (first.cpus, first.memory, first.disk, first.pids, first.gpus) == (2.0, 1 << 30, 64 << 20, 40, 3)
    assert (first.runtime, first.require_controls, first.tmp) == ("runsc", ("seccomp",), 32 << 20)
    assert (second.gpus, second.cpus, second.tmp) == (1, 1.0, 32 << 20)
    assert [j.limits["sandbox"]["gpus"] for j in jobs] == [3, 1]


# --------------------------------------------------------------------------------------------------- job_timeout


def test_without_job_timeout_stub_has_no_limit_and_every_other_mode_ten_minutes(tmp_path: Path) -> None:
    config, jobs = seen(tmp_path, {"tasks": [PACKING]})
    assert config.job_timeout is None and jobs[0].limits["job_timeout"] is None
    assert config.score_timeout == 600.0
    assert (default_job_timeout("stub"), default_job_timeout("real"), default_job_timeout("replay")) == (
        None,
        600.0,
        600.0,
    )


@pytest.mark.parametrize("given", [{}, {"job_timeout": None}, {"job_timeout": 30}])
def test_a_snapshot_holds_the_job_timeout_that_counts(given: dict[str, Any]) -> None:
    config = parse_config({"tasks": ["a"], **given})
    snapshot = config.to_snapshot()
    assert "job_timeout" in snapshot and parse_config(snapshot) == config
    assert snapshot["job_timeout"] == given.get("job_timeout")


# -------------------------------------------------------------------------------------------------------- logger


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (None, "none"), ("none", "none"), ("null", "none"), ("off", "none"), ("disable", "none"), ("disabled", "none"),
        ("None", "none"), ("OFF", "none"), ("default", "default"), ("config", "default"), ("", "default"),
        ("ConsoleLogger", "ConsoleLogger"),
    ],
)  # fmt: skip
def test_a_logger_has_several_names_and_is_no_part_of_identity(written: str | None, name: str, tmp_path: Path) -> None:
    plain = seen(tmp_path, {"tasks": [PACKING], "trainers": ["NoOp"]})[1]
    config, jobs = seen(tmp_path, {"tasks": [PACKING], "trainers": [{"id": "NoOp", "logger": written}]})
    assert config.trainers[0].logger == name == jobs[0].logger
    assert jobs[0].job_id == plain[0].job_id
    assert parse_config(config.to_snapshot()) == config


TWO = {"tasks": ["a"], "trainers": ["NoOp", {"id": "PrioritySearch", "logger": "ConsoleLogger"}]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", ["none", "none"]),
        ("off", ["none", "none"]),
        (None, ["none", "none"]),
        ("ConsoleLogger", ["ConsoleLogger", "ConsoleLogger"]),
        ("default", ["default", "ConsoleLogger"]),
        ("config", ["default", "ConsoleLogger"]),
        ("", ["default", "ConsoleLogger"]),
    ],
)
def test_the_override_of_the_logger_is_for_every_trainer(name: str | None, expected: list[str]) -> None:
    assert [t.logger for t in parse_config(TWO, {"logger": name}).trainers] == expected


def test_the_override_of_the_logger_reaches_the_default_trainer_and_those_of_an_override() -> None:
    (one,) = parse_config({"tasks": ["a"]}, {"logger": "none"}).trainers
    assert (one.id, one.logger) == ("PrioritySearch", "none")
    config = parse_config(TWO, {"logger": "none", "trainers": ["NoOp"]})
    assert [(t.id, t.logger) for t in config.trainers] == [("NoOp", "none")]


# ------------------------------------------------------------------------------------- what is strict, and what not


def message(tmp_path: Path, config: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        seen(tmp_path, config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("verbose", True), ("threads", 2), ("ps_steps", 2), ("trainer_kwargs", {"num_steps": 2}),
     ("optimizer_kwargs", {"memory_size": 1})],
)  # fmt: skip
def test_what_stands_at_the_top_is_for_those_that_take_it_and_wrong_if_none_does(
    key: str, value: Any, tmp_path: Path
) -> None:
    both = {"tasks": [PACKING], "trainers": ["NoOp", "PrioritySearch"], key: value}
    assert len(seen(tmp_path, both)[1]) == 2
    assert " of this config takes " in message(tmp_path, {**both, "trainers": ["NoOp"]})


@pytest.mark.parametrize("entry", [{"verbose": True}, {"params": {"verbose": True}}, {"params": {"gepa_iters": 1}}])
def test_what_stands_on_an_entry_or_a_variant_is_strict(entry: dict[str, Any], tmp_path: Path) -> None:
    trainers = [{"id": "NoOp", **entry}, "PrioritySearch"]
    assert "trainer 'NoOp' takes no " in message(tmp_path, {"tasks": [PACKING], "trainers": trainers})


def test_entries_that_make_the_same_jobs_are_wrong(tmp_path: Path) -> None:
    variants = [{"num_steps": 2}, {"ps_steps": 2}]
    said = message(tmp_path, {"tasks": [PACKING], "trainers": [{"id": "PrioritySearch", "params_variants": variants}]})
    assert "makes the same jobs as" in said


def test_a_task_root_that_is_no_folder_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    long = "x" * 5000
    path.write_text(f"tasks: [{PACKING}]\ntask_roots:\n  - {tmp_path}\n  - nowhere\n  - {path}\n  - {long}\n")
    with pytest.raises(ConfigError) as caught:
        resolve(load_config(path))
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{path}, line {n}" for n in (4, 5, 6)]
    assert "'nowhere' does not exist" in lines[0] and "is not a folder" in lines[1] and len(lines[2]) < 300
