"""A scheduler in Python: the group goes first that has got the least per weight."""

from collections import defaultdict, deque
from typing import Union

import hoistway
from hoistway.policy import Elevator, Hold, Request, register


class LeastServed(Elevator):
    def __init__(self, requests: int, device_depth: int, capacity_sectors: int) -> None:
        self.queues: dict[int, deque[Request]] = defaultdict(deque)
        self.weight: dict[int, int] = {}
        self.served: dict[int, float] = defaultdict(float)

    def group(self, group: int, parent: int, weight: int) -> None:
        self.weight[group] = weight

    def insert(self, request: Request, now_ns: int) -> None:
        queue = self.queues[request.group]
        if not queue:
            # A group that was idle has no claim to the time in which it asked for nothing.
            busy = [self.served[group] for group, others in self.queues.items() if others]
            self.served[request.group] = max(self.served[request.group], min(busy, default=0.0))
        queue.append(request)

    def choose(self, now_ns: int) -> Union[Request, Hold, None]:
        group = min((group for group, queue in self.queues.items() if queue), key=lambda group: self.served[group])
        request = self.queues[group].popleft()
        self.served[group] += request.sectors / self.weight[group]
        return request

    def removed(self, request: Request, now_ns: int) -> None:
        self.queues[request.group].remove(request)


register("least-served", LeastServed)
print(
    hoistway.run(
        "model:ssd",
        groups={"db": 800, "ci": 100},
        workloads="randread:bs=4k,iodepth=64",
        schedulers=["least-served", "wfq"],
        runtime_s=0.2,
    ).table()
)
