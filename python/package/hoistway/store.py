"""The Parquet file of a sweep, and the journal beside it while the sweep runs.

A Parquet file cannot be read before its end is written. Rows therefore go to a journal first, an Arrow stream that can be
read up to the last complete batch whenever its writer was killed; the file is made of it in the order of the points.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pyarrow
import pyarrow.parquet

from .errors import Error
from .outcome import Row

_TYPES = {"str": "string", "int": "int64", "float": "float64", "Optional[float]": "float64"}
FIGURES = {field.name: _TYPES[str(field.type)] for field in dataclasses.fields(Row)}
_HEAD = {"point": "int64", "key": "string"}
_TAIL = {"seed": "uint64", "command": "string", "error": "string"}
#: What a figure's column or one of these says already.
_ELSEWHERE = frozenset({"schedulers", "workloads", "threads", "seed", "workers"})


def _scalar(value: Any) -> Any:
    """The value as a column can hold it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value, default=str)


def _column_type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return "bool"
    if kinds <= {int}:
        return "int64"
    return "float64" if kinds <= {int, float} else "string"


class Columns:
    """The columns of a sweep: its parameters, and what every sweep has."""

    def __init__(self, points: Sequence[Mapping[str, Any]]) -> None:
        names = dict.fromkeys(name for point in points for name in point if name not in _ELSEWHERE)
        taken = sorted(set(names) & {*_HEAD, *_TAIL, *FIGURES})
        if taken:
            raise Error(f"'{taken[0]}' is a column of the results\n  help: give the parameter another name", 2)
        self.parameters = {name: _column_type([_scalar(point.get(name)) for point in points]) for name in names}
        types = {**_HEAD, **self.parameters, **_TAIL, **FIGURES}
        self.schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in types.items()])

    def values(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a point, as its rows have them."""
        given = {name: _scalar(point.get(name)) for name in self.parameters}
        texts = {name for name, kind in self.parameters.items() if kind == "string"}
        return {name: str(value) if name in texts and value is not None else value for name, value in given.items()}


class Store:
    """Rows by the keys of their points."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        self.journal = path.with_name(path.name + ".partial")
        self._schema = columns.schema
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._writer: Optional[pyarrow.RecordBatchStreamWriter] = None
        if path.exists():
            self._take(pyarrow.parquet.read_table(path), path)
        self._read_journal()

    def _take(self, table: pyarrow.Table, place: Path) -> None:
        if table.schema.names != self._schema.names:
            raise Error(f"{place} has the columns of another sweep\n  help: name another file, or remove this one", 2)
        for row in table.to_pylist():
            self._rows.setdefault(row["key"], []).append(row)

    def _read_journal(self) -> None:
        if not self.journal.exists():
            return
        batches = []
        with self.journal.open("rb") as file:
            try:
                reader = pyarrow.ipc.open_stream(file)
                while True:
                    batches.append(reader.read_next_batch())
            except (StopIteration, pyarrow.ArrowInvalid, OSError):
                # The end, or where the writer was killed: a batch is one point, so that none is there in part.
                pass
        for batch in batches:
            rows = batch.to_pylist()
            self._rows.pop(rows[0]["key"], None)
            self._take(pyarrow.Table.from_batches([batch]), self.journal)

    def keys(self) -> set[str]:
        """The points that have rows."""
        return set(self._rows)

    def failed(self) -> set[str]:
        """The points whose row is an error."""
        return {key for key, rows in self._rows.items() if rows[0]["error"] is not None}

    def add(self, key: str, rows: list[dict[str, Any]]) -> None:
        """Writes the rows of a point to the journal."""
        self._rows[key] = rows
        if self._writer is None:
            # A journal that was cut off cannot be appended to: what was read from it is written again.
            fresh = self.journal.with_name(self.journal.name + ".new")
            self._file = fresh.open("wb")
            self._writer = pyarrow.ipc.new_stream(self._file, self._schema)
            for known in self._rows.values():
                self._write(known)
            os.replace(fresh, self.journal)
        else:
            self._write(rows)

    def _write(self, rows: list[dict[str, Any]]) -> None:
        assert self._writer is not None
        self._writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema=self._schema))
        self._file.flush()

    def close(self, order: Mapping[str, int]) -> pyarrow.Table:
        """Writes the Parquet file with the points in this order, and removes the journal."""
        rows = [{**row, "point": order[key]} for key in sorted(self._rows, key=order.__getitem__) for row in self._rows[key]]
        table = pyarrow.Table.from_pylist(rows, schema=self._schema)
        fresh = self.path.with_name(self.path.name + ".new")
        pyarrow.parquet.write_table(table, fresh)
        os.replace(fresh, self.path)
        if self._writer is not None:
            self._file.close()
        self.journal.unlink(missing_ok=True)
        return table
