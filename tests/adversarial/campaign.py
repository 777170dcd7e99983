"""Runs attacks as jobs of one run, and reads what their files say."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.adversarial.attacks import HONEST, source_of
from tests.adversarial.attacks.registry import ATTACKS
from tests.engine import on_runtime
from tests.integration.cli import cli
from tests.sandbox.lab import SLOWNESS
from trace_bench.artifacts.layout import RunLayout
from trace_bench.identity import test_seed as held_out_seed
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.suites.splits import split_seed
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.problem import BuildContext

TASKS = Path(__file__).parent / "tasks"
SEED = 7
FAILURE = {"solve": -5000.0, "policy": 1000.0, "fit": 1e6}
SPLITS = ("train", "test")
INSTANCES = 1
"""Of each split, as in tasks/problem.py."""


@dataclass(frozen=True)
class Kind:
    """A shipped task that is attacked, on instances of `settings`.

    Attributes:
        interaction: what attacks take it for.
    """

    task: str
    interaction: str
    settings: dict[str, Any]


KINDS = {
    "constructive": Kind("llm4ad:optimization/tsp_construct", "policy", {"problem_size": 15}),
    "packing": Kind("llm4ad:circle_packing", "solve", {"n": 7}),
    "scheduling": Kind("llm4ad:optimization/jssp_construct", "policy", {}),
    "fitting": Kind("llm4ad:science_discovery/oscillator1", "fit", {}),
    "control": Kind("llm4ad:machine_learning/pendulum", "policy", {}),
}


@cache
def game(interaction: str, root: Path = TASKS) -> ModuleType:
    """The task's own module: data, evaluation, the honest program and what it scores by hand."""
    return load_module(root / interaction / "game.py")


@cache
def honest_scores(interaction: str, root: Path, seed: int) -> list[float]:
    """Of the honest program on each instance of `seed`: drawn anew here, and scored by hand."""
    own = game(interaction, root)
    return [own.honest_score(instance) for instance in own.instances(seed, INSTANCES)]


@cache
def failures(interaction: str, root: Path, seed: int) -> list[float]:
    """What a failure is worth on each instance of `seed`."""
    if interaction not in KINDS:
        return [FAILURE[interaction]] * INSTANCES
    own = game(interaction, root)
    return [own.failure(instance) for instance in own.instances(seed, INSTANCES)]


def prepare_kind(place: Path, kind: Kind) -> None:
    """The folder of a shipped task under attack."""
    found = resolve(kind.task).folder
    spec = load_task_spec(found)
    assert spec.candidates is not None
    place.mkdir()
    shutil.copy(found / "evaluator.py", place)
    shutil.copy(found / spec.candidates.template, place / "template.py")
    shutil.copy(found / "task.toml", place / "spec.toml")
    shutil.copy(TASKS / "suite_game.py", place / "game.py")
    settings = {name: argument.default for name, argument in spec.eval_kwargs.items() if name != "n_instance"}
    (place / "settings.json").write_text(json.dumps(settings | kind.settings))
    plain = (TASKS / kind.interaction / "task.toml").read_text()
    plain = re.sub(r'direction = "\w+"', f'direction = "{spec.score.direction}"', plain)
    plain = re.sub(r"failure = \S+", f"failure = {spec.score.failure!r}", plain)
    (place / "task.toml").write_text(re.sub(r"memory_mb = \d+", f"memory_mb = {spec.limits.memory_mb}", plain))


