"""The extension module; `hoistway` is the interface for users."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Optional, TypedDict

if TYPE_CHECKING:
    from .experiment import Experiment
    from .policy import Elevator

class PlanFields(TypedDict):
    runs: int
    workloads: list[str]
    schedulers: list[str]
    groups: list[tuple[str, int]]
    runtime_s: float
    ramp_s: float

class ChangeFields(TypedDict):
    cell: str
    metric: str
    group: Optional[str]
    old: float
    new: float
    delta: Optional[float]
    interval: Optional[tuple[float, float]]
    sign: str
    remark: str
    is_identical: bool
    same_settings: bool

class Outcome:
    def json(self) -> str: ...
    def table(self) -> str: ...
    def csv(self, percentiles: Sequence[float]) -> str: ...
    def notes(self) -> list[str]: ...
    def samples(self) -> list[tuple[str, str, int, int, str]]: ...
    def html(self) -> str: ...

class Request:
    """A request as a policy sees it; its extent grows when bios are merged into it."""

    @property
    def id(self) -> int:
        """Unique among the requests that are queued or in flight."""
    @property
    def sector(self) -> int:
        """First sector of 512 bytes."""
    @property
    def sectors(self) -> int:
        """Number of sectors of 512 bytes."""
    @property
    def operation(self) -> str:
        """`read`, `write`, `discard`, `flush`, ..."""
    @property
    def context(self) -> int:
        """The issuer."""
    @property
    def group(self) -> int:
        """The issuer's group."""
    @property
    def start_ns(self) -> int:
        """When it was allocated, in nanoseconds."""

def devices() -> str: ...
def schedulers() -> str: ...
def workloads() -> str: ...
def plan(question: Experiment) -> PlanFields: ...
def run(question: Experiment, progress: Optional[Callable[[int, int], object]] = None) -> Outcome: ...
def compare(old: Outcome, new: Outcome) -> list[ChangeFields]: ...
def register(name: str, summary: str, factory: Callable[[int, int, int], Elevator]) -> None: ...
