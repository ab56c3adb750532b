"""Thousands of experiments, on this machine or on a cluster."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .errors import Error
from .experiment import Experiment
from .progress import Progress
from .space import Point, Space, experiment_at, grid

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Measured = tuple[list[dict[str, Any]], Optional[str]]
"""The rows of a point, and its error."""


def measure(experiment: Experiment) -> Measured:
    """Runs one point; an exception becomes the error of its row."""
    try:
        return [dataclasses.asdict(row) for row in experiment.run().rows], None
    except Error as error:
        return [], str(error)
    except Exception as error:
        return [], _failure(error)


def measure_all(experiments: Sequence[Experiment]) -> list[Measured]:
    """Runs the points of a task."""
    return [measure(experiment) for experiment in experiments]


def _failure(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _chunks(points: int, workers: int) -> list[range]:
    """Divides points into tasks of a cluster.

    32 tasks for each worker, so that at the end a worker waits for others at most a thirty-second of the time; and at most
    32 points in a task, because then the 1 to 3 ms that a task costs the cluster's scheduler are less than 0.1 ms per point.
    """
    size = min(max(points // (32 * max(workers, 1)), 1), 32)
    return [range(start, min(start + size, points)) for start in range(0, points, size)]


def _locally(experiments: Sequence[Experiment], workers: Optional[int]) -> Iterator[tuple[int, Measured]]:
    # Simulations hold no lock of Python, so that threads are enough.
    executor = futures.ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        yield from _by_executor(experiments, executor)
    finally:
        # After Ctrl-C, only points under way are waited for.
        executor.shutdown(cancel_futures=True)


def _by_executor(experiments: Sequence[Experiment], executor: Any) -> Iterator[tuple[int, Measured]]:
    indices = {executor.submit(measure, experiment): index for index, experiment in enumerate(experiments)}
    for future in futures.as_completed(indices):
        failure = future.exception()
        yield indices[future], future.result() if failure is None else ([], _failure(failure))


def _by_dask(experiments: Sequence[Experiment], client: Any) -> Iterator[tuple[int, Measured]]:
    from distributed import as_completed

    tasks = as_completed()
    chunks: dict[Any, range] = {}

    def submit(chunk: range) -> None:
        # Equal points are run again in a later sweep; the scheduler must not take them for the same task.
        task = client.submit(measure_all, [experiments[index] for index in chunk], pure=False)
        chunks[task.key] = chunk
        tasks.add(task)

    for chunk in _chunks(len(experiments), sum(client.ncores().values())):
        submit(chunk)
    for task in tasks:
        chunk = chunks.pop(task.key)
        failure = task.exception() if task.status == "error" else None
        if failure is None:
            yield from zip(chunk, task.result())
        else:
            yield from _one_by_one(chunk, failure, submit)
        task.release()


def _by_ray(experiments: Sequence[Experiment], ray: Any) -> Iterator[tuple[int, Measured]]:
    remote = ray.remote(measure_all)
    chunks: dict[Any, range] = {}

    def submit(chunk: range) -> None:
        chunks[remote.remote([experiments[index] for index in chunk])] = chunk

    for chunk in _chunks(len(experiments), int(ray.cluster_resources().get("CPU", 1))):
        submit(chunk)
    while chunks:
        (task,), _ = ray.wait(list(chunks))
        chunk = chunks.pop(task)
        try:
            measured = ray.get(task)
        except ray.exceptions.RayError as failure:
            yield from _one_by_one(chunk, failure, submit)
        else:
            yield from zip(chunk, measured)


def _one_by_one(
    chunk: range, failure: BaseException, submit: Callable[[range], None]
) -> Iterator[tuple[int, Measured]]:
    """A task that failed as a whole, for instance because its workers died: finds the point that is the cause."""
    if len(chunk) == 1:
        yield chunk[0], ([], _failure(failure))
        return
    for index in chunk:
        submit(range(index, index + 1))


def _by(client: Any, experiments: Sequence[Experiment], workers: Optional[int]) -> Iterator[tuple[int, Measured]]:
    if client is None:
        return _locally(experiments, workers)
    if getattr(client, "__name__", "") == "ray":
        return _by_ray(experiments, client)
    if type(client).__module__.startswith("distributed"):
        return _by_dask(experiments, client)
    if isinstance(client, futures.Executor):
        return _by_executor(experiments, client)
    raise TypeError("client is a dask.distributed.Client, the module ray, or a concurrent.futures.Executor")


class Sweep:
    """The results of a sweep: one row for each group under each scheduler of each point, or one with the error."""

    def __init__(self, table: pyarrow.Table, path: Path, measured: int) -> None:
        self.table = table
        """The rows, in the order of the points."""
        self.path = path
        """The Parquet file."""
        self.measured = measured
        """Number of points that this call has run; the others were in the file."""

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame."""
        frame: pandas.DataFrame = self.table.to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The rows as a data frame."""
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    @property
    def errors(self) -> list[str]:
        """The distinct errors of points that failed."""
        return sorted({error for error in self.table["error"].to_pylist() if error is not None})

    def __repr__(self) -> str:
        return f"<hoistway.Sweep of {self.table.num_rows} rows in {self.path}>"


def sweep(
    space: Space,
    client: Any = None,
    *,
    path: Union[str, os.PathLike[str]],
    workers: Optional[int] = None,
    retry_failed: bool = False,
    progress: Union[bool, Callable[[int, int], object]] = False,
) -> Sweep:
    """Runs every point of a space, and writes the rows into one Parquet file.

    ``space`` is a mapping for :func:`hoistway.grid`, or a list of points, as :func:`hoistway.latin_hypercube` makes it. A
    point has fields of :class:`Experiment`, and parameters for their texts:
    ``{"target": "model:ssd", "depth": [1, 8, 64], "workloads": "randread:iodepth={depth}"}``.

    ``client`` is None for all processors of this machine (``workers`` threads), a ``dask.distributed.Client``, the module
    ``ray`` after ``ray.init()``, or an executor of ``concurrent.futures``. The results do not depend on it. Points of a
    worker that is killed are run by another one.

    If the file or its journal ``PATH.partial`` has points already, only the others are run; with ``retry_failed`` also
    those that failed. A point that cannot be run is a row with its ``error``.
    """
    try:
        from .store import Columns, Store
    except ModuleNotFoundError as missing:
        help_ = "pip install 'hoistway[sweep]', or from a clone: pip install './python[sweep]'"
        raise Error(f"a sweep needs {missing.name}, which is not installed\n  help: {help_}", 1) from missing

    points: list[Point] = list(grid(space)) if isinstance(space, Mapping) else list(space)
    if not points:
        raise Error("the sweep has no point\n  help: give each axis at least one value", 2)
    experiments = [experiment_at(point) for point in points]
    commands = [experiment.command_line() for experiment in experiments]
    keys = [hashlib.sha256(command.encode()).hexdigest()[:16] for command in commands]
    order = {key: index for index, key in enumerate(keys)}
    if len(order) < len(keys):
        twice = next(command for index, command in enumerate(commands) if order[keys[index]] != index)
        raise Error(f"a point is given twice: {twice}\n  help: give each once; repeat with seeds", 2)
    columns = Columns(points)
    store = Store(Path(path), columns)
    if not store.keys() <= set(keys):
        raise Error(f"{path} has points of another sweep\n  help: name another file, or remove this one", 2)
    done = store.keys() - (store.failed() if retry_failed else set())
    wanted = [index for index, key in enumerate(keys) if key not in done]
    with Progress(progress) as follow:
        measured = _by(client, [experiments[index] for index in wanted], workers)
        for count, (place, (rows, error)) in enumerate(measured, 1):
            index = wanted[place]
            head = {"point": index, "key": keys[index], **columns.values(points[index])}
            head.update(seed=experiments[index].seed, command=commands[index], error=error)
            store.add(keys[index], [{**head, **row} for row in rows] or [head])
            if follow is not None:
                follow(count, len(wanted))
    return Sweep(store.close(order), Path(path), len(wanted))
