"""What there is, and what the command does and the library does not: traces, replays, calibration, stored results.

The package has the library only. What the command does needs the program ``hoistway`` beside it, whose JSON is read:
``cargo install hoistway-cli``, or a package of the distribution. Its path may be in the environment variable ``HOISTWAY``.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _hoistway
from .errors import Error
from .outcome import Outcome

if TYPE_CHECKING:
    import pandas

Place = Union[str, "os.PathLike[str]"]


def command(*words: Place) -> str:
    """Runs ``hoistway WORDS`` and returns what it prints on stdout, as in ``command("list", "machine")``.

    Raises :class:`hoistway.Error` with what it prints on stderr, and its exit code.
    """
    program = shutil.which(os.environ.get("HOISTWAY") or "hoistway")
    if program is None:
        raise Error(
            "hoistway: error: the program hoistway is not on PATH, and the package has the library only\n"
            "  help: cargo install --path crates/cli in a clone, or name the program in the environment variable HOISTWAY",
            1,
        )
    arguments = [program, *(os.fspath(word) for word in words)]
    done = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode != 0:
        raise Error(done.stderr.rstrip("\n") or f"hoistway ended with exit code {done.returncode}", done.returncode)
    return done.stdout


@dataclass(frozen=True)
class Parameter:
    """A parameter of a device model."""

    name: str
    unit: str
    default: str
    doc: str


@dataclass(frozen=True)
class Device:
    """A device model: ``Experiment(f"model:{device.name}")``."""

    name: str
    type: str
    """``null``, ``hdd``, ``raid`` or ``flash``."""
    doc: str
    parameters: list[Parameter]


@dataclass(frozen=True)
class Scheduler:
    """A scheduler."""

    name: str
    summary: str
    has_shares: bool
    """Whether it divides a device by weight."""
    versions: list[str]
    """Kernel versions at which its behaviour changed."""
    tunables: list[str]


@dataclass(frozen=True)
class Workload:
    """A workload that has a name."""

    name: str
    doc: str


def devices() -> list[Device]:
    """The device models, with their parameters."""
    return [
        Device(
            name=entry["name"],
            type=entry["type"],
            doc=entry["doc"],
            parameters=[Parameter(it["name"], it["unit"], it["default"], it["doc"]) for it in entry["parameters"]],
        )
        for entry in json.loads(_hoistway.devices())
    ]


def schedulers() -> list[Scheduler]:
    """The schedulers, with their tunables."""
    return [
        Scheduler(
            name=entry["name"],
            summary=entry["summary"],
            has_shares=entry["has_shares"],
            versions=entry["versions"],
            tunables=[tunable["name"] for tunable in entry["tunables"]],
        )
        for entry in json.loads(_hoistway.schedulers())
    ]


def workloads() -> list[Workload]:
    """The workloads that have names."""
    return [Workload(entry["name"], entry["doc"]) for entry in json.loads(_hoistway.workloads())]


def load(place: Place) -> Outcome:
    """A result directory of ``hoistway test``, or a JSON file written by fio, each of whose jobs becomes a group."""
    return Outcome(command("test", "report", place, "--format", "json"))


def replay(trace: Place, target: str = "model:sata", schedulers: Iterable[str] = (), *options: str) -> Outcome:
    """Replays a trace under schedulers; ``options`` are those of ``hoistway replay``, as in ``"--scale"``."""
    chosen = [word for scheduler in schedulers for word in ("-s", scheduler)]
    words: list[Place] = [trace, target, *chosen, *options]
    return Outcome(command("replay", *words, "--no-store", "--quiet", "--format", "json"))


@dataclass(frozen=True)
class TraceInfo:
    """The contents of a trace."""

    format: str
    ios: int
    """Number of I/Os."""
    duration_ns: int
    """From the first event to the last, in nanoseconds."""
    read_bytes: int
    write_bytes: int
    in_flight_max: int
    """Largest number of I/Os in flight."""
    document: dict[str, Any]
    """Everything that ``hoistway trace info --json`` says."""


def trace_info(trace: Place) -> TraceInfo:
    """What is in a trace of any of the formats that ``hoistway replay`` reads."""
    found: dict[str, Any] = json.loads(command("trace", "info", "--json", trace))[0]
    size = {name: kind["bytes"] for name, kind in found["operations"].items()}
    return TraceInfo(
        format=found["format"],
        ios=found["ios"],
        duration_ns=found["duration_ns"],
        read_bytes=size.get("read", 0),
        write_bytes=size.get("write", 0),
        in_flight_max=found["in_flight_max"],
        document=found,
    )


def read_trace(trace: Place) -> pandas.DataFrame:
    """The I/Os of a trace as a data frame of pandas, with ``time_ns``, ``device``, ``op``, ``offset_bytes``,
    ``length_bytes``, ``flags``, ``pid``, ``comm``, ``cpu``, ``group`` and ``latency_ns``."""
    import pandas

    frame: pandas.DataFrame = pandas.read_csv(io.StringIO(command("trace", "convert", trace, "--to", "csv", "--out", "-")))
    return frame


@dataclass(frozen=True)
class Fit:
    """A parameter of a model before and after calibration."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Calibration:
    """A model fitted to measurements."""

    toml: str
    """The model's file: write it, and use it as ``model:./FILE``."""
    parameters: list[Fit]
    document: dict[str, Any]
    """Everything that ``hoistway device calibrate --json`` says, with the figures of each row before and after."""


