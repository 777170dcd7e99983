"""Online bin packing: plays the items of an instance against a priority function (fewer bins are better)."""

from trace_bench.suites.llm4ad.online_packing import answer, bound, draw, instance, remark, score, worst

__all__ = ["answer", "bound", "draw", "instance", "remark", "score", "worst"]
