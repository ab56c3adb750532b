"""Block I/O scheduling: experiments on simulated and real devices, sweeps over thousands of them, figures.

>>> import hoistway
>>> outcome = hoistway.run("model:ssd", groups={"db": 800, "ci": 100}, workloads="randread:iodepth=32",
...                        schedulers="paternoster", runtime_s=0.2)
>>> [(row.group, round(row.share, 2)) for row in outcome.rows]
[('db', 0.89), ('ci', 0.11)]

Units are in the names: times in nanoseconds (``_ns``) or seconds (``_s``), sizes in bytes, rates per second, shares as
fractions of 1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from importlib import metadata
from typing import Callable, Optional, Union

from . import policy
from .command import (
    Calibration,
    Change,
    Device,
    Fit,
    Parameter,
    Scheduler,
    TraceInfo,
    Workload,
    calibrate,
    command,
    compare,
    devices,
    load,
    read_trace,
    replay,
    schedulers,
    trace_info,
    workloads,
)
from .errors import Error
from .experiment import Experiment, Groups, Plan, ShortRunWarning, Texts, Time
from .outcome import Cell, Outcome, Row, Sample, SetRow
from .space import Between, grid, latin_hypercube
from .sweep import Sweep, sweep

__version__: str = metadata.version("hoistway")
"""The version of the package, which is that of the command."""

__all__ = [
    "Between",
    "Calibration",
    "Cell",
    "Change",
    "Device",
    "Error",
    "Experiment",
    "Fit",
    "Outcome",
    "Parameter",
    "Plan",
    "Row",
    "Sample",
    "SetRow",
    "ShortRunWarning",
    "Scheduler",
    "Sweep",
    "TraceInfo",
    "Workload",
    "calibrate",
    "command",
    "compare",
    "devices",
    "grid",
    "latin_hypercube",
    "load",
    "policy",
    "read_trace",
    "replay",
    "run",
    "schedulers",
    "sweep",
    "trace_info",
    "workloads",
]


def _share_one_arena() -> None:
    """Lets all threads allocate from one arena of glibc. Each run is a thread of its own, and the arena of a new thread
    gives its memory back at the end: 10,000 page faults for each run, which take 25 ms."""
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-8, 1)  # M_ARENA_MAX


_share_one_arena()


def run(
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
    progress: Union[bool, Callable[[int, int], object]] = False,
) -> Outcome:
    """Runs an :class:`Experiment`, whose fields these are; ``progress`` is that of :meth:`Experiment.run`."""
    experiment = Experiment(
        target,
        groups=groups,
        workloads=workloads,
        schedulers=schedulers,
        limiters=limiters,
        threads=threads,
        sets=sets,
        seed=seed,
        runtime_s=runtime_s,
        ramp_s=ramp_s,
        device_depth=device_depth,
        queue_requests=queue_requests,
        machine=machine,
        share_unit=share_unit,
        workers=workers,
        may_overwrite=may_overwrite,
    )
    return experiment.run(progress)
