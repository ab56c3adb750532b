"""Figures by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Optional

from .outcome import Outcome, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIGURES: dict[str, tuple[str, Callable[[Row], Optional[float]]]] = {
    "shares": ("part of what all groups got, %", lambda row: None if row.share is None else row.share * 100),
    "throughput": ("MiB/s", lambda row: row.bytes_per_s / 2**20),
    "latency": (
        "99th percentile of latency, ms",
        lambda row: None if row.latency_p99_ns is None else row.latency_p99_ns / 1e6,
    ),
}


def _label(row: Row, rows: Sequence[Row]) -> str:
    parts = [row.scheduler]
    if len({other.workload for other in rows}) > 1:
        parts.append(row.workload)
    if len({other.threads for other in rows}) > 1:
        parts.append(f"{row.threads} threads")
    return "\n".join(parts)


def draw(outcome: Outcome, kind: str = "shares", ax: Optional[Axes] = None) -> Axes:
    """Draws one bar for each group under each scheduler; in ``shares``, a line marks what was due."""
    import matplotlib.pyplot as plt

    if kind not in _FIGURES:
        raise ValueError(f"there is no figure '{kind}'; there are {', '.join(_FIGURES)}")
    unit, value = _FIGURES[kind]
    axes: Axes = plt.subplots(layout="constrained")[1] if ax is None else ax
    rows = outcome.rows
    groups = list(dict.fromkeys(row.group for row in rows))
    labels = list(dict.fromkeys(_label(row, rows) for row in rows))
    width = 0.8 / len(groups)
    for index, group in enumerate(groups):
        own = [row for row in rows if row.group == group]
        places = [labels.index(_label(row, rows)) + (index - (len(groups) - 1) / 2) * width for row in own]
        weight = f"{group} (weight {own[0].weight})"
        axes.bar(places, [value(row) or 0.0 for row in own], width * 0.95, label=weight)
        if kind == "shares":
            for place, row in zip(places, own):
                if row.due is not None:
                    axes.hlines(row.due * 100, place - width / 2, place + width / 2, colors="black", linestyles="dotted")
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylabel(unit)
    axes.set_title(f"{outcome.document['target']['path']}: {kind}")
    axes.legend()
    return axes
