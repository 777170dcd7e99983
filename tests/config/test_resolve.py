"""A config against the tasks and trainers that it names: layers, aliases, strictness, and lines in every sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_bench import expand
from trace_bench.config import load_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.config.task_choices import resolve_tasks
from trace_bench.config.variants import Variant, resolve_variants
from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir
from trace_bench.trainers.registry import load_trainers

TASKS = "tasks: [internal:numeric_param]\n"


def variants(tmp_path: Path, text: str) -> list[Variant]:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS + text)
    problems: list[str] = []
    found = resolve_variants(load_config(path), load_trainers(), problems)
    assert problems == []
    return found


def refusal(tmp_path: Path, text: str) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    config = load_config(path)
    with pytest.raises(ConfigError) as caught:
        resolve(config)
    return str(caught.value).replace(str(path), "c.yaml")


def test_every_shipped_config_resolves() -> None:
    for path in sorted(data_dir("configs").glob("*.yaml")):
        config = select(load_config(path))
        found = resolve(config)
        assert set(found.tasks) == {t.id for t in config.tasks}
        assert set(found.trainers) == {t.id for t in config.trainers}


def test_a_limit_of_a_suite_that_is_not_there_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, TASKS + "scheduling:\n  suites:\n    kernelbench: 1\n    intrenal: 2\n    internal:x: 3\n")
    assert said.splitlines() == [
        "c.yaml, line 5: scheduling.suites.intrenal: there is no suite 'intrenal'; did you mean 'internal'?",
        "c.yaml, line 6: scheduling.suites.internal:x: there is no suite 'internal:x'; did you mean 'internal'?",
    ]


def test_layers_of_parameters_lie_over_each_other_whatever_name_they_use(tmp_path: Path) -> None:
    found = variants(
        tmp_path,
        "ps_steps: 11\ntrainer_kwargs: {num_candidates: 12, batch_size: 13}\noptimizer_kwargs: {memory_size: 1}\n"
        "trainers:\n  - NoOp\n  - id: PrioritySearch\n    ps-candidates: 22\n    optimizer_kwargs: {max_tokens: 9}\n"
        "    params_variants:\n      - {}\n      - {num_steps: 31, train_batch_size: 33}\n"
        "      - {ps_steps: 41, optimizer_kwargs: {memory_size: 4}}\n",
    )
    noop, base, named, aliased = found
    assert noop.params == {} and noop.optimizer == "none" and noop.optimizer_kwargs == {}
    keys = ("num_steps", "num_candidates", "train_batch_size")
    assert [base.params[k] for k in keys] == [11, 22, 13]
    assert [named.params[k] for k in keys] == [31, 22, 33]
    assert [aliased.params[k] for k in keys] == [41, 22, 13]
    assert base.optimizer_kwargs["memory_size"] == 1 and aliased.optimizer_kwargs["memory_size"] == 4
    assert aliased.optimizer_kwargs["max_tokens"] == 9
    assert [v.label for v in found] == [
        "default",
        "default",
        "num_steps=31,train_batch_size=33",
        "num_steps=41,optimizer.memory_size=4",
    ]


def test_a_parameter_that_has_no_effect_with_some_values_is_taken_with_all_others(tmp_path: Path) -> None:
    [polca] = variants(tmp_path, "trainers: [{id: POLCA, params: {embedding_model: job}}]\n")
    assert (polca.params["epsilon"], polca.params["embedding_model"]) == (0.1, "job")
    [search] = variants(
        tmp_path,
        "trainers: [{id: PrioritySearch, params: {ps_mem_update: 3, short_term_memory_size: 2}}]\n",
    )
    assert (search.params["memory_update_frequency"], search.params["short_term_memory_size"]) == (3, 2)


def test_defaults_are_filled_in_and_whole_numbers_become_floats_where_due(tmp_path: Path) -> None:
    [one] = variants(
        tmp_path, "trainers: [{id: PrioritySearch, params: {ucb_exploration_constant: 2, score_function: ucb}}]\n"
    )
    trainer = load_trainers()["PrioritySearch"]
    assert set(one.params) == {p.name for p in trainer.params if not p.later}
    assert one.params["num_steps"] == next(p.default for p in trainer.params if p.name == "num_steps")
    assert type(one.params["ucb_exploration_constant"]) is float


def test_a_later_parameter_is_left_out_where_it_has_no_effect(tmp_path: Path) -> None:
    """So ids of jobs that were run before there was such a parameter stay the same."""
    copro, few, more = variants(
        tmp_path,
        "trainers: [{id: DSPyTrainer, params_variants: [{dspy_optimizer: copro}, {dspy_optimizer: bootstrap}, "
        "{dspy_optimizer: bootstrap, metric_threshold: 0.5}]}]\n",
    )
    later = {"max_bootstrapped_demos", "metric_threshold", "demo_parameter"}
    assert not later & set(copro.params)
    assert [few.params[name] for name in sorted(later)] == ["", 4, 1.0]
    assert more.params["metric_threshold"] == 0.5
    entries = ["DSPyTrainer", {"id": "DSPyTrainer", "params": {"dspy_optimizer": "simba"}}]
    config = load_config({"tasks": ["trace_examples:greeting_stub"], "trainers": entries, "seeds": [1]})
    assert [job.job_id for job in expand(config)] == ["73380929872a", "f3988433e153"], "as before these parameters"


PS = TASKS + "trainers:\n  - id: PrioritySearch\n"
MULTI = PS + "    optimizer: OptoPrimeMulti\n    optimizer_kwargs: "
BAD: list[tuple[str, int, str, str]] = [
    (PS + "    params:\n      num_step: 3\n", 5, "trainers[0].params.num_step", "did you mean 'num_steps'?"),
    (PS + "    params: {ps_steps: 3, num_steps: 3}\n", 4, "trainers[0].params.num_steps", "two names of one argument"),
    (
        PS + "    params: {ucb_exploration_constant: 3}\n",
        4,
        "trainers[0].params.ucb_exploration_constant",
        "it has no effect with score_function mean, only with score_function ucb; delete it",
    ),
    (
        PS + "    params_variants:\n      - {ucb_exploration_constant: 3}\n",
        5,
        "ucb_exploration_constant",
        "delete it; trainer 'PrioritySearch' takes here num_steps, num_epochs",
    ),
    (
        PS + "    params: {short_term_memory_size: 3}\n",
        4,
        "trainers[0].params.short_term_memory_size",
        "it has no effect with memory_update_frequency 0, only with memory_update_frequency other than 0 or 1",
    ),
    (
        PS.replace("PrioritySearch", "POLCA") + "    params: {epsilon: 0, embedding_model: job}\n",
        4,
        "trainers[0].params.embedding_model",
        "it has no effect with epsilon 0.0, only with epsilon other than 0; delete it",
    ),
    (
        PS.replace("PrioritySearch", "POLCA") + "    params: {summary_frequency: 2}\n",
        4,
        "trainers[0].params.summary_frequency",
        "it has no effect with use_summarizer false, only with use_summarizer true; delete it",
    ),
    (PS + "    params: {num_steps: '3'}\n", 4, "trainers[0].params.num_steps", "must be a whole number"),
    (PS + "    params: {num_steps: 2.0}\n", 4, "trainers[0].params.num_steps", "must be a whole number"),
    (PS + "    params: {num_steps: true}\n", 4, "trainers[0].params.num_steps", "not true"),
    (PS + "    params: {num_steps: null}\n", 4, "trainers[0].params.num_steps", "nothing (null)"),
    (PS + "    params: {batch_size: 0}\n", 4, "trainers[0].params.batch_size", "at least 1"),
    (PS + "    params: {score_function: meen}\n", 4, "score_function", "did you mean 'mean'?"),
    (
        PS + "    params_variants:\n      - {}\n      - {x: 1}\n",
        6,
        "trainers[0].params_variants[1].x",
        "takes no 'x'",
    ),
    (PS + "    ps_steps: 0\n", 4, "trainers[0].ps_steps", "goes on until a budget ends"),
    (PS + "    gepa_iters: 2\n", 4, "trainers[0].gepa_iters", "takes no 'gepa_iters'"),
    (PS + "gepa_iters: 2\n", 4, "gepa_iters", "no trainer of this config takes 'gepa_iters'"),
    (PS + "ps_steps: 0\n", 4, "ps_steps", "goes on until a budget ends"),
    (PS + "threads: 1\nnum_threads: 1\n", 5, "num_threads", "two names of one argument"),
    (PS + "trainer_kwargs:\n  num_stepz: 2\n", 5, "trainer_kwargs.num_stepz", "did you mean 'num_steps'?"),
    (PS + "optimizer_kwargs: {memory: 2}\n", 4, "optimizer_kwargs.memory", "did you mean 'memory_size'?"),
    (PS + "    optimizer: OptoPrim\n", 4, "trainers[0].optimizer", "did you mean 'OptoPrime'?"),
    (PS + "    optimizer: OptoPrimeBatchOpt\n", 4, "trainers[0].optimizer", "'OptoPrimeBatchOpt' is not adapted"),
    (PS + "    optimizer_kwargs: {memory_size: -1}\n", 4, "optimizer_kwargs.memory_size", "at least 0"),
    (MULTI + "{num_responses: 0}\n", 5, "optimizer_kwargs.num_responses", "at least 1"),
    (MULTI + "{max_temperature: 3}\n", 5, "optimizer_kwargs.max_temperature", "at most 2"),
    (MULTI + "{selection_technique: best}\n", 5, "optimizer_kwargs.selection_technique", "one of best_of_n"),
    (MULTI + "{temperature: 1}\n", 5, "optimizer_kwargs.temperature", "takes no 'temperature'"),
    (
        MULTI + "{min_temperature: 0.5, generation_technique: self_refinement}\n",
        5,
        "optimizer_kwargs.min_temperature",
        "only with generation_technique temperature_variation",
    ),
    (PS + "    params: {optimizer_kwargs: 5}\n", 4, "params.optimizer_kwargs", "must be a mapping"),
    (PS + "    params: {optimizer_kwargs: {x: 5}}\n", 4, "params.optimizer_kwargs.x", "takes no 'x'"),
    (PS + "    guide_kwargs: {x: 5}\n", 4, "trainers[0].guide_kwargs", "guide 'default' takes no 'x'"),
    (
        PS + "    guide: LLMJudge\n    guide_kwargs: {tokens: 5}\n",
        5,
        "guide_kwargs.tokens",
        "did you mean 'max_tokens'",
    ),
    (PS + "    logger_kwargs: {x: 5}\n", 4, "trainers[0].logger_kwargs", "takes no arguments"),
    (TASKS + "trainers: [PriortySearch]\n", 2, "trainers[0]", "did you mean 'PrioritySearch'?"),
    (TASKS + "trainers: [{id: NoOp, optimizer: OptoPrime}]\n", 2, "optimizer", "uses no optimizer"),
    (TASKS + "trainers: [{id: NoOp, params: {num_steps: 1}}]\n", 2, "params.num_steps", "nothing to set"),
    (TASKS + "trainers: [NoOp]\nps_steps: 3\n", 3, "ps_steps", "no trainer of this config takes"),
    (
        TASKS + "trainers: [NoOp]\noptimizer_kwargs: {memory_size: 3}\n",
        3,
        "optimizer_kwargs.memory_size",
        "no optimizer",
    ),
    ("tasks:\n  - circle_packin\n", 2, "tasks[0]", "did you mean 'llm4ad:circle_packing'?"),
    ("tasks:\n  - numeric_param\n", 2, "tasks[0]", "did you mean 'internal:numeric_param'?"),
    ("tasks:\n  - id: intern:numeric_param\n", 2, "tasks[0].id", "did you mean 'internal'?"),
    ("tasks:\n  - veribench:all\n", 2, "tasks[0]", "there is no task 'veribench:all'"),
    (
        "tasks:\n  - id: circle_packing\n    eval_kwargs:\n      nn: 3\n",
        4,
        "tasks[0].eval_kwargs.nn",
        "takes no 'nn'",
    ),
    ("tasks:\n  - {id: circle_packing, eval_kwargs: {n: 0}}\n", 2, "tasks[0].eval_kwargs.n", "at least 1"),
    ("tasks:\n  - {id: circle_packing, eval_kwargs: {n: x}}\n", 2, "tasks[0].eval_kwargs.n", "whole number"),
    ("tasks:\n  - {id: circle_packing, eval_kwargs: {num_train: 0}}\n", 2, "eval_kwargs.num_train", "at least 1"),
    ("tasks: [circle_packing]\neval_kwargs:\n  nnn: 3\n", 3, "eval_kwargs.nnn", "no task of this config takes"),
    ("tasks: [circle_packing]\nsplits: {train: 2}\neval_kwargs: {num_train: 2}\n", 2, "splits.train", "sets the same"),
    (TASKS + "splits: {train: 2}\n", 2, "splits.train", "lets the size of a split be set"),
]


@pytest.mark.parametrize(("text", "line", "key", "part"), BAD, ids=[f"{b[2]}-{b[3][:20]}" for b in BAD])
def test_what_a_task_or_trainer_does_not_take_is_named_with_its_line(
    text: str, line: int, key: str, part: str, tmp_path: Path
) -> None:
    message = refusal(tmp_path, text)
    first = message.splitlines()[0]
    assert first.startswith(f"c.yaml, line {line}: ") and key in first and part in first, message
    assert message.count("\n") == 0


def test_all_problems_of_all_entries_are_listed(tmp_path: Path) -> None:
    text = (
        "tasks: [nothing_like_it, 'internal:nor_this']\ntrainers: [Nope, {id: PrioritySearch, params: {a: 1, b: 2}}]\n"
    )
    assert len(refusal(tmp_path, text).splitlines()) == 3
    text = PS + "    params: {a: 1, num_steps: x}\n  - {id: NoOp, params: {b: 1}}\ngepa_iters: 3\n"
    assert len(refusal(tmp_path, text).splitlines()) == 4


def choices(tmp_path: Path, text: str) -> list[Any]:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    config = load_config(path)
    problems: list[str] = []
    found = resolve_tasks(config, resolve(config).tasks, problems)
    assert problems == []
    return found


def test_layers_of_eval_kwargs_lie_over_each_other(tmp_path: Path) -> None:
    packing, own, numeric = choices(
        tmp_path,
        "tasks:\n  - circle_packing\n  - {id: circle_packing, eval_kwargs: {n: 7, num-validate: 4}}\n"
        "  - internal:numeric_param\nsplits: {train: 2, validate: 3}\neval_kwargs: {n: 9, num_test: 1}\n",
    )
    assert packing.eval_kwargs == {"n": 9, "num_train": 2, "num_validate": 3, "num_test": 1}
    assert own.eval_kwargs == {"n": 7, "num_train": 2, "num_validate": 4, "num_test": 1}
    assert own.splits == {"train": 2, "validate": 4, "test": 1}
    assert "n" not in numeric.eval_kwargs


def test_timeout_seconds_replaces_the_wall_limit_of_a_candidate(tmp_path: Path) -> None:
    plain, longer = choices(
        tmp_path, "tasks:\n  - circle_packing\n  - {id: circle_packing, eval_kwargs: {timeout_seconds: 90}}\n"
    )
    assert plain.limits["candidate"]["wall_seconds"] == 30.0
    assert longer.limits["candidate"]["wall_seconds"] == 90.0 == longer.limits["candidate"]["cpu_seconds"]


def test_a_tasks_own_sandbox_goes_over_the_runs(tmp_path: Path) -> None:
    run, own = choices(
        tmp_path,
        "sandbox: {memory: 1g, pids: 64}\ntasks: [circle_packing, {id: internal:numeric_param, sandbox: {pids: 32}}]\n",
    )
    assert (run.sandbox.memory, run.sandbox.pids) == (1 << 30, 64)
    assert (own.sandbox.memory, own.sandbox.pids) == (1 << 30, 32)
    assert own.limits["sandbox"]["pids"] == 32


def test_a_broken_task_spec_is_named_by_its_own_file(tmp_path: Path) -> None:
    task = tmp_path / "root" / "mine"
    task.mkdir(parents=True)
    (task / "task.toml").write_text('title = "x"\nstatement = 5\n[score\n')
    path = tmp_path / "c.yaml"
    path.write_text(f"tasks: [internal:mine]\ntask_roots: ['{tmp_path / 'root'}']\n")
    with pytest.raises(ConfigError) as caught:
        resolve(load_config(path))
    assert str(caught.value).startswith(f"{task / 'task.toml'}, line 3: is not valid TOML")


def test_a_trainer_may_be_named_as_other_frameworks_name_it_and_is_the_same_job(tmp_path: Path) -> None:
    [ours] = variants(tmp_path, "trainers: [NoOp]\n")
    [theirs] = variants(tmp_path, "trainers: [{id: NoOpTrainer}]\n")
    assert ours == theirs and theirs.trainer_id == "NoOp"


def test_another_name_may_stand_for_parameters_too(tmp_path: Path) -> None:
    sizes = []
    for given in ("", ", params: {max_history_size: 3}"):
        [beam] = variants(tmp_path, f"trainers: [{{id: BeamsearchHistoryAlgorithm{given}}}]\n")
        sizes.append((beam.trainer_id, beam.params["max_history_size"]))
    assert sizes == [("BeamSearch", 10), ("BeamSearch", 3)]


def test_a_trainer_that_cannot_be_had_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS + "trainers: [SearchTemplate]\n")
    with pytest.raises(
        ConfigError, match=r"line \d+: trainers\[0\].*'SearchTemplate' is not available: it is the base class"
    ):
        resolve(load_config(path))
