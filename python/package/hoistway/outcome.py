"""Results of experiments."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Optional

from . import _hoistway

if TYPE_CHECKING:
    import pandas
    import polars
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Row:
    """What one group got under one scheduler: means over all sets."""

    workload: str
    scheduler: str
    """With its version and tunables as they were given."""
    threads: int
    """Threads of each job."""
    group: str
    weight: int
    """1 to 10,000."""
    bytes_per_s: float
    """Bytes per second, read and written."""
    bytes_per_s_ci95: Optional[float]
    """Half the width of its 95 % interval; None with one set."""
    ios_per_s: float
    """Requests per second."""
    share: Optional[float]
    """Its part of what all groups got, 0 to 1; None if nothing was done."""
    due: Optional[float]
    """The part that was due by its weight and demand, 0 to 1."""
    share_error: Optional[float]
    """How far it is from what was due, as a fraction of it."""
    latency_mean_ns: Optional[float]
    """Latency in nanoseconds: of reads, or of writes for a group that only writes. None if nothing was completed."""
    latency_p50_ns: Optional[float]
    latency_p90_ns: Optional[float]
    latency_p99_ns: Optional[float]
    latency_p999_ns: Optional[float]


@dataclass(frozen=True)
class Cell:
    """All groups together under one scheduler: means over all sets."""

    workload: str
    scheduler: str
    threads: int
    sets: int
    bytes_per_s: float
    ios_per_s: float
    share_error_max: Optional[float]
    """The largest share error of a group; None without shares."""
    jain: Optional[float]
    """Jain's index of what each group got per unit of weight, 0 to 1."""
    efficiency: Optional[float]
    """Its throughput relative to the best scheduler's, 0 to 1."""
    errors: int


@dataclass(frozen=True)
class SetRow:
    """What one group did in one direction in one set."""

    workload: str
    scheduler: str
    threads: int
    set: int
    """From 1."""
    group: str
    weight: int
    direction: str
    """``read``, ``write`` or ``trim``."""
    bytes_per_s: float
    ios_per_s: float
    share: Optional[float]
    """The group's part of what all groups got, 0 to 1."""
    latency_p50_ns: float
    latency_p99_ns: float

    @classmethod
    def of(cls, row: dict[str, Any]) -> SetRow:
        """A row of ``hoistway test --format csv``."""
        return cls(
            workload=row["workload"],
            scheduler=row["sched"],
            threads=int(row["nr"]),
            set=int(row["set"]),
            group=row["group"],
            weight=int(row["weight"]),
            direction=row["dir"],
            bytes_per_s=float(row["bw_bytes"]),
            ios_per_s=float(row["iops"]),
            share=float(row["share"]) if row["share"] else None,
            latency_p50_ns=float(row["lat_p50_ns"] or 0),
            latency_p99_ns=float(row["lat_p99_ns"] or 0),
        )


@dataclass(frozen=True)
class Sample:
    """A second of a run: what one group did in one direction."""

    workload: str
    scheduler: str
    threads: int
    set: int
    group: str
    direction: str
    at_s: float
    """Its begin after that of the window, in seconds."""
    bytes: int
    ios: int
    p50_ns: int
    p99_ns: int
    in_flight: float
    """Mean number of I/Os outstanding."""


def _rows(document: dict[str, Any]) -> list[Row]:
    rows = []
    for cell in document["cells"]:
        for group in cell["groups"]:
            latencies = group["lat_ns"]
            latency = latencies.get("read") or latencies.get("write") or next(iter(latencies.values()), None) or {}
            rows.append(
                Row(
                    workload=cell["workload"],
                    scheduler=cell["spec"],
                    threads=cell["nr"],
                    group=group["name"],
                    weight=group["weight"],
                    bytes_per_s=group["bw_bytes"]["mean"],
                    bytes_per_s_ci95=group["bw_bytes"]["ci95"],
                    ios_per_s=group["iops"]["mean"],
                    share=group.get("share"),
                    due=group.get("due"),
                    share_error=group.get("share_error"),
                    latency_mean_ns=latency.get("mean"),
                    latency_p50_ns=latency.get("p50"),
                    latency_p90_ns=latency.get("p90"),
                    latency_p99_ns=latency.get("p99"),
                    latency_p999_ns=latency.get("p999"),
                )
            )
    return rows