def prepare(folder: Path) -> Path:
    """The three tasks, and those that ship, with all attacks in them, below `folder`."""
    folder.mkdir()
    for interaction in (*FAILURE, *KINDS):
        place = folder / interaction
        if interaction in KINDS:
            prepare_kind(place, KINDS[interaction])
        else:
            shutil.copytree(TASKS / interaction, place, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(TASKS / "problem.py", place)
        own = game(interaction, folder)
        plain = own.HONEST.replace("def honest", f"def {own.ENTRY}")
        ease = {"filler": "", "times": 0, "by_guide": False, "wall_seconds": 20.0, "cpu_seconds": 20.0}
        sources = {HONEST: {"source": plain, **ease}}
        for attack in ATTACKS.values():
            sources[attack.name] = {
                "source": source_of(attack, own.ENTRY, own.HONEST), "filler": attack.filler, "times": attack.times,
                "by_guide": attack.by_guide, "wall_seconds": attack.timeout_seconds, "cpu_seconds": attack.cpu_seconds,
            }  # fmt: skip
        (place / "sources.json").write_text(json.dumps(sources))
    return folder


@dataclass(frozen=True)
class Example:
    split: str
    attack: str
    honest: bool
    score: float
    failed: bool
    feedback: str


@dataclass(frozen=True)
class Job:
    """The files of one job about one of its attacks, and the honest scores by hand.

    Attributes:
        attack: whose examples are read.
    """

    folder: Path
    attack: str
    interaction: str
    root: Path
    meta: dict[str, Any]
    result: dict[str, Any]
    salt: str

    def all_examples(self, state: str = "initial") -> list[Example]:
        """The examples of all attacks of the job."""
        told = json.loads((self.folder / "attempts" / "1" / "out" / "result.json").read_text())["scores"][state]
        return [
            Example(split, name, kind == "honest", e["score"], e["failed"], e["feedback"])
            for e in told["examples"]
            for split, _, name, kind in [e["id"].split("-")]
        ]

    def examples(self, state: str = "initial") -> list[Example]:
        """The examples of this attack, and of the honest program after each."""
        return [example for example in self.all_examples(state) if example.attack == self.attack]

    def honest_scores(self, split: str) -> list[float]:
        return honest_scores(self.interaction, self.root, split_seed(self._context(), split))

    def failures(self, split: str) -> list[float]:
        return failures(self.interaction, self.root, split_seed(self._context(), split))

    def expected(self, split: str, outcome: str) -> list[float]:
        """Of each example in order, the attack's and the honest one's: if the attack comes to `outcome`."""
        found: list[float] = []
        for honest, failure in zip(self.honest_scores(split), self.failures(split), strict=True):
            found += [honest if outcome == HONEST else failure, honest]
        return found

    def _context(self) -> BuildContext:
        secret = held_out_seed(self.salt, f"internal:{self.interaction}", SEED)
        return BuildContext(Path(), {}, {}, SEED, None, secret)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Campaign:
    folder: Path
    jobs: dict[tuple[str, str], Job]
    honest: list[Job]
    code: int
    stdout: str
    stderr: str


AT_ONCE = 24
"""Attacks of one kind that share a sandbox."""
Group = tuple[tuple[str, ...], str]
"""Attacks that share a job, and the interaction that they use."""


def alone(pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """Each pair of attack and interaction as a group of its own."""
    return [((name,), interaction) for name, interaction in pairs]


def together(pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """Groups of attacks with one interaction and one place in the registry; those that hang stand apart."""
    kinds: dict[tuple[str, bool], list[str]] = {}
    for name, interaction in pairs:
        kinds.setdefault((interaction, ATTACKS[name].timeout_seconds < HANGS_BELOW), []).append(name)
    found = []
    for (interaction, hangs), names in kinds.items():
        size = AT_ONCE // 4 if hangs else AT_ONCE
        found += [(tuple(names[at : at + size]), interaction) for at in range(0, len(names), size)]
    return found


HANGS_BELOW = 20.0
"""Seconds; an attack with a shorter limit of time is one that uses it up."""


def wage(
    folder: Path,
    home: Path,
    groups: Sequence[Group],
    *,
    trainers: list[Any] | None = None,
    workers: int = 3,
    config_of: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Campaign:
    """One run with a job for each group, and honest ones among them; `config_of` are more keys of its config,
    `environment` variables of the command."""
    tasks: list[dict[str, Any]] = []
    # Those that hang come first, so that none of them is the last alone.
    for names, interaction in sorted(groups, key=lambda group: ATTACKS[group[0][0]].timeout_seconds):
        tasks.append({"id": f"internal:{interaction}", "eval_kwargs": {"attacks": " ".join(names)}})
    for at, interaction in enumerate(FAILURE):
        honest_task = {"id": f"internal:{interaction}", "eval_kwargs": {"attacks": HONEST}}
        tasks.insert(at + at * len(groups) // len(FAILURE), honest_task)
    config = folder / "config.json"
    config.write_text(json.dumps({
        "runs_dir": str(folder / "runs"), "mode": "stub", "tasks": tasks, "trainers": trainers or ["NoOp"],
        "seeds": [SEED], "max_workers": workers, "score_timeout": 300 * SLOWNESS, "job_timeout": 300 * SLOWNESS,
        "retries": 1,
        "sandbox": on_runtime({"memory": "1g"}), **(config_of or {}),
    }))  # fmt: skip
    root = prepare(folder / "tasks")
    done = cli("run", "--config", str(config), "--root", str(root), home=home, timeout=1800, **(environment or {}))
    (run,) = (folder / "runs").iterdir()
    layout = RunLayout(run)
    salt = json.loads(layout.lock.read_text())["salt"]
    jobs: dict[tuple[str, str], Job] = {}
    honest = []
    for place in sorted((run / "jobs").iterdir()):
        meta = json.loads((place / "job_meta.json").read_text())
        result = json.loads((place / "results.json").read_text())
        interaction = meta["task_id"].removeprefix("internal:")
        for at, name in enumerate(meta["eval_kwargs"]["attacks"].split()):
            job = Job(place, name, interaction, root, meta, result, salt)
            if name != HONEST:
                jobs[name, interaction] = job
            elif at == 0:
                honest.append(job)
    sys.stdout.write(done.stdout[-3000:])
    return Campaign(run, jobs, honest, done.returncode, done.stdout, done.stderr)
