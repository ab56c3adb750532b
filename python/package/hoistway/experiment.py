"""What to measure."""

from __future__ import annotations

import dataclasses
import shlex
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from . import _hoistway
from .outcome import Outcome
from .progress import Progress

Group = Union[tuple[str, int], str]
"""A group: its path and its weight (1 to 10,000), or a text in the notation of ``hoistway test --group``."""

Groups = Union[Mapping[str, int], Iterable[Group]]
Texts = Union[str, Iterable[str]]
Time = Union[float, str]
"""Seconds, or a text with a unit in the notation of ``hoistway test --runtime``: ``"500ms"``, ``"1h30m"``."""


class ShortRunWarning(UserWarning):
    """A run is too short for its scheduler to settle: its figures are those of a scheduler that still learns."""


def _texts(given: Texts) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _groups(given: Groups) -> tuple[Group, ...]:
    if isinstance(given, Mapping):
        return tuple(given.items())
    if isinstance(given, str):
        return (given,)
    return tuple(group if isinstance(group, str) else (group[0], group[1]) for group in given)


@dataclass(frozen=True)
class Plan:
    """An experiment that was checked and not run."""

    runs: int
    """Number of runs: workloads x schedulers x thread counts x sets."""
    workloads: list[str]
    schedulers: list[str]
    groups: list[tuple[str, int]]
    """Paths and weights."""
    runtime_s: float
    """Measured time of each run in seconds."""
    ramp_s: float
    """The time before it that is not measured, in seconds."""


