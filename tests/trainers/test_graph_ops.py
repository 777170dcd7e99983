"""Agents on graph nodes: the values of plain operations, their names in a prompt, and failures that can be traced."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.trainers.memory_context import DECIDE_BROKEN, greeting, name_of
from trace_bench.errors import HarnessError, TaskError
from trace_bench.worker.graph_nodes import GraphNodes
from trace_bench.worker.graph_ops import GraphOps
from trace_bench.worker.minibatch_graph import MinibatchGraph
from trace_bench.worker.problem import CandidateError, Example, Parameter, Problem, Programs


def problem(*parameters: Parameter, agent: Any = None, guide: Any = None) -> Problem:
    return Problem(
        parameters=parameters or (Parameter("x", 2, "int"),),
        guide=guide or (lambda query, response, reference: (0.0, "")),
        train=(Example("e", "query"),),
        objective="o",
        direction="maximize",
        failure_score=-1.0,
        agent=agent,
    )


@pytest.fixture
def ops(programs: Programs) -> Iterator[GraphOps]:
    chosen = problem(
        Parameter("x", 2, "int"),
        Parameter("y", 5, "int", trainable=False),
        Parameter("double", "def double(v):\n    return 2 * v\n", "code", entry="double", signature="def double(v):"),
    )
    with GraphNodes(chosen, {"x": 3}) as nodes, GraphOps(nodes, programs) as made:
        yield made


def test_parameters_hold_the_state_and_fixed_ones_their_value(ops: GraphOps) -> None:
    assert (ops.param("x").data, ops.param("x").py_name, ops.param("x").trainable) == (3, "x0", True)
    assert (ops.param("y").data, ops.param("y").trainable) == (5, False)


def test_an_unknown_parameter_is_the_tasks_fault_and_names_the_known_ones(ops: GraphOps) -> None:
    with pytest.raises(TaskError, match=r"'z'.*x, y, double"):
        ops.param("z")


def test_apply_computes_on_data_and_links_its_inputs(ops: GraphOps) -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    node = ops.apply(add, ops.param("x"), 4)
    assert node.data == 7
    assert list(node.inputs) == ["a", "b"]
    assert node.inputs["a"] is ops.param("x")
    assert node.description == "[add] Adds."


def test_apply_takes_functions_without_source(ops: GraphOps) -> None:
    assert ops.apply(max, ops.param("x"), 4).data == 4
    assert ops.apply(lambda v: -v, ops.param("x")).data == -3


def test_apply_looks_into_containers(ops: GraphOps) -> None:
    node = ops.apply(sum, [ops.param("x"), ops.param("y"), 1])
    assert node.data == 9
    assert {id(n) for n in node.inputs.values()} == {id(ops.param("x")), id(ops.param("y"))}


def test_an_error_of_a_fixed_function_is_the_tasks_fault(ops: GraphOps) -> None:
    with pytest.raises(TaskError, match=r"name_of.*AttributeError"):
        ops.apply(name_of, ops.param("x"))


def test_a_fixed_function_may_blame_the_candidate(ops: GraphOps) -> None:
    def check(v: int) -> int:
        raise CandidateError("output", f"{v} is not even")

    with pytest.raises(CandidateError, match="3 is not even") as caught:
        ops.apply(check, ops.param("x"))
    assert "3 is not even" in caught.value.exception_node.data  # type: ignore[attr-defined]


def test_call_runs_the_operator_in_a_process_of_its_own(ops: GraphOps) -> None:
    node = ops.call("double", ops.param("x"))
    assert node.data == 6
    assert list(node.inputs) == ["__code", "v"]
    assert node.inputs["__code"] is ops.param("double")


def test_an_operator_of_another_state_is_the_one_called(programs: Programs) -> None:
    code = Parameter("pid", "def pid():\n    return 0\n", "code", entry="pid")
    source = "import os\ndef pid():\n    return os.getpid()\n"
    with GraphNodes(problem(code), {"pid": source}) as nodes, GraphOps(nodes, programs) as ops:
        assert ops.call("pid").data not in (0, os.getpid())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def double(v):\n    return v.nope\n", "AttributeError"),
        ("def double(v)\n    return v\n", "compile failed"),
        ("def other(v):\n    return v\n", "double"),
        ("import os\ndef double(v):\n    os._exit(3)\n", "died"),
    ],
)
def test_a_failing_operator_is_known_to_agent_and_graph_library(source: str, said: str, programs: Programs) -> None:
    code = Parameter("double", source, "code", entry="double")
    with GraphNodes(problem(code), {"double": source}) as nodes, GraphOps(nodes, programs) as ops:
        with pytest.raises(CandidateError, match=said) as caught:
            ops.call("double", 1)
        assert isinstance(caught.value, nodes.opto.ExecutionError)
        node = caught.value.exception_node  # type: ignore[attr-defined]
        assert node.data == str(caught.value)
        assert node.inputs["__code"] is ops.param("double")


def test_a_failing_candidate_runner_is_no_fault_of_the_candidate() -> None:
    class Broken:
        def open(self, *args: Any) -> Any:
            raise OSError("no process left")

    code = Parameter("double", "def double(v):\n    return v\n", "code", entry="double")
    with (
        GraphNodes(problem(code), {}) as nodes,
        GraphOps(nodes, Broken()) as ops,
        pytest.raises(HarnessError, match="no process left"),
    ):
        ops.call("double", 1)


def test_names_in_a_prompt_never_collide() -> None:
    """trace-opt alone calls the twelfth node ``a`` and the second node ``a1`` by one name."""
    chosen = problem(Parameter("a", 0, "int"), Parameter("a1", 1, "int"))
    with GraphNodes(chosen, {}) as nodes:
        names = [nodes.parameters["a"].py_name, nodes.parameters["a1"].py_name]
        names += [nodes.constant(i, "a").py_name for i in range(30)]
        names += [nodes.constant(i, "a1").py_name for i in range(30)]
    assert len(set(names)) == len(names)
    assert names[:2] == ["a0", "a10"]


def test_node_names_depend_on_this_graph_alone(programs: Programs) -> None:
    for _ in range(3):
        with GraphNodes(problem(), {"x": 1}) as nodes, GraphOps(nodes, programs) as ops:
            assert ops.apply(abs, ops.param("x")).py_name == "abs_result0"
    assert len(nodes.opto.registry) == 0


def test_one_object_is_one_input_and_equal_numbers_are_not() -> None:
    text = "a text of its own"
    with GraphNodes(problem(), {}) as nodes:
        assert nodes.constant(text, "query") is nodes.constant(text, "other")
        assert nodes.constant(1, "low") is not nodes.constant(1, "high")


def test_an_agent_may_catch_a_failure_and_go_on(programs: Programs) -> None:
    def agent(ops: Any, query: str) -> Any:
        try:
            return ops.call("decide", query)
        except CandidateError:
            return ops.apply(len, query)

    chosen = greeting(decide=DECIDE_BROKEN)
    chosen = problem(*chosen.parameters, agent=agent, guide=lambda q, r, ref: (float(r), "fine"))
    with MinibatchGraph(chosen, chosen.initial_state(), programs) as graph:
        traced = graph.run(chosen.train[0])
    assert (traced.rollout.score, traced.rollout.failed) == (5.0, False)


def test_a_failed_operator_is_scored_as_a_failure_and_its_node_takes_the_feedback(programs: Programs) -> None:
    chosen = greeting(decide=DECIDE_BROKEN)
    with MinibatchGraph(chosen, chosen.initial_state(), programs) as graph:
        traced = graph.run(chosen.train[0])
        assert traced.rollout.failed
        assert traced.rollout.score == chosen.failure_score
        assert "no idea about" in traced.rollout.feedback
        assert "no idea about" in traced.target.data


def test_a_response_that_the_guide_rejects_takes_the_feedback_itself(programs: Programs) -> None:
    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        raise CandidateError("output", "not a greeting")

    chosen = problem(agent=lambda ops, query: ops.apply(abs, ops.param("x")), guide=guide)
    with MinibatchGraph(chosen, {"x": 1}, programs) as graph:
        traced = graph.run(chosen.train[0])
        assert traced.rollout.failed
        assert traced.target.data == 1


def test_the_agents_answer_may_be_plain_a_container_or_a_parameter(programs: Programs) -> None:
    answers = {
        "plain": (lambda ops, query: "constant", "constant"),
        "container": (lambda ops, query: {"v": [ops.param("x"), 1]}, {"v": [2, 1]}),
        "parameter": (lambda ops, query: ops.param("x"), 2),
    }
    for agent, expected in answers.values():
        seen: list[Any] = []

        def guide(query: Any, response: Any, reference: Any, seen: list[Any] = seen) -> tuple[float, str]:
            seen.append(response)
            return 1.0, ""

        chosen = problem(agent=agent, guide=guide)
        with MinibatchGraph(chosen, {"x": 2}, programs) as graph:
            traced = graph.run(chosen.train[0])
            assert isinstance(traced.target, graph.opto.Node)
        assert seen == [expected]


def test_a_guide_that_returns_no_pair_is_the_tasks_fault(programs: Programs) -> None:
    chosen = problem(agent=lambda ops, query: ops.param("x"), guide=lambda q, r, ref: "ab")  # type: ignore[arg-type]
    with MinibatchGraph(chosen, {}, programs) as graph, pytest.raises(TaskError, match=r"guide returned str.*'e'"):
        graph.run(chosen.train[0])


@pytest.mark.parametrize("wrong", [float("nan"), "high", True])
def test_a_score_that_is_no_number_is_the_failure_of_the_answer(wrong: Any, programs: Programs) -> None:
    chosen = problem(agent=lambda ops, query: ops.param("x"), guide=lambda q, r, ref: (wrong, ""))
    warnings: list[str] = []
    chosen = replace(chosen, warn=warnings.append)
    with MinibatchGraph(chosen, {}, programs) as graph:
        traced = graph.run(chosen.train[0])
        assert graph.batch([traced])[1].endswith(traced.rollout.feedback)
    assert traced.rollout.failed and traced.rollout.score == chosen.failure_score
    assert "the score of this answer is" in traced.rollout.feedback
    assert len(warnings) == 1 and "<lambda>" in warnings[0] and "'e'" in warnings[0]


def test_an_agent_that_raises_is_the_tasks_fault_and_says_where(programs: Programs) -> None:
    def agent(ops: Any, query: str) -> Any:
        raise KeyError("missing")

    chosen = problem(agent=agent)
    with MinibatchGraph(chosen, {}, programs) as graph, pytest.raises(TaskError, match=r"agent raised KeyError.*'e'"):
        graph.run(chosen.train[0])


def test_the_lock_is_free_after_a_failure(programs: Programs) -> None:
    with pytest.raises(ZeroDivisionError), MinibatchGraph(problem(), {}, programs) as graph:
        raise ZeroDivisionError
    free: list[bool] = []

    def take() -> None:
        free.append(graph.opto.lock.acquire(timeout=1))
        graph.opto.lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert free == [True]
