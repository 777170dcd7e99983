"""A copy of OpenTrace as far as tests need one: trace-opt's own package, and trainers with the documented interface."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

ALGORITHM = """
class Trainer:
    def __init__(self, agent, num_threads=None, logger=None):
        self.agent, self.num_threads, self.logger = agent, num_threads, logger

    def train(self, guide, train_dataset, **kwargs):
        raise NotImplementedError
"""

BASIC = '''
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

import litellm  # nothing of it may be used

from opto.trainer.algorithms.algorithm import Trainer


class _Stepwise(Trainer):
    def __init__(self, agent, optimizer, num_threads=None, logger=None):
        super().__init__(agent, num_threads, logger)
        self.optimizer = optimizer

    def learn(self, guide, query, info):
        target = self.agent(query)
        score, feedback = guide(query, target.data, info)
        self.logger.log("score", score, 0)
        self.optimizer.zero_feedback()
        self.optimizer.backward(target, feedback)
        self.optimizer.step()
        return score


class Minibatch(_Stepwise):
    """One example, one step."""

    def train(self, guide, train_dataset, *, num_epochs: int = 1, min_score: Optional[float] = None, scale: float = 1,
              validate_dataset=None, num_threads: int = None, verbose=False, sizes=(1, 2), **kwargs):
        for epoch in range(num_epochs):
            for query, info in zip(train_dataset["inputs"], train_dataset["infos"]):
                score = self.learn(guide, query, info)
                if min_score is not None and score >= min_score:
                    return score
        for query in (validate_dataset or {"inputs": []})["inputs"]:
            self.agent(query)


class Parallel(Minibatch):
    """Answers on many threads, whatever it is told."""

    def train(self, guide, train_dataset, *, num_epochs=1, **kwargs):
        inputs = train_dataset["inputs"]
        with ThreadPoolExecutor(8) as pool:
            targets = list(pool.map(self.agent, inputs * 20))
            assert len({guide(query, target.data, query) for query, target in zip(inputs * 20, targets)}) == 1
        super().train(guide, train_dataset, num_epochs=num_epochs)


class Raising(Minibatch):
    def train(self, guide, train_dataset, **kwargs):
        raise ValueError("no such thing")


class Swallowing(Minibatch):
    """Takes every error for a reason to go on."""

    def train(self, guide, train_dataset, **kwargs):
        for _ in range(100):
            try:
                self.learn(guide, train_dataset["inputs"][0], None)
            except Exception:
                pass


class SearchTemplate(Minibatch):
    def train(self, guide, train_dataset, **kwargs):
        pass


class Helper:
    def train(self, guide, train_dataset):
        pass
'''

EXAMPLE = """
from opto.trainer.algorithms import basic


class Beam(basic.Minibatch):
    pass
"""


def write_checkout(folder: Path) -> Path:
    """Write it into `folder`, which is returned."""
    spec = importlib.util.find_spec("opto")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "opto", ignore=shutil.ignore_patterns("__pycache__"))
    files = {
        "opto/trainer/__init__.py": "",
        "opto/trainer/algorithms/__init__.py": "",
        "opto/trainer/algorithms/algorithm.py": ALGORITHM,
        "opto/trainer/algorithms/basic.py": BASIC,
        "opto/trainer/broken.py": "class Broken(Trainer:\n",
        "examples/trainers/beam.py": EXAMPLE,
        "examples/other.py": "raise RuntimeError\n",
        "setup.py": "raise RuntimeError\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
