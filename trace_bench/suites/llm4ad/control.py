"""What control tasks share: the episode loop, and simulated systems that start where an instance says.

The physics are gymnasium's own (Acrobot-v1, MountainCar-v0, MountainCarContinuous-v0, Pendulum-v1, LunarLander-v3),
without rendering. An instance is one episode: the state that it starts from, or the seed that all that is random in it
follows from.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from trace_bench.suites import checks
from trace_bench.suites.drawing import INK, Drawing, chart, colour

_CLASSIC: Mapping[str, Callable[[], Any]] = {
    "Acrobot-v1": AcrobotEnv,
    "MountainCar-v0": MountainCarEnv,
    "MountainCarContinuous-v0": Continuous_MountainCarEnv,
    "Pendulum-v1": PendulumEnv,
}
LANDER = "LunarLander-v3"


@dataclass(frozen=True)
class Episode:
    """What happened in one episode of T steps.

    Attributes:
        observations: T + 1 of them, the last after the last step; floats.
        actions: T of them: ints, or floats where the action is a force.
        rewards: T of them, as gymnasium gives them.
        ended: whether the system ended the episode (a goal, a crash), not the limit of steps.
    """

    observations: list[list[float]]
    actions: list[float]
    rewards: list[float]
    ended: bool

    @property
    def steps(self) -> int:
        return len(self.actions)

    def observed(self, number: int) -> list[float]:
        """One quantity over time, T + 1 values."""
        return [row[number] for row in self.observations]


def play(
    program: Callable[..., Any],
    name: str,
    *,
    max_steps: int,
    start: Sequence[float] | None = None,
    seed: int = 0,
    wind: float = 0.0,
) -> Episode:
    """One episode: ``program(*observation)`` is asked for each action.

    Args:
        name: of the environment.
        start: the state in which the episode begins (not an observation); None for the one that `seed` draws.
        seed: of the environment's own generator.
        wind: the most that the wind pushes the lander sideways.

    Raises:
        CandidateError: an action is not one of the environment's.
    """
    system = _lander()(enable_wind=wind > 0, wind_power=wind) if name == LANDER else _CLASSIC[name]()
    seen, _ = system.reset(seed=seed)
    if start is not None:
        system.state = np.array(start, dtype=np.float64)
        seen = system._get_obs() if name == "Pendulum-v1" else system._get_ob() if name == "Acrobot-v1" else start
    force = 0.0 if name == LANDER or hasattr(system.action_space, "n") else float(system.action_space.high[0])
    observations, actions, rewards, ended = [[float(v) for v in seen]], [], [], False
    for step in range(max_steps):
        answered = program(*observations[-1])
        what = f"the action of step {step}"
        if force:
            action: float = checks.real(answered, what, low=-force, high=force)
            seen, reward, ended, _, _ = system.step(np.array([action]))
        else:
            action = checks.integer(answered, what, low=0, high=int(system.action_space.n) - 1)
            seen, reward, ended, _, _ = system.step(action)
        observations.append([float(v) for v in seen])
        actions.append(action)
        rewards.append(float(reward))
        if ended:
            break
    return Episode(observations, actions, rewards, bool(ended))


def late(episode: Episode, max_steps: int, missing: float) -> float:
    """Steps to the goal; an episode that never reached it counts all of them, and again as many times `missing`.

    Args:
        missing: the least share of the way that was ever left, 0 .. 1.
    """
    if episode.ended:
        return float(episode.steps)
    return max_steps * (1 + min(1.0, max(0.0, missing)))


def used(episode: Episode) -> str:
    """How often each action was chosen, or how large the forces were; for a remark."""
    if all(isinstance(a, int) for a in episode.actions):
        counts = {a: episode.actions.count(a) for a in sorted(set(episode.actions))}
        return "actions: " + ", ".join(f"{a} {n} times" for a, n in counts.items())
    mean = sum(map(abs, episode.actions)) / max(1, episode.steps)
    return f"mean absolute action {mean:.3f}, mean {sum(episode.actions) / max(1, episode.steps):+.3f}"


def over_time(lines: Sequence[tuple[str, Sequence[float]]], *, level: float | None = None) -> Drawing:
    """Quantities over the steps of an episode; `level` is drawn as a dashed line."""
    drawing = chart([(name, list(enumerate(values))) for name, values in lines])
    if level is not None:
        drawing.path([(0, level), (max(len(values) for _, values in lines) - 1, level)], line=INK, dashed=True)
    return drawing


def flight(episode: Episode) -> Drawing:
    """The path of the lander over its pad, and where it burned its main engine."""
    points = [(row[0], row[1]) for row in episode.observations]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    left, right = min([-0.6, *xs]), max([0.6, *xs])
    drawing = Drawing(left, right, min([-0.1, *ys]), max([1.5, *ys]))
    drawing.path([(left, 0), (right, 0)], dashed=True)
    drawing.path([(-0.2, 0), (0.2, 0)], line=colour(2), thick=3)
    drawing.path(points, line=colour(0))
    drawing.dots([p for p, a in zip(points, episode.actions, strict=False) if a == 2], fill=colour(1), size=1.2)
    return drawing


@cache
def _lander() -> Any:
    """The class of the lander, from its own file: gymnasium's package around it needs pygame, which only draws."""
    path = Path(gymnasium.__file__).parent / "envs" / "box2d" / "lunar_lander.py"
    spec = importlib.util.spec_from_file_location("gymnasium_lunar_lander", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)  # SWIG's own
        spec.loader.exec_module(module)
    return module.LunarLander
