"""Runs task code that was not written for this package: folders whose module defines ``build_trace_problem``,
evaluations of LLM4AD, problems of CO-Bench, and evaluators of OpenEvolve and ShinkaEvolve.

All but the last evaluate a function that they are handed. Here it is a stand-in that sends each call to the
candidate's own process (`candidate`), so that a candidate's source is not executed where scores are made. What such
folders import besides NumPy is stood in for (`modules`), in the processes of a sandbox's phases and nowhere else.
"""

from trace_bench.worker.problem import BuildContext, Problem

CO_BENCH = "config.py"
"""The file that makes a folder one of CO-Bench's."""
EVALUATORS = ("evaluator.py", "evaluate.py")
"""Those of folders of OpenEvolve and ShinkaEvolve."""


def build(context: BuildContext) -> Problem:
    """Build the problem of foreign code, as ``[foreign]`` of its spec says.

    Raises:
        ProblemError: the code is at fault, or asks for something that is not here.
    """
    if context.spec["foreign"].get("evaluation"):
        from trace_bench.suites.llm4ad.compat import evaluation

        return evaluation.build(context)
    if context.spec["foreign"]["module"] == CO_BENCH:
        from trace_bench.suites.llm4ad.compat import co_bench

        return co_bench.build(context)
    if context.spec["foreign"]["module"] in EVALUATORS:
        from trace_bench.suites.llm4ad.compat import evolved

        return evolved.build(context)
    from trace_bench.suites.llm4ad.compat import folder

    return folder.build(context)
