"""Identities depend on what they name and on nothing else."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trace_bench import identity
from trace_bench.config import parse_config
from trace_bench.config.frozen import freeze
from trace_bench.identity import canonical_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
MAPPING = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


@dataclass(frozen=True)
class Inputs:
    task_id: str = "internal:numeric_param"
    eval_kwargs: dict[str, Any] = field(default_factory=lambda: {"start": 1.0})
    trainer_id: str = "PrioritySearch"
    params: dict[str, Any] = field(default_factory=lambda: {"num_steps": 2})
    optimizer: str = "OptoPrime"
    optimizer_kwargs: dict[str, Any] = field(default_factory=lambda: {"memory_size": 0})
    guide: str = "default"
    guide_kwargs: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=lambda: {"id": "stub"})
    seed: int = 123


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def exactly(value: Any) -> str:
    """A text that differs wherever two values differ, types included."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{exactly(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(exactly(item) for item in value) + "]"
    return f"{type(value).__name__}{value!r}"


# ----------------------------------------------------------------------------------------------- canonical JSON


@given(JSON)
def test_canonical_json_reads_back_and_ignores_key_order_and_freezing(value: Any) -> None:
    text = canonical_json(value)
    assert exactly(json.loads(text)) == exactly(value)
    assert text == canonical_json(reversed_keys(value)) == canonical_json(freeze(value))


@given(JSON, JSON)
def test_canonical_json_differs_where_values_differ(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == (exactly(one) == exactly(other))


def test_whole_numbers_floats_booleans_and_texts_are_four_things() -> None:
    assert len({canonical_json(v) for v in (1, 1.0, True, "1")}) == 4
    assert canonical_json(0.1 + 0.2) == b"0.30000000000000004"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"a": float("-inf")}]])
def test_numbers_that_are_not_finite_have_no_identity(value: Any) -> None:
    with pytest.raises(ValueError, match="finite"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {None: 1}}, {1, 2}, b"x", object()])
def test_what_json_would_quietly_change_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


# --------------------------------------------------------------------------------------- job_id and fingerprint


def prints(job: Inputs, **changed: Any) -> str:
    given_: dict[str, Any] = {
        "task_hash": "t",
        "image_key": "i",
        "sources_hash": "s",
        "budget": {"calls": 3},
        "splits": {"train": 1},
        "objective": "score",
        "limits": {"job_timeout": 60.0},
    }
    return identity.fingerprint(job, **(given_ | changed))


JOB_ID = "57aa3b32a318"
FINGERPRINT = "7ccf916fa5f106f5bb70bcc08ecbba330b1244ed0f397bfe9fd691bbec209134"


def test_a_job_id_is_twelve_hex_digits_and_stable() -> None:
    # Published runs are compared by these: a change here needs a new version in the hash's prefix.
    assert identity.job_id(Inputs()) == JOB_ID
    assert prints(Inputs()) == FINGERPRINT


@given(
    st.sampled_from([f.name for f in dataclasses.fields(Inputs)]),
    st.text(max_size=5),
    MAPPING,
    st.integers(0, 2**63 - 1),
)
def test_every_identity_field_changes_job_id_and_fingerprint(
    name: str, text: str, mapping: dict[str, Any], seed: int
) -> None:
    job = Inputs()
    old = getattr(job, name)
    new = text if isinstance(old, str) else seed if isinstance(old, int) else mapping
    changed = dataclasses.replace(job, **{name: new})
    same = exactly(old) == exactly(new)
    assert (identity.job_id(job) == identity.job_id(changed)) == same
    assert (prints(job) == prints(changed)) == same


@given(MAPPING, MAPPING, MAPPING)
def test_key_order_changes_neither(params: dict[str, Any], kwargs: dict[str, Any], model: dict[str, Any]) -> None:
    one = Inputs(params=params, eval_kwargs=kwargs, model=model)
    other = Inputs(params=reversed_keys(params), eval_kwargs=reversed_keys(kwargs), model=reversed_keys(model))
    assert identity.job_id(one) == identity.job_id(other) and prints(one) == prints(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"task_hash": "u"},
        {"image_key": "u"},
        {"sources_hash": "u"},
        {"budget": {"calls": 4}},
        {"budget": {"calls": None}},
        {"splits": {"train": 2}},
        {"objective": "pareto"},
        {"limits": {"job_timeout": 61.0}},
        {"limits": {"job_timeout": None}},
    ],
)
def test_every_other_condition_of_a_result_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    assert prints(Inputs()) != prints(Inputs(), **changed)


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_text_cannot_move_from_one_field_to_the_next(a: str, b: str, c: str, d: str) -> None:
    assume((a, b) != (c, d))
    assert identity.job_id(Inputs(task_id=a, trainer_id=b)) != identity.job_id(Inputs(task_id=c, trainer_id=d))
    assert prints(Inputs(), task_hash=a, image_key=b) != prints(Inputs(), task_hash=c, image_key=d)


def test_small_changes_do_not_collide() -> None:
    ids = {identity.job_id(Inputs(seed=s, params={"num_steps": n})) for s in range(200) for n in range(100)}
    assert len(ids) == 20_000


def test_the_prefix_gives_the_same_ids_as_the_whole() -> None:
    job = Inputs()
    fields = {f.name: getattr(job, f.name) for f in dataclasses.fields(job) if f.name != "seed"}
    prefix = identity.JobIdPrefix(**fields)
    for seed in (0, 1, 10, 2**63 - 1):
        assert prefix.job_id(seed) == identity.job_id(dataclasses.replace(job, seed=seed))