@dataclass(frozen=True, init=False)
class Experiment:
    """Schedulers x groups x workloads on one target.

    Everything but the target has the default of ``hoistway test``. Equal experiments on a simulated device give equal
    results. Nothing is checked before :meth:`plan` or :meth:`run`.

    >>> ssd = Experiment("model:ssd", groups={"db": 800, "ci": 100}, workloads="randread:iodepth=32")
    >>> outcome = ssd.with_(schedulers="paternoster", runtime_s=0.2).run()
    >>> [round(row.share, 2) for row in outcome.rows]
    [0.89, 0.11]
    """

    target: str
    """``model:NAME[,KEY=VALUE...]`` (simulated), or a path, ``memory:SIZE`` or ``null:SIZE`` (real I/O by the engine)."""
    groups: tuple[Group, ...]
    """Groups with their weights; none means one group."""
    workloads: tuple[str, ...]
    """Names with options (``randread:bs=4k,iodepth=32``), or paths of fio job files (``*.fio``). Default: ``randread``."""
    schedulers: tuple[str, ...]
    """``NAME[@VERSION][:KEY=VALUE,...]``. Default: none, mq-deadline, bfq and paternoster."""
    limiters: tuple[str, ...]
    """Limiters above the schedulers, ``NAME[:KEY=VALUE,...]``."""
    threads: tuple[int, ...]
    """Threads of each job, 1 to 4,096; one run for each count."""
    sets: int
    """Repetitions, 1 to 1,000, each with another load drawn from the seed."""
    seed: int
    """Seed of everything random."""
    runtime_s: Optional[Time]
    """Measured time of each run, above 0. Default: 30. Jobs that end by their size need none."""
    ramp_s: Optional[Time]
    """The time before it that is not measured. Default: 1, real I/O 2."""
    device_depth: Optional[int]
    """Commands that the device accepts at a time, at most its own depth, which is the default."""
    queue_requests: Optional[int]
    """Requests that the queue holds (``nr_requests``), 1 to 10,240. Default: Linux's."""
    machine: Optional[str]
    """The simulated computer: ``era=2.6,read_ahead_kib=128``."""
    share_unit: str
    """What shares are counted in: ``bytes``, ``ios`` or ``time``."""
    workers: Optional[int]
    """Simulated runs at a time. Default: one per processor. Results do not depend on it."""
    may_overwrite: bool
    """Whether workloads may write to a file or device that exists; its content is lost."""

    def __init__(
        self,
        target: str,
        *,
        groups: Groups = (),
        workloads: Texts = (),
        schedulers: Texts = (),
        limiters: Texts = (),
        threads: Union[int, Iterable[int]] = 1,
        sets: int = 1,
        seed: int = 1,
        runtime_s: Optional[Time] = None,
        ramp_s: Optional[Time] = None,
        device_depth: Optional[int] = None,
        queue_requests: Optional[int] = None,
        machine: Optional[str] = None,
        share_unit: str = "bytes",
        workers: Optional[int] = None,
        may_overwrite: bool = False,
    ) -> None:
        fields: dict[str, Any] = {
            "target": target,
            "groups": _groups(groups),
            "workloads": _texts(workloads),
            "schedulers": _texts(schedulers),
            "limiters": _texts(limiters),
            "threads": (threads,) if isinstance(threads, int) else tuple(threads),
            "sets": sets,
            "seed": seed,
            "runtime_s": runtime_s,
            "ramp_s": ramp_s,
            "device_depth": device_depth,
            "queue_requests": queue_requests,
            "machine": machine,
            "share_unit": share_unit,
            "workers": workers,
            "may_overwrite": may_overwrite,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def with_(self, **changes: Any) -> Experiment:
        """A copy with these fields changed."""
        return dataclasses.replace(self, **changes)

    def group(self, path: str, weight: int) -> Experiment:
        """A copy with one more group of a weight of 1 to 10,000; of weights only the ratio counts."""
        return self.with_(groups=(*self.groups, (path, weight)))

    def workload(self, workload: str) -> Experiment:
        """A copy with one more workload."""
        return self.with_(workloads=(*self.workloads, workload))

    def scheduler(self, scheduler: str) -> Experiment:
        """A copy with one more scheduler."""
        return self.with_(schedulers=(*self.schedulers, scheduler))

    def plan(self) -> Plan:
        """Expands and checks everything, and runs nothing. Raises :class:`hoistway.Error`."""
        return Plan(**_hoistway.plan(self))

    def run(self, progress: Union[bool, Callable[[int, int], object]] = False) -> Outcome:
        """Makes all runs. Other Python threads go on meanwhile, and Ctrl-C ends the runs.

        ``progress`` is True for a bar by tqdm, or a function that is called with the numbers of complete runs and of all
        runs. Warns by :class:`ShortRunWarning` where a run is too short for its scheduler to settle. Raises
        :class:`hoistway.Error` with the command's message.
        """
        with Progress(progress) as follow:
            outcome = Outcome.of_run(_hoistway.run(self, follow))
        for note in outcome.notes:
            warnings.warn(note, ShortRunWarning, stacklevel=2)
        return outcome

    def command(self) -> list[str]:
        """The words of the command that runs the same experiment and prints the same JSON.

        The library runs no group alone first, so the command may not (``--no-solo``). ``may_overwrite`` has no counterpart: the command asks for its own permission where a target would be overwritten.
        """
        words = ["hoistway", "test", self.target]
        for group in self.groups:
            words += ["--group", group if isinstance(group, str) else f"name={group[0]},weight={group[1]}"]
        for name, values in (("-w", self.workloads), ("-s", self.schedulers), ("--limiter", self.limiters)):
            for value in values:
                words += [name, value]
        if self.threads != (1,):
            words += ["--threads", ",".join(map(str, self.threads))]
        if self.sets != 1:
            words += ["--sets", str(self.sets)]
        words += ["--seed", str(self.seed)]
        for name, time in (("--runtime", self.runtime_s), ("--ramp", self.ramp_s)):
            if isinstance(time, str):
                words += [name, time]
            elif time is not None:
                words += [name, f"{round(time * 1e9) / 1e9:.9f}".rstrip("0").rstrip(".")]
        for name, number in (("--device-depth", self.device_depth), ("--queue-requests", self.queue_requests)):
            if number is not None:
                words += [name, str(number)]
        if self.machine is not None:
            words += ["--machine", self.machine]
        if self.share_unit != "bytes":
            words += ["--share-unit", self.share_unit]
        return [*words, "--no-solo", "--no-store", "--format", "json"]

    def command_line(self) -> str:
        """The same as one line for a shell."""
        return shlex.join(self.command())
