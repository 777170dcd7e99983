"""A framework's loop beside a search: what crosses over is done on the search's thread, in order, until it ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from trace_bench.errors import TrainerError
from trace_bench.trainers.adapters import bridge as module
from trace_bench.trainers.adapters.bridge import Bridge, Ended
from trace_bench.trainers.base import Rollout, Step, StopTraining


def step(number: int) -> Step:
    return Step(number, f"s{number}", (), {"x": number}, (Rollout("e", 0.0, ""),), "train")


def stop() -> None:
    raise StopTraining("budget")


def test_steps_and_calls_come_in_order_and_on_the_searchs_thread() -> None:
    threads: list[int] = []
    bridge = Bridge("some framework")

    def framework() -> dict[str, Any]:
        assert threading.get_ident() != here
        found = bridge.call(lambda: threads.append(threading.get_ident()) or 5)
        bridge.tell(step(found))
        bridge.tell(step(found + 1))
        return {"x": 1}

    here = threading.get_ident()
    run = bridge.run(framework)
    assert [next(run).step, next(run).step] == [5, 6]
    with pytest.raises(StopIteration) as end:
        next(run)
    assert end.value.value == {"x": 1} and threads == [here]


def test_calls_of_many_threads_are_made_one_at_a_time() -> None:
    inside, most = 0, 0
    bridge = Bridge("some framework")

    def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.002)
        inside -= 1

    def framework() -> None:
        threads = [threading.Thread(target=bridge.call, args=(work,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert list(bridge.run(framework)) == [] and most == 1


def test_a_stop_ends_a_framework_that_goes_on_after_every_error() -> None:
    bridge, ended = Bridge("some framework"), threading.Event()

    def framework() -> None:
        try:
            while True:
                with contextlib.suppress(Exception):  # what frameworks take for a failed candidate
                    bridge.call(stop)
        finally:
            ended.set()

    with pytest.raises(StopTraining):
        list(bridge.run(framework))
    assert ended.wait(5)


def test_whatever_a_framework_asks_for_after_a_stop_ends_it_too() -> None:
    bridge, refused = Bridge("some framework"), []

    def framework() -> None:
        for ask in (lambda: bridge.call(stop), lambda: bridge.tell(step(1)), lambda: bridge.call(lambda: 1)):
            try:
                ask()
            except Ended:
                refused.append(True)

    with pytest.raises(StopTraining):
        list(bridge.run(framework))
    assert refused == [True] * 3


def test_a_search_that_is_closed_ends_its_framework() -> None:
    bridge, ended = Bridge("some framework"), threading.Event()

    def framework() -> None:
        try:
            for number in range(1000):
                bridge.tell(step(number))
        finally:
            ended.set()

    run = bridge.run(framework)
    assert next(run).step == 0
    run.close()
    assert ended.wait(5)


def test_a_framework_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    bridge, never = Bridge("some framework"), threading.Event()

    def framework() -> None:
        try:
            bridge.call(stop)
        except Ended:
            never.wait(60)
            bridge.call(stop)  # too late to be heard, and ended all the same

    with pytest.raises(StopTraining):
        list(bridge.run(framework))
    never.set()


def test_a_failure_of_the_framework_is_one_sentence_with_its_name() -> None:
    def framework() -> None:
        raise KeyError("population")

    with pytest.raises(TrainerError, match="some framework failed by itself: KeyError: 'population'"):
        list(Bridge("some framework").run(framework))


def test_an_error_of_ours_is_passed_on_as_it_is() -> None:
    bridge = Bridge("some framework")

    def evaluate() -> None:
        raise TrainerError("this problem cannot be searched.")

    with pytest.raises(TrainerError, match=r"^this problem cannot be searched\.$"):
        list(bridge.run(lambda: bridge.call(evaluate)))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    left = [thread for thread in threading.enumerate() if thread.name == "some framework"]
    for thread in left:
        thread.join(5)
    assert not any(thread.is_alive() for thread in left)
