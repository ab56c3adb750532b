"""Results of experiments."""

from __future__ import annotations

import dataclasses
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

    def __repr__(self) -> str:
        return f"<hoistway.Outcome of {len(self.document['cells'])} cells on {self.document['target']['path']}>"
