"""Control: the physics that statements promise, where episodes begin and end, and what steps are worth."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import control

GetTask = Callable[[str], Task]
CAR, THROTTLE, ACROBOT, PENDULUM, LANDER = (
    f"llm4ad:machine_learning/{name}"
    for name in ("car_mountain", "car_mountain_continue", "acrobot", "pendulum", "moon_lander")
)
EVERY = (CAR, THROTTLE, ACROBOT, PENDULUM, LANDER)
DISCRETE = {CAR: 3, ACROBOT: 3, LANDER: 4}
FORCE = {THROTTLE: 1.0, PENDULUM: 2.0}
every = pytest.mark.parametrize("name", EVERY)


def in_order(actions: Sequence[Any]) -> Callable[..., Any]:
    """A program that gives these actions, whatever it is told; then the last one for ever."""
    step = count()
    return lambda *_: actions[min(next(step), len(actions) - 1)]


def some_actions(name: str, seed: int, length: int, hold: int = 7) -> list[Any]:
    """Random actions, each held for a few steps."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(DISCRETE[name], size=length) if name in DISCRETE else rng.uniform(-1, 1, length) * FORCE[name]
    return [a for a in drawn.tolist() for _ in range(hold)]


# -- what holds for all


@every
def test_an_episode_follows_from_its_instance_to_the_bit(name: str, task: GetTask) -> None:
    one = task(name)
    actions = some_actions(name, 3, 20)
    first, again, other = (one.instance(seed, max_steps=120) for seed in (5, 5, 6))
    assert first == again != other
    played = [one.module.answer(in_order(actions), made) for made in (first, again, other)]
    assert played[0] == played[1] and played[0].observations != played[2].observations
    assert one.verdict(first, played[0]).score.hex() == one.verdict(again, played[1]).score.hex()


@every
def test_the_rule_is_asked_once_a_step_and_never_after_the_limit(name: str, task: GetTask) -> None:
    one = task(name)
    asked: list[tuple[float, ...]] = []

    def nothing(*observation: float) -> float | int:
        asked.append(observation)
        return {CAR: 1, ACROBOT: 1, LANDER: 0}.get(name, 0.0)

    episode = one.module.answer(nothing, one.instance(max_steps=17))
    assert len(asked) == episode.steps == 17 and not episode.ended
    assert [list(seen) for seen in asked] == episode.observations[:-1]
    assert all(type(value) is float for seen in asked for value in seen)


@pytest.mark.parametrize("name", DISCRETE)
def test_only_the_numbers_of_actions_are_taken(name: str, task: GetTask) -> None:
    one = task(name)
    made = one.instance(max_steps=5)
    for bad in (-1, DISCRETE[name], 1.0, True, None, "2", 10**400, [1], np.array([1])):
        assert "the action of step 2 must be" in one.refusal(made, in_order([0, np.int64(1), bad]))


@pytest.mark.parametrize("name", FORCE)
def test_only_forces_that_the_motor_has_are_taken(name: str, task: GetTask) -> None:
    one = task(name)
    made, most = one.instance(max_steps=3), FORCE[name]
    one.play(in_order([most, -most, 1]), made)
    for bad in (most * 1.001, -most * 1.001, math.nan, math.inf, True, None, "1", 10**400, [0.5], np.array([0.5])):
        assert "the action of step 1 must be" in one.refusal(made, in_order([0.0, bad]))


@given(name=st.sampled_from(EVERY), seed=st.integers(0, 2**32), limit=st.integers(1, 150))
def test_no_rule_scores_better_than_the_bound_or_worse_than_a_failure(name: str, seed: int, limit: int) -> None:
    one = task_of(name)
    made = one.instance(seed, max_steps=limit)
    score = one.play(in_order(some_actions(name, seed, 20)), made)
    worst, bound = one.judge.worst([made]), one.judge.best([made])
    low, high = sorted((worst, score))
    assert (low if one.spec.score.direction == "maximize" else high) == worst
    if bound is not None:
        assert score <= bound if one.spec.score.direction == "maximize" else score >= bound
    assert 0 <= one.judge.normalised(made, score) <= 1 + 1e-9 or bound is None


