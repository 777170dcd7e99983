"""What differs between parts, each axis alone and together, and what follows from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.experiments import SNAPSHOT, job, jobs, make_experiment
from tests.artifacts.samples import HASH
from trace_bench.analysis.axes import Axis, axes, refusal
from trace_bench.analysis.comparison import compare
from trace_bench.analysis.comparison_groups import choose
from trace_bench.analysis.comparison_text import sections, summary
from trace_bench.analysis.where import parse_where
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.commands.compare import compare as compare_command

OTHER = "f" * 64
IMAGE = {"family": "core", "ref": "core", "key": "sha256:" + OTHER}


def flat(task: str, seed: int) -> float:
    return 0.5


def found(one: RunLayout, two: RunLayout) -> dict[str, Axis]:
    return {axis.name: axis for axis in axes(*choose([one, two], [], None, None))}


def counting(one: RunLayout, two: RunLayout) -> list[str]:
    return [name for name, axis in found(one, two).items() if axis.counts]


@pytest.fixture
def base(tmp_path: Path) -> RunLayout:
    snapshot = {"llm": LLM, "data_root": None, "tasks": [{"id": "t:x", "sandbox": None}]}
    return make_experiment(tmp_path, "a", jobs(flat, ["x", "y"], [1, 2, 3]), snapshot=snapshot)


def test_a_repetition_differs_in_nothing(base: RunLayout, tmp_path: Path) -> None:
    assert found(base, make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]))) == {}


LLM = {"model": "stub", "base_url": "http://a", "timeout": 600.0, "retries": 5, "limits": {"concurrent": None}}
CHANGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("model", {"model": "gpt"}, {}),
    ("trainer", {"trainer_id": "GEPA-Base"}, {}),
    ("parameters", {"resolved_trainer_kwargs": {"num_steps": 3}}, {}),
    ("parameters", {"resolved_optimizer": "TextGrad"}, {}),
    ("tasks", {"eval_kwargs": {"size": 9}}, {}),
    ("tasks", {}, {"lock": {"tasks": {"t:x": OTHER, "t:y": HASH}}}),
    ("code", {}, {"lock": {"sources_hash": OTHER}}),
    ("images", {}, {"lock": {"images": {"core": IMAGE}}}),
    ("images", {"backend": "local"}, {}),
    ("budgets", {}, {"snapshot": {"budget": {"evaluations": 500, "run": {"usd": 3.0}}}}),
    ("limits", {}, {"snapshot": {"job_timeout": 60.0}}),
    ("limits", {}, {"snapshot": {"sandbox": {"cpus": 4.0, "memory": "2g"}}}),
    ("splits", {}, {"snapshot": {"splits": {"test": 5}}}),
    ("objective", {}, {"snapshot": {"objective": {"mode": "weighted", "weights": {"cost": 1.0}}}}),
    ("config", {}, {"snapshot": {"mode": "stub"}}),
    ("config", {}, {"snapshot": {"data_root": "/elsewhere"}}),
    ("limits", {}, {"snapshot": {"tasks": [{"id": "t:x", "sandbox": {"cpus": 8.0}}]}}),
    ("limits", {}, {"snapshot": {"llm": {**LLM, "timeout": 1.0}}}),
    ("limits", {}, {"snapshot": {"llms": [{**LLM, "retries": 0}]}}),
    ("limits", {}, {"snapshot": {"llm": {**LLM, "limits": {"concurrent": 1}}}}),
    ("model", {}, {"snapshot": {"llm": {**LLM, "base_url": "http://b"}}}),
]


@pytest.mark.parametrize(("axis", "of_jobs", "of_run"), CHANGES)
def test_each_axis_is_told_and_counts_once(
    base: RunLayout, tmp_path: Path, axis: str, of_jobs: dict[str, Any], of_run: dict[str, Any]
) -> None:
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3], **of_jobs), config_hash=OTHER, **of_run)
    assert counting(base, other) == [axis]
    if axis != "config":
        assert "follows from" in found(base, other)["config"].why


def test_the_model_of_one_name_can_be_another(base: RunLayout, tmp_path: Path) -> None:
    models = [{"id": "stub", "provider": "openai", "model": "stub", "sampling": {"temperature": 1.0}}]
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]), lock={"models": models})
    axis = found(base, other)["model"]
    assert axis.counts and axis.why == "sampling of stub"


def test_other_tasks_and_seeds_are_told_in_short(base: RunLayout, tmp_path: Path) -> None:
    other = make_experiment(tmp_path, "b", jobs(flat, ["y", "z"], [2, 3, 4, 5, 9]))
    told = found(base, other)
    assert (told["tasks"].baseline, told["tasks"].other, told["tasks"].why) == ("t:x only", "t:z only", "1 in both")
    assert (told["seeds"].baseline, told["seeds"].other) == ("1–3", "2–5, 9")


def test_what_a_run_may_spend_and_retry_counts_for_nothing(base: RunLayout, tmp_path: Path) -> None:
    changed = {"retries": 9, "budget": {"evaluations": 100, "run": {"usd": 5.0}}, "name": "b", "max_workers": 8}
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]), config_hash=OTHER, snapshot=changed)
    assert counting(base, other) == []
    assert found(base, other)["config"].why == "in nothing that changes a score"


def test_the_salt_is_told_but_is_no_treatment(base: RunLayout, tmp_path: Path) -> None:
    rows = jobs(flat, ["x", "y"], [1, 2, 3])
    anew = found(base, make_experiment(tmp_path, "b", rows, lock={"salt": "ab" * 8}))["held-out data"]
    assert not anew.counts and "not the held-out instances" in anew.why
    going_on = found(base, make_experiment(tmp_path, "c", rows, lock={"salt": None}))["held-out data"]
    assert (going_on.baseline, going_on.other, going_on.counts) == ("known", "not known yet", False)


def test_the_machine_is_told_but_is_no_treatment(base: RunLayout, tmp_path: Path) -> None:
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]), cpu="another")
    assert counting(base, other) == [] and found(base, other)["machine"].other == "another"


def test_a_trainer_and_its_parameters_are_one_axis(tmp_path: Path) -> None:
    rows = [
        *jobs(flat, ["x"], [1, 2]),
        *jobs(flat, ["x"], [1, 2], trainer_id="P", variant="n=2", resolved_trainer_kwargs={"n": 2}, model="m"),
    ]
    run = make_experiment(tmp_path, "a", rows)
    parts = choose([run], [parse_where("trainer=NoOp"), parse_where("trainer=P")], None, None)
    told = {axis.name: axis for axis in axes(*parts)}
    assert told["trainer"].counts and told["model"].counts and "config" not in told
    assert not told["parameters"].counts and told["parameters"].why == "follows from trainer"
    refused = refusal(parts)
    assert refused is not None and "2 axes (model, trainer)" in refused


def test_only_what_differs_of_parameters_is_shown(tmp_path: Path) -> None:
    shared = {"batch": 1, "verbose": False}
    rows = [
        *jobs(flat, ["x"], [1], trainer_id="P", variant="1", resolved_trainer_kwargs={**shared, "n": 1}),
        *jobs(flat, ["x"], [1], trainer_id="P", variant="2", resolved_trainer_kwargs={**shared, "n": 2}),
    ]
    parts = choose([make_experiment(tmp_path, "a", rows)], [], "variant", None)
    assert axes(*parts) == [Axis("parameters", "n=1", "n=2")]


def test_another_family_of_images_follows_from_the_trainer(base: RunLayout, tmp_path: Path) -> None:
    images = {"core+gepa": {**IMAGE, "family": "core+gepa"}}
    rows = jobs(flat, ["x", "y"], [1, 2, 3], trainer_id="GEPA-Base")
    other = make_experiment(tmp_path, "b", rows, lock={"images": images})
    assert counting(base, other) == ["trainer"] and found(base, other)["images"].why == "follows from trainer"


def test_a_snapshot_of_an_earlier_version_lacks_keys_and_differs_in_none(base: RunLayout, tmp_path: Path) -> None:
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]))
    early = {key: value for key, value in SNAPSHOT.items() if key not in ("splits", "objective", "score_timeout")}
    import yaml

    other.config_snapshot.write_text(yaml.safe_dump(early))
    assert found(base, other) == {}


def test_what_a_run_has_no_record_of_is_not_known_and_no_repetition(base: RunLayout, tmp_path: Path) -> None:
    other = make_experiment(tmp_path, "b", jobs(flat, ["x", "y"], [1, 2, 3]), config_hash=OTHER)
    other.config_snapshot.unlink()
    other.lock.unlink()
    told = found(base, other)
    assert [axis.unknown for axis in told.values()] == [False, True, True] and counting(base, other) == []
    assert told["config"].why == "the difference is not known"
    assert told["code, images, content of tasks"].why == "b has no lock.json"
    refused = refusal(choose([base, other], [], None, None))
    assert refused is not None and "it is not known in what 'a' and 'b' differ besides" in refused
    done = compare(choose([base, other], [], None, None))
    assert not any("repetition" in str(block) for section in sections(done) for block in section.blocks)


@pytest.mark.parametrize(("usd", "counts"), [(0.05, ["budgets"]), (None, [])])
def test_prices_count_where_a_budget_is_in_dollars(tmp_path: Path, usd: float | None, counts: list[str]) -> None:
    rows = jobs(flat, ["x"], [1, 2])
    runs = [
        make_experiment(
            tmp_path, name, rows, snapshot={"budget": {"usd": usd}}, lock={"prices": {"stub": {"prompt": p}}}
        )
        for name, p in (("a", 1), ("b", 10))
    ]
    assert counting(*runs) == counts
    if usd:
        assert found(*runs)["budgets"].other == "prices of stub.prompt=10.0"


@pytest.mark.parametrize(("backend", "counts"), [("local", ["packages"]), ("docker", [])])
def test_packages_of_the_host_count_where_jobs_run_in_them(tmp_path: Path, backend: str, counts: list[str]) -> None:
    rows = jobs(flat, ["x"], [1, 2], backend=backend)
    runs = [
        make_experiment(tmp_path, name, rows, lock={"packages": {"numpy": version}})
        for name, version in (("a", "1.26"), ("b", "2.3"))
    ]
    assert counting(*runs) == counts


def test_parameters_of_a_trainer_that_both_have_count_beside_other_trainers(tmp_path: Path) -> None:
    rows = [
        [
            *jobs(flat, ["x"], [1], trainer_id="P", resolved_trainer_kwargs={"k": k}),
            *jobs(flat, ["x"], [1], trainer_id=t),
        ]
        for k, t in ((1, "Q"), (2, "R"))
    ]
    runs = [make_experiment(tmp_path, name, side) for name, side in zip("ab", rows, strict=True)]
    assert counting(*runs) == ["trainer", "parameters"]


@pytest.mark.parametrize("form", ["table", "md"])
def test_hostile_names_stay_on_their_line(
    form: str, base: RunLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [job("x", 1, 0.5, trainer_id="a\n\x1b[31mb", resolved_trainer_kwargs={"\x1b]0;": "x\ny"})]
    other = make_experiment(tmp_path, "b", rows)
    compare_command([str(base.root), str(other.root)], form=form, explain=True, runs_dir=tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines) and any("[31mb" in line for line in lines)


def test_hardware_is_an_axis_where_scores_depend_on_it(tmp_path: Path) -> None:
    one = make_experiment(tmp_path, "a", jobs(flat, ["x"], [1, 2], hardware="A"))
    two = make_experiment(tmp_path, "b", jobs(flat, ["x"], [1, 2], hardware="B"), cpu="another")
    machine = found(one, two)["machine"]
    assert machine.counts and (machine.baseline, machine.other) == ("A", "B")
    told = " ".join(str(block) for section in [summary(compare(choose([one, two], [], None, None)))]
                    for block in section.blocks)  # fmt: skip
    assert "DIFFERENT HARDWARE" in told and "(A; B)" in told
    same = make_experiment(tmp_path, "c", jobs(flat, ["x"], [1, 2], hardware="A"))
    assert "machine" not in found(one, same)
