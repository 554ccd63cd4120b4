"""What a module writes outside of itself happens once in a build, and settings of the process are put back."""

from __future__ import annotations

import logging
import os
import random
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.nn.probe._effects import Reach
from tensorclass.typing import Float32


class In(TensorClass):
    x: Float32[Tensor, "f"]


class Out(TensorClass):
    y: Float32[Tensor, "f"]


class Board:
    """A class whose attributes count."""

    count = 0
    log: ClassVar[list[int]] = []
    table: ClassVar[dict[str, int]] = {}
    last: ClassVar[deque[int]] = deque()

    @classmethod
    def up(cls) -> None:
        cls.count += 1


OTHER = types.ModuleType("other")
LOG = logging.getLogger("tests.settings")
TOTAL = 0


class Module(nn.Module):
    """A module with a class attribute of its own."""

    count = 0
    seen: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.board = Board
        self.mine = 0


class ByName(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.count += 1
        return x * 1


class Assigned(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.count = Board.count + 1
        return x * 1


class ByType(Module):
    def forward(self, x: Tensor) -> Tensor:
        type(self).count += 1
        return x * 1


class ByClass(Module):
    def forward(self, x: Tensor) -> Tensor:
        self.__class__.count += 1
        return x * 1


class ByLocal(Module):
    def forward(self, x: Tensor) -> Tensor:
        cls = type(self)
        cls.count += 1
        return x * 1


class ByMethod(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.up()
        return x * 1


class BySetattr(Module):
    def forward(self, x: Tensor) -> Tensor:
        setattr(Board, "count", Board.count + 1)  # noqa: B010
        return x * 1


class ByAttribute(Module):
    def forward(self, x: Tensor) -> Tensor:
        self.board.count += 1
        return x * 1


class Appended(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.log.append(1)
        return x * 1


class AppendedOfSelf(Module):
    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(1)
        return x * 1


class Item(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.table["n"] = Board.table.get("n", 0) + 1
        return x * 1


class ItemAdded(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.table["n"] += 1
        return x * 1


class Left(Module):
    def forward(self, x: Tensor) -> Tensor:
        Board.last.appendleft(1)
        return x * 1


class OfModule(Module):
    def forward(self, x: Tensor) -> Tensor:
        OTHER.count += 1
        return x * 1


class Closure(Module):
    def __init__(self) -> None:
        super().__init__()
        board = Board

        def up() -> None:
            board.count += 1

        self.up = up

    def forward(self, x: Tensor) -> Tensor:
        self.up()
        return x * 1


class Own(Module):
    def forward(self, x: Tensor) -> Tensor:
        self.mine += 1
        return x * 1


class Global(Module):
    def forward(self, x: Tensor) -> Tensor:
        global TOTAL  # noqa: PLW0603
        TOTAL += 1
        return x * 1


def attribute(x: Tensor) -> Tensor:
    """A function that counts its calls."""
    attribute.count += 1  # type: ignore[attr-defined]
    return x * 1


CLASSES = [
    ByName, Assigned, ByType, ByClass, ByLocal, ByMethod, BySetattr, ByAttribute, Appended, AppendedOfSelf, Item,
    ItemAdded, Left, OfModule, Closure,
]  # fmt: skip
CONTAINED = [Own, Global]


def counted(cls: type[Module]) -> int:
    """How often anything was written that outlives a copy."""
    own = len(Board.log) + Board.table["n"] + len(Board.last) + len(Module.seen)
    return int(own + Board.count + cls.__dict__.get("count", 0) + OTHER.count + TOTAL)


def build(module: Any) -> Any:
    """A pipeline of one module."""
    return TensorClassSequential(TensorClassModule(module, in_fields=In.x, out_fields=Out.y), input=In, output=Out)


@pytest.fixture(autouse=True)
def fresh() -> None:
    """All counters at zero."""
    global TOTAL  # noqa: PLW0603
    TOTAL = Board.count = OTHER.count = attribute.count = 0  # type: ignore[attr-defined]
    Board.table["n"] = 0
    for held in (Board.log, Board.last, Module.seen):
        held.clear()
    for cls in CLASSES:
        cls.count = 0


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_writes_to_classes_happen_once(cls: type[Module]) -> None:
    """An attribute of a class or Python module is written in one run, whatever names it."""
    module = cls()
    build(module)
    assert counted(cls) == 1


@pytest.mark.parametrize("cls", CONTAINED, ids=lambda cls: cls.__name__)
def test_a_copy_contains_the_rest(cls: type[Module]) -> None:
    """Attributes of instances and functions, and globals of the user's module, are those of the copy."""
    module = cls()
    build(module)
    build(attribute)
    assert counted(cls) == module.mine == attribute.count == 0  # type: ignore[attr-defined]


class Table(nn.Module):
    """A module that reads a table of its class, and writes to tensors and lists of its own."""

    names: ClassVar[dict[str, int]] = {"a": 1}
    widths: ClassVar[list[int]] = [1, 2]

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Tensor] = {}
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 0] = 0
        self.cache["x"] = y
        self.seen.append(len(y))
        self.kind = type(x)
        return y * self.names["a"] * self.widths[0]


@pytest.mark.parametrize("module", [Table(), nn.Linear(3, 3), nn.TransformerEncoderLayer(4, 2), Own(), attribute])
def test_readers_are_probed_in_full(module: Any) -> None:
    """A module that only reads what copies share is run as often as the check needs."""
    assert Reach.of(module).outside == ""


SETTINGS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True), torch.are_deterministic_algorithms_enabled,
    ),
    "only warn": (
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        torch.is_deterministic_algorithms_warn_only_enabled,
    ),
    "default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "default device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "grad mode": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    "matmul": (lambda: torch.set_float32_matmul_precision("high"), torch.get_float32_matmul_precision),
    "cudnn": (lambda: setattr(torch.backends.cudnn, "benchmark", True), lambda: torch.backends.cudnn.benchmark),
    "flash": (lambda: torch.backends.cuda.enable_flash_sdp(False), torch.backends.cuda.flash_sdp_enabled),
    "print options": (lambda: torch.set_printoptions(precision=2), lambda: str(torch.tensor(1 / 3))),
    "numpy print options": (lambda: np.set_printoptions(precision=2), lambda: str(np.array([1 / 3]))),
    "numpy errors": (lambda: np.seterr(all="raise"), np.geterr),
    "validation": (lambda: Distribution.set_default_validate_args(False), lambda: Distribution._validate_args),
    "torch seed": (lambda: torch.manual_seed(11), lambda: torch.get_rng_state().tolist()),
    "python seed": (lambda: random.seed(11), random.getstate),
    "numpy seed": (lambda: np.random.seed(11), lambda: str(np.random.get_state()[1][:5])),
    "recursion": (lambda: sys.setrecursionlimit(5000), sys.getrecursionlimit),
    "filters": (lambda: warnings.simplefilter("ignore", RuntimeWarning), lambda: list(warnings.filters)),
    "more filters": (lambda: warnings.filterwarnings("ignore", "abc"), lambda: list(warnings.filters)),
    "level": (lambda: LOG.setLevel(5), lambda: LOG.level),
    "handler": (
        lambda: LOG.addHandler(logging.NullHandler()),
        lambda: LOG.handlers[:],
    ),
    "environment": (lambda: os.environ.__setitem__("TENSORCLASS_TEST", "1"), lambda: dict(os.environ)),
    "environment without": (lambda: os.environ.pop("PATH"), lambda: dict(os.environ)),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_put_back(name: str) -> None:
    """A build leaves every setting of the process as it was, whatever a module sets."""
    put, read = SETTINGS[name]

    class Setter(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            put()
            return x * 1

    before = read()
    build(Setter())
    assert read() == before
