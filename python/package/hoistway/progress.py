"""Progress bars by tqdm, where it is installed."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Optional, Union


class Progress:
    """A function ``(done, total)`` for the length of a ``with`` block, or None if there is nothing to show."""

    def __init__(self, wanted: Union[bool, Callable[[int, int], object]]) -> None:
        self._wanted = wanted
        self._bar: Any = None

    def __enter__(self) -> Optional[Callable[[int, int], object]]:
        if not isinstance(self._wanted, bool):
            return self._wanted
        if not self._wanted:
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        self._bar = tqdm(unit="run")
        return self._show

    def _show(self, done: int, total: int) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def __exit__(
        self, kind: Optional[type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._bar is not None:
            self._bar.close()