# ------------------------------------------------------------------------------------------------- config_hash

BASE: dict[str, Any] = {"tasks": ["circle_packing"], "trainers": [{"id": "NoOp"}]}
HASHES = {"llm4ad:circle_packing": "abc"}


def config_hash(changes: dict[str, Any], hashes: dict[str, str] | None = None) -> str:
    return identity.config_hash(parse_config(BASE | changes).to_snapshot(), hashes or HASHES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_workers": 8},
        {"n-concurrent": 8},
        {"runs_dir": "elsewhere"},
        {"run_id": "mine"},
        {"task_roots": ["/x"]},
        {"tags": ["a"]},
        {"resume": "none"},
        {"docker": {"hosts": [{"url": "ssh://me@far"}]}},
        {"sandbox": {"labels": ["far"], "pinned": True, "exclusive": True}},
        {"tasks": [{"id": "circle_packing", "sandbox": {"labels": ["far"], "exclusive": True}}]},
        {"trainers": [{"id": "NoOp", "logger": "none"}]},
        {"trainers": [{"name": "NoOp", "params": {}}]},
        {"tasks": ["llm4ad:circle_packing"]},
        {"seeds": [123]},
        {"seed": 123},
    ],
    ids=str,
)
def test_workers_paths_logger_tags_and_ways_of_writing_do_not_change_the_config_hash(changes: dict[str, Any]) -> None:
    assert config_hash(changes) == config_hash({})


def test_the_name_of_the_key_variable_does_not_change_the_config_hash() -> None:
    one, other = ({"llm": {"model": "m", "api_key_env": name}} for name in ("A_KEY", "B_KEY"))
    assert config_hash(one) == config_hash(other) == config_hash({"llm": {"model": "m"}}) != config_hash({})


CHANGES: list[dict[str, Any]] = [
    {"seeds": [1]},
    {"seeds": [123, 124]},
    {"tasks": ["internal:numeric_param"]},
    {"tasks": [{"id": "circle_packing", "eval_kwargs": {"n": 5}}]},
    {"tasks": [{"id": "circle_packing", "sandbox": {"pids": 99}}]},
    {"trainers": [{"id": "PrioritySearch"}]},
    {"trainers": [{"id": "NoOp", "params": {"x": 1}}]},
    {"trainers": [{"id": "NoOp", "params": {"x": 1.0}}]},
    {"trainers": [{"id": "NoOp", "optimizer": "OptoPrime"}]},
    {"trainers": [{"id": "NoOp", "ps_steps": 3}]},
    {"ps_steps": 3},
    {"trainer_kwargs": {"x": 3}},
    {"optimizer_kwargs": {"x": 3}},
    {"eval_kwargs": {"x": 3}},
    {"job_timeout": 61},
    {"score_timeout": 61},
    {"retries": 1},
    {"fail_fast": True},
    {"backend": "local"},
    {"images": {"base": "x"}},
    {"images": {"accept_drift": True}},
    {"sandbox": {"memory": "3g"}},
    {"sandbox": {"allow_weaker": ["ipc"]}},
    {"budget": {"calls": 3}},
    {"splits": {"train": 3}},
    {"llm": {"model": "m"}},
    {"llm": {"model": "m", "temperature": 0.5}},
]


def test_everything_else_changes_the_config_hash() -> None:
    hashes = [config_hash({}), *map(config_hash, CHANGES), config_hash({}, {"llm4ad:circle_packing": "abd"})]
    assert len(set(hashes)) == len(CHANGES) + 2


# ----------------------------------------------------------------------------------------------- run_id and seeds

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_a_run_id_is_utc_time_and_eight_digits_of_time_config_and_code() -> None:
    one = identity.run_id(NOW, "config", "sha")
    assert one.startswith("20260102-030405-") and len(one) == 24 and int(one[16:], 16) >= 0
    assert one == identity.run_id(NOW.astimezone(timezone(timedelta(hours=5))), "config", "sha")
    others = {
        identity.run_id(NOW + timedelta(microseconds=1), "config", "sha"),
        identity.run_id(NOW, "confih", "sha"),
        identity.run_id(NOW, "config", ""),
    }
    assert len(others | {one}) == 4
    with pytest.raises(ValueError, match="time zone"):
        identity.run_id(NOW.replace(tzinfo=None), "config", "sha")


def test_the_test_seed_depends_on_salt_task_and_seed() -> None:
    base = identity.test_seed("salt", "internal:a", 1)
    assert base == identity.test_seed("salt", "internal:a", 1)
    others = [("salu", "internal:a", 1), ("salt", "internal:b", 1), ("salt", "internal:a", 2), ("", "internal:a", 1)]
    assert len({identity.test_seed(*o) for o in others} | {base}) == 5


@given(st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**63 - 1))
def test_seeds_have_63_bits_and_test_and_slot_seeds_differ(salt: str, text: str, seed: int) -> None:
    seeds = (identity.test_seed(salt, text, seed), identity.slot_rng_seed(seed, text))
    assert all(0 <= s < 2**63 for s in seeds) and seeds[0] != seeds[1]


def test_slot_seeds_differ_by_seed_and_slot() -> None:
    slots = [f"step={s};candidate=c{c};proposal=0;attempt=0" for s in range(30) for c in range(30)]
    assert len({identity.slot_rng_seed(seed, slot) for seed in range(5) for slot in slots}) == 5 * 900
