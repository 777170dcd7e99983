"""Stands for ``opto.trainer.guide``: the base class of guides."""

from __future__ import annotations

from typing import Any


class Guide:
    """Scores a response: `get_feedback` gives (score, feedback), the higher the better."""

    def __call__(self, task: Any, response: Any, info: Any = None, **kwargs: Any) -> Any:
        return self.get_feedback(task, response, info, **kwargs)

    def forward(self, task: Any, response: Any, info: Any = None, **kwargs: Any) -> Any:
        return self.get_feedback(task, response, info, **kwargs)

    def get_feedback(self, query: Any, response: Any, reference: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no get_feedback()")

    def metric(self, query: Any, response: Any, reference: Any = None, **kwargs: Any) -> Any:
        return self.get_feedback(query, response, reference, **kwargs)[0]


AutoGuide = Guide