def calibrate(model: str, rows: Place, free: Sequence[str] = (), max_trials: int = 200) -> Calibration:
    """Changes the parameters ``free`` of a model until it gives the measured figures in ``rows``: a result of fio, a result
    directory, or a file with ``[[anchor]]`` entries (docs/devices.md). Each trial simulates all rows."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "model.toml")
        chosen = ["--free", ",".join(free)] if free else []
        words: list[Place] = [model, "--rows", rows, *chosen, "--max-trials", str(max_trials)]
        said = json.loads(command("device", "calibrate", *words, "-o", output, "--json", "--quiet"))
        parameters = [Fit(it["name"], it["before"], it["after"]) for it in said["parameters"]]
        return Calibration(output.read_text(), parameters, said)


@dataclass(frozen=True)
class Change:
    """One figure in two results."""

    cell: str
    """Workload, scheduler and thread count."""
    metric: str
    """``total_bw``, ``lat_p99`` or ``share_error_max``."""
    group: Optional[str]
    """None for a figure of the whole cell."""
    old: float
    new: float
    delta: Optional[float]
    """Relative to the old value; of share errors the difference. None if only the old value is zero."""
    interval: Optional[tuple[float, float]]
    """The 95 % interval of the difference."""
    remark: str
    """Why there is no interval, or another remark."""
    is_identical: bool
    """Whether both results have the same measurements."""
    same_settings: bool
    """Whether the tunables in force are equal."""


def _change(fields: dict[str, Any]) -> Change:
    interval = fields["interval"]
    names = ("cell", "metric", "group", "old", "new", "delta", "remark", "is_identical", "same_settings")
    return Change(interval=None if interval is None else (interval[0], interval[1]), **{name: fields[name] for name in names})


def compare(old: Union[Outcome, Place], new: Union[Outcome, Place]) -> list[Change]:
    """What changed between two outcomes of this process, or between two result directories of ``hoistway test``."""
    if isinstance(old, Outcome) and isinstance(new, Outcome):
        changes = _hoistway.compare(old.native, new.native)
        if not changes:
            raise Error("the two outcomes have no run in common", 2)
        return [_change(dict(change)) for change in changes]
    if isinstance(old, Outcome) or isinstance(new, Outcome):
        raise TypeError("compare two outcomes, or two directories")
    return [_change(change) for change in json.loads(command("compare", old, new, "--json"))["changes"]]
