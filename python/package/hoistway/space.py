"""Points of a sweep: every combination of lists, or a Latin hypercube."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from .experiment import Experiment

Point = Mapping[str, Any]
Space = Union[Mapping[str, Any], Iterable[Point]]

FIELDS = frozenset(field.name for field in dataclasses.fields(Experiment))


@dataclass(frozen=True)
class Between:
    """An interval of a Latin hypercube, with both ends."""

    low: float
    high: float
    log: bool = False
    """Whether equal ratios are equally likely, rather than equal differences."""
    whole: bool = False
    """Whether only whole numbers are drawn."""

    def at(self, part: float) -> Union[int, float]:
        """The value at a part of the interval, 0 to 1."""
        value: float = self.low + (self.high - self.low) * part
        if self.log:
            value = self.low * (self.high / self.low) ** part
        return round(value) if self.whole else value


def grid(space: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination: a list or range is an axis, and anything else is the same in every point. The last axis changes
    fastest.

    >>> grid({"target": "model:ssd", "depth": [1, 8], "seed": range(2)})[1]
    {'target': 'model:ssd', 'depth': 1, 'seed': 1}
    """
    axes = [list(value) if isinstance(value, (list, range)) else [value] for value in space.values()]
    return [dict(zip(space, values)) for values in itertools.product(*axes)]


def latin_hypercube(space: Mapping[str, Any], samples: int, seed: int = 1) -> list[dict[str, Any]]:
    """``samples`` points, so that each of as many equal parts of every :class:`Between` has one point. The values of a list
    or range are used equally often; anything else is the same in every point.

    >>> points = latin_hypercube({"target": "model:ssd", "depth": Between(1, 256, log=True, whole=True)}, samples=4)
    >>> sorted(point["depth"] for point in points)
    [1, 13, 46, 91]
    """
    draw = random.Random(seed)
    columns: dict[str, list[Any]] = {}
    for name, value in space.items():
        if isinstance(value, Between):
            parts = [(index + draw.random()) / samples for index in range(samples)]
            column = [value.at(part) for part in parts]
        elif isinstance(value, (list, range)):
            column = [value[index * len(value) // samples] for index in range(samples)]
        else:
            columns[name] = [value] * samples
            continue
        draw.shuffle(column)
        columns[name] = column
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _filled(value: Any, parameters: Mapping[str, Any]) -> Any:
    """The value with `{name}` replaced by parameters in every text."""
    if isinstance(value, str):
        return value.format_map(parameters) if "{" in value else value
    if isinstance(value, Mapping):
        return {_filled(key, parameters): _filled(item, parameters) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(item, parameters) for item in value)
    return value


def experiment_at(point: Point) -> Experiment:
    """The experiment of a point. Names that are no field of :class:`Experiment` are parameters for texts of the others:
    ``{"depth": 8, "workloads": "randread:iodepth={depth}"}``."""
    parameters = {name: value for name, value in point.items() if name not in FIELDS}
    fields = {name: _filled(value, parameters) for name, value in point.items() if name in FIELDS}
    groups = fields.get("groups")
    if isinstance(groups, Mapping):
        fields["groups"] = {path: int(weight) for path, weight in groups.items()}
    # Points run beside each other, so that more threads for one of them gain nothing.
    fields.setdefault("workers", 1)
    return Experiment(**fields)