def test_nothing_of_the_drawing_library_is_left_behind(task: GetTask) -> None:
    task(LANDER).play(lambda *_: 0, task(LANDER).instance(max_steps=1))
    assert "pygame" not in sys.modules


# -- mountain car, with and without a throttle


def car_by_hand(start: float, pushes: Sequence[float], strength: float, goal: float) -> list[tuple[float, float]]:
    """As the statements have it."""
    states, (x, v) = [], (start, 0.0)
    for push in pushes:
        v = min(0.07, max(-0.07, v + strength * push - 0.0025 * math.cos(3 * x)))
        x = min(0.6, max(-1.2, x + v))
        v = 0.0 if x == -1.2 and v < 0 else v
        states.append((x, v))
        if x >= goal:
            break
    return states


@pytest.mark.parametrize("seed", range(3))
def test_the_car_moves_as_its_statement_says(seed: int, task: GetTask) -> None:
    for name, strength, goal in ((CAR, 0.001, 0.5), (THROTTLE, 0.0015, 0.45)):
        one = task(name)
        made = one.instance(seed, max_steps=150)
        actions = some_actions(name, seed, 8, hold=19)[:150]
        pushes = [a - 1 for a in actions] if name == CAR else actions
        wanted = car_by_hand(made["start"][0], pushes, strength, goal)
        episode = one.module.answer(in_order(actions), made)
        assert episode.steps == len(wanted)
        assert np.array(episode.observations[1:]) == pytest.approx(np.array(wanted), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_step_that_reaches_the_flag_counts_and_is_the_last(seed: int, task: GetTask) -> None:
    def pump(x: float, v: float) -> float:
        return 1.0 if v >= 0 else -1.0

    one = task(CAR)
    made = one.instance(seed)
    positions = one.module.answer(lambda x, v: 1 + int(pump(x, v)), made).observed(0)
    first = next(i for i, x in enumerate(positions) if x >= 0.5)
    assert first == len(positions) - 1 == one.play(lambda x, v: 1 + int(pump(x, v)), made)
    assert one.judge.best([made]) == math.ceil((0.5 - made["start"][0]) / 0.07) < first
    short = made | {"max_steps": first - 1}
    missed = one.play(lambda x, v: 1 + int(pump(x, v)), short)
    assert missed == pytest.approx((first - 1) * (1 + (0.5 - positions[-2]) / 1.7)) and missed > first - 1
    assert one.play(lambda x, v: 1 + int(pump(x, v)), made | {"max_steps": first}) == first


def test_effort_is_what_the_throttle_costs(task: GetTask) -> None:
    one = task(THROTTLE)
    made = one.instance(2)
    episode = one.module.answer(one.program("reference"), made)
    spent = 0.1 * math.fsum(u * u for u in episode.actions)
    assert episode.ended and one.verdict(made, episode).score == pytest.approx(100 - spent)
    assert sum(episode.rewards) == pytest.approx(100 - spent), "as gymnasium counts where the flag is reached"
    idle = one.module.answer(lambda x, v: 0.0, made)
    nearest = max(idle.observed(0))
    assert one.verdict(made, idle).score == pytest.approx(-100 * (0.45 - nearest) / 1.65)


# -- acrobot


def test_a_mirrored_arm_under_mirrored_torque_does_the_same(task: GetTask) -> None:
    one = task(ACROBOT)
    made = one.instance(4)
    rule = one.program("reference")

    def mirrored(c1: float, s1: float, c2: float, s2: float, w1: float, w2: float) -> int:
        return 2 - int(rule(c1, -s1, c2, -s2, -w1, -w2))

    other = made | {"start": [-value for value in made["start"]]}
    one_way, other_way = one.module.answer(rule, made), one.module.answer(mirrored, other)
    assert one_way.steps == other_way.steps and one_way.ended
    assert one.play(rule, made) == one_way.steps
    sign = np.array([1, -1, 1, -1, -1, -1])
    assert np.array(one_way.observations) * sign == pytest.approx(np.array(other_way.observations), abs=1e-4)


def test_the_arm_ends_as_soon_as_its_free_end_is_above_the_line(task: GetTask) -> None:
    one = task(ACROBOT)
    made = one.instance(1)
    episode = one.module.answer(one.program("reference"), made)
    heights = [
        -math.cos(a) - math.cos(a + b) for a, b in
        ((math.atan2(s1, c1), math.atan2(s2, c2)) for c1, s1, c2, s2, *_ in episode.observations)
    ]  # fmt: skip
    assert max(heights[:-1]) <= 1 < heights[-1] + 1e-6
    assert one.module.heights(episode) == pytest.approx(heights, abs=1e-5)
    hanging = one.play(lambda *_: 1, made | {"start": [0.0] * 4, "max_steps": 20})
    assert hanging == one.judge.worst([made | {"max_steps": 20}]) == 40


def rates(state: np.ndarray, torque: float) -> np.ndarray:
    """As the statement has it."""
    t1, t2, w1, w2 = state
    d1, d2, q = 3.5 + math.cos(t2), 1.25 + 0.5 * math.cos(t2), 4.9 * math.sin(t1 + t2)
    p = 14.7 * math.sin(t1) + q - (0.5 * w2**2 + w1 * w2) * math.sin(t2)
    a2 = (torque + d2 / d1 * p - 0.5 * w1**2 * math.sin(t2) - q) / (1.25 - d2**2 / d1)
    return np.array([w1, w2, -(d2 * a2 + p) / d1, a2])


@pytest.mark.parametrize("seed", range(3))
def test_the_arm_moves_as_its_statement_says(seed: int, task: GetTask) -> None:
    one = task(ACROBOT)
    made = one.instance(seed, max_steps=25)
    actions = some_actions(ACROBOT, seed, 5, hold=5)
    state, seen = np.array(made["start"]), []
    for action in actions:
        k1 = rates(state, action - 1)
        k2 = rates(state + 0.1 * k1, action - 1)
        k3 = rates(state + 0.1 * k2, action - 1)
        k4 = rates(state + 0.2 * k3, action - 1)
        state = state + 0.2 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t1, t2, w1, w2 = state
        seen.append([math.cos(t1), math.sin(t1), math.cos(t2), math.sin(t2), w1, w2])
    episode = one.module.answer(in_order(actions), made)
    assert np.array(episode.observations[1:]) == pytest.approx(np.array(seen), abs=1e-5)


def test_an_arm_that_nobody_pushes_keeps_its_energy(task: GetTask) -> None:
    one = task(ACROBOT)
    made = {"start": [0.8, -0.5, 0.3, -0.2], "max_steps": 60}
    episode = one.module.answer(lambda *_: 1, made)

    def energy(c1: float, s1: float, c2: float, s2: float, w1: float, w2: float) -> float:
        inner, outer, tip = 1.25, 1.25, w1 + w2  # of each link about its own joint
        moving = 0.5 * (inner + 1) * w1**2 + 0.5 * outer * tip**2 + 0.5 * c2 * w1 * tip
        return moving - 9.8 * (1.5 * c1 + 0.5 * (c1 * c2 - s1 * s2))

    found = [energy(*row) for row in episode.observations]
    assert found == pytest.approx([found[0]] * len(found), abs=0.2)


# -- pendulum


@pytest.mark.parametrize("seed", range(3))
def test_the_pendulum_moves_and_costs_as_its_statement_says(seed: int, task: GetTask) -> None:
    one = task(PENDULUM)
    made = one.instance(seed, max_steps=60)
    torques = some_actions(PENDULUM, seed, 9)[:60]
    (angle, speed), cost, seen = made["start"], 0.0, []
    for torque in torques:
        cost += math.remainder(angle, 2 * math.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = min(8.0, max(-8.0, speed + 0.05 * (15 * math.sin(angle) + 3 * torque)))
        angle += 0.05 * speed
        seen.append([math.cos(angle), math.sin(angle), speed])
    episode = one.module.answer(in_order(torques), made)
    assert np.array(episode.observations[1:]) == pytest.approx(np.array(seen), abs=1e-5)
    assert one.verdict(made, episode).score == pytest.approx(cost)
    assert one.judge.best([made]) is not None and one.judge.best([made]) <= cost  # type: ignore[operator]


@given(seed=st.integers(0, 2**32))
def test_a_mirrored_pendulum_under_a_mirrored_rule_costs_the_same(seed: int) -> None:
    one = task_of(PENDULUM)
    made = one.instance(seed, max_steps=40)
    actions = some_actions(PENDULUM, seed, 6)
    other = made | {"start": [-value for value in made["start"]]}
    mirrored = one.play(in_order([-a for a in actions]), other)
    assert one.play(in_order(actions), made) == pytest.approx(mirrored, rel=1e-9)
    assert one.judge.best([made]) == one.judge.best([other])


def test_standing_still_upright_costs_nothing_and_hanging_costs_pi_squared_a_step(task: GetTask) -> None:
    one = task(PENDULUM)
    assert one.play(lambda *_: 0.0, {"start": [0.0, 0.0], "max_steps": 200}) == 0
    hanging = one.play(lambda *_: 0.0, {"start": [math.pi, 0.0], "max_steps": 10})
    assert hanging == pytest.approx(10 * math.pi**2)


# -- moon lander


@pytest.mark.parametrize("rule", ["reference", "template", "worse"])
def test_the_lander_is_scored_as_its_statement_says(rule: str, task: GetTask) -> None:
    one = task(LANDER)
    made = one.instance(2)
    episode = one.module.answer(one.program(rule), made)
    standing = [one.module.standing(row) for row in episode.observations]
    fuel = [{0: 0.0, 2: 0.3}.get(a, 0.03) for a in episode.actions]
    steps = [after - before - burnt for before, after, burnt in zip(standing, standing[1:], fuel, strict=False)]
    assert episode.ended
    steps[-1] = 100.0 if rule == "reference" else -100.0
    assert one.verdict(made, episode).score == pytest.approx(sum(steps), abs=0.01)
    assert episode.rewards[-1] == steps[-1]
    bound = one.judge.best([made])
    assert bound is not None and sum(steps) <= bound == pytest.approx(120 - standing[0], abs=0.01)


def test_engines_push_and_turn_as_the_statement_says(task: GetTask) -> None:
    one = task(LANDER)
    made = one.instance(2, max_steps=15)
    last = {a: one.module.answer(in_order([a]), made).observations[-1] for a in range(4)}
    assert last[1][4] > last[0][4] > last[3][4], "the left engine turns it counterclockwise, the right one clockwise"
    assert last[1][2] < last[0][2] < last[3][2], "the left engine pushes it to the left, the right one to the right"
    first = one.module.answer(in_order([0]), made).observations[0]
    assert last[0][3] - first[3] == pytest.approx(-0.0267 * 15, abs=0.002)
    assert last[2][3] - last[0][3] == pytest.approx(0.05 * 15, rel=0.1)
    assert last[1][5] - last[0][5] == pytest.approx(0.04 * 15, rel=0.15)
    assert last[2][3] > one.module.answer(in_order([2]), made).observations[0][3] > last[0][3]


def test_wind_pushes_sideways_as_the_statement_says_and_not_at_all_unless_asked_for(task: GetTask) -> None:
    one = task(LANDER)
    calm, windy = (one.module.answer(in_order([0]), one.instance(2, max_steps=30, wind=w)) for w in (0.0, 10.0))
    gusts = [np.diff(episode.observed(2)) for episode in (calm, windy)]
    most = 10 * one.module.GUST
    assert np.abs(gusts[0]).max() < 0.1 * most < 0.5 * most < np.abs(gusts[1]).max() <= most
    assert one.module.described(max_steps=500, wind=0.0) == ""
    assert f"by at most {most:.4f} in a step" in one.module.described(max_steps=500, wind=10.0)


def test_what_a_lander_loses_is_limited(task: GetTask) -> None:
    one = task(LANDER)
    made = one.instance(3, max_steps=5)
    episode = control.Episode([[0.0] * 8] * 2, [0], [-9000.0], True)
    assert one.verdict(made, episode).score == -500 == one.judge.worst([made])
