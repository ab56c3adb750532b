"""Schedulers written in Python."""

import collections
from typing import Optional, Union

import pytest

import hoistway
from hoistway.policy import Elevator, Hold, Request, register


class Fifo(Elevator):
    """First come, first served."""

    def __init__(self, requests: int, device_depth: int, capacity_sectors: int) -> None:
        assert requests > 0 and device_depth > 0 and capacity_sectors > 0
        self.queue: "collections.deque[Request]" = collections.deque()
        self.in_flight = 0

    def insert(self, request: Request, now_ns: int) -> None:
        assert request.sectors > 0 and request.operation == "read" and request.start_ns <= now_ns
        self.queue.append(request)

    def choose(self, now_ns: int) -> Union[Request, Hold, None]:
        self.in_flight += 1
        return self.queue.popleft()

    def completed(self, request: Request, now_ns: int) -> None:
        self.in_flight -= 1

    def removed(self, request: Request, now_ns: int) -> None:
        self.queue.remove(request)


class HeaviestFirst(Fifo):
    """The group of the largest weight goes first."""

    def __init__(self, requests: int, device_depth: int, capacity_sectors: int) -> None:
        super().__init__(requests, device_depth, capacity_sectors)
        self.weight: "dict[int, int]" = {}

    def group(self, group: int, parent: int, weight: int) -> None:
        self.weight[group] = weight

    def choose(self, now_ns: int) -> Union[Request, Hold, None]:
        best = max(self.queue, key=lambda request: self.weight[request.group])
        self.queue.remove(best)
        return best


def experiment(*schedulers: str, seed: int = 1) -> hoistway.Experiment:
    return hoistway.Experiment(
        "model:ssd",
        groups={"db": 800, "ci": 100},
        workloads="drr:iodepth=64",
        schedulers=schedulers,
        runtime_s=0.1,
        ramp_s=0.02,
        seed=seed,
    )


def test_a_fifo_in_python_is_noop() -> None:
    register("python-fifo", Fifo)
    ours, noop = experiment("python-fifo", "noop").run().cells
    assert ours.scheduler == "python-fifo" and ours.ios_per_s == noop.ios_per_s


def test_groups_and_weights_are_told() -> None:
    register("python-heaviest", HeaviestFirst, "the largest weight first")
    # With room for all requests, so that none waits before the scheduler sees it.
    db, ci = experiment("python-heaviest").with_(queue_requests=256).run().rows
    assert db.ios_per_s > 10 * ci.ios_per_s


def test_a_policy_may_wait() -> None:
    class Lazy(Fifo):
        def choose(self, now_ns: int) -> Union[Request, Hold, None]:
            oldest = self.queue[0]
            if now_ns < oldest.start_ns + 5_000_000:
                return Hold(oldest.start_ns + 5_000_000)
            return self.queue.popleft()

    register("python-lazy", Lazy)
    row = experiment("python-lazy").with_(groups=(), workloads="drr:iodepth=1").run().rows[0]
    assert row.latency_p50_ns is not None and row.latency_p50_ns > 5_000_000
    assert 150 < row.ios_per_s < 200


@pytest.mark.parametrize("place", ["__init__", "group", "insert", "choose", "completed"])
def test_an_exception_ends_the_run_and_is_raised(place: str) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError(place)

    register("python-broken", type("Broken", (Fifo,), {place: fail}))
    with pytest.raises(ZeroDivisionError, match=place):
        experiment("python-broken").run()
    # The next run is not affected.
    assert experiment("none").run().rows[0].ios_per_s > 0


def test_a_choice_that_is_not_queued_is_an_error() -> None:
    class Twice(Fifo):
        last: Optional[Request] = None

        def choose(self, now_ns: int) -> Union[Request, Hold, None]:
            self.last = self.last or self.queue.popleft()
            return self.last

    register("python-twice", Twice)
    with pytest.raises(ValueError, match="which is not queued"):
        experiment("python-twice").run()


def test_names_of_built_in_schedulers_are_taken() -> None:
    with pytest.raises(ValueError, match="already another policy 'bfq'"):
        register("bfq", Fifo)