class Outcome:
    """The results of an experiment, of a replay, or of a stored result.

    It can be pickled; then :meth:`table` and :meth:`html` are gone, and it cannot be compared any more.
    """

    def __init__(self, text: str, native: Optional[_hoistway.Outcome] = None) -> None:
        self.json = text
        """The text of ``hoistway test --format json``; equal to the command's but for environment and start."""
        self._native = native

    @classmethod
    def of_run(cls, native: _hoistway.Outcome) -> Outcome:
        return cls(native.json(), native)

    def __getstate__(self) -> str:
        return self.json

    def __setstate__(self, state: str) -> None:
        self.json = state
        self._native = None

    @cached_property
    def document(self) -> dict[str, Any]:
        """:attr:`json` as dicts and lists; docs/reference/json.md describes it."""
        document: dict[str, Any] = json.loads(self.json)
        return document

    @cached_property
    def rows(self) -> list[Row]:
        """One for each group of each combination of workload, scheduler and thread count."""
        return _rows(self.document)

    @cached_property
    def cells(self) -> list[Cell]:
        """One for each combination of workload, scheduler and thread count."""
        return [
            Cell(
                workload=cell["workload"],
                scheduler=cell["spec"],
                threads=cell["nr"],
                sets=cell["sets"],
                bytes_per_s=cell["total"]["bw_bytes"]["mean"],
                ios_per_s=cell["total"]["iops"]["mean"],
                share_error_max=cell.get("share_error_max"),
                jain=cell.get("jain"),
                efficiency=cell.get("efficiency"),
                errors=cell["errors"],
            )
            for cell in self.document["cells"]
        ]

    @property
    def native(self) -> _hoistway.Outcome:
        """What the extension module knows of it; only in the process that made the runs."""
        if self._native is None:
            raise ValueError("this outcome was not run in this process; it has rows, cells, json and plots only")
        return self._native

    def table(self) -> str:
        """The table of ``hoistway test``."""
        return self.native.table()

    def csv(self, percentiles: tuple[float, ...] = (50.0, 90.0, 95.0, 99.0, 99.9, 100.0)) -> str:
        """The text of ``hoistway test --format csv`` with these percentiles of latency, above 0 and at most 100."""
        return self.native.csv(percentiles)

    def html(self) -> str:
        """The page of ``hoistway test --format html``."""
        return self.native.html()

    @property
    def notes(self) -> list[str]:
        """What to know before the figures are believed: runs that are too short for their scheduler to settle."""
        return self.native.notes()

    @cached_property
    def set_rows(self) -> list[SetRow]:
        """:attr:`rows` of each set by itself, to see how much the sets differ."""
        table = csv.DictReader(io.StringIO(self.csv((50.0, 99.0))))
        return [SetRow.of(row) for row in table if row["group"] != "total" and not row.get("job")]

    @cached_property
    def series(self) -> list[Sample]:
        """What each group did in each second of each run."""
        samples = []
        for workload, scheduler, threads, set_, text in self.native.samples():
            for row in csv.DictReader(io.StringIO(text)):
                sample = Sample(
                    workload=workload,
                    scheduler=scheduler,
                    threads=threads,
                    set=set_,
                    group=row["group"],
                    direction=row["dir"],
                    at_s=int(row["t_ms"]) / 1e3,
                    bytes=int(row["bytes"]),
                    ios=int(row["ios"]),
                    p50_ns=int(row["p50_ns"]),
                    p99_ns=int(row["p99_ns"]),
                    in_flight=float(row["inflight"]),
                )
                samples.append(sample)
        return samples

    def to_pandas(self) -> pandas.DataFrame:
        """:attr:`rows` as a data frame."""
        import pandas

        frame: pandas.DataFrame = pandas.DataFrame([dataclasses.asdict(row) for row in self.rows])
        return frame

    def to_polars(self) -> polars.DataFrame:
        """:attr:`rows` as a data frame."""
        import polars

        frame: polars.DataFrame = polars.DataFrame([dataclasses.asdict(row) for row in self.rows], infer_schema_length=None)
        return frame

    def plot(self, kind: str = "shares", ax: Optional[Axes] = None) -> Axes:
        """Draws a figure by matplotlib: ``shares``, ``throughput`` or ``latency``."""
        from . import plots

        return plots.draw(self, kind, ax)

    def _repr_html_(self) -> str:
        """In a notebook: the rows as a table."""
        heads = ["workload", "scheduler", "threads", "group", "weight", "MiB/s", "share", "p50, ms", "p99, ms"]

        def cells(row: Row) -> list[str]:
            def ms(ns: Optional[float]) -> str:
                return "" if ns is None else f"{ns / 1e6:.3g}"

            share = "" if row.share is None else f"{row.share:.1%}"
            rate = f"{row.bytes_per_s / 2**20:.1f}"
            texts = [row.workload, row.scheduler, row.threads, row.group, row.weight, rate, share]
            return [*map(str, texts), ms(row.latency_p50_ns), ms(row.latency_p99_ns)]

        def line(mark: str, texts: list[str]) -> str:
            return "<tr>" + "".join(f"<{mark}>{html.escape(text)}</{mark}>" for text in texts) + "</tr>"

        rows = "".join(line("td", cells(row)) for row in self.rows)
        return f"<table><thead>{line('th', heads)}</thead><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        return f"<hoistway.Outcome of {len(self.document['cells'])} cells on {self.document['target']['path']}>"
