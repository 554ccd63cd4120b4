"""Functions that workers import, and classes that travel."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tensorclass import PerElement, Ragged, TensorClass, TensorDict, lazy_stack
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    v: Float32[Tensor, "2"]


class Item(TensorClass):
    """A bit of everything."""

    x: Float32[Tensor, "3"]
    label: Int64[Tensor, ""]
    name: PerElement[str]
    words: Ragged[Tensor, "t"]
    inner: Inner


def items(count: int, start: int = 0) -> Item:
    """Rows whose values say which they are."""
    numbers = torch.arange(start, start + count)
    return Item(
        x=numbers[:, None].float().expand(count, 3).clone(),
        label=numbers,
        name=[f"row {i}" for i in numbers.tolist()],
        words=[torch.full((i % 3 + 1,), float(i)) for i in numbers.tolist()],
        inner=Inner(v=numbers[:, None].float().expand(count, 2).clone()),
        batch_size=[count],
    )


def containers() -> dict[str, Any]:
    """One of each kind, with six elements."""
    plain = TensorDict({"a": torch.arange(6.0), "n": {"b": torch.arange(12).view(6, 2)}}, [6])
    return {
        "TensorDict": plain,
        "typed": items(6),
        "lazy": lazy_stack([plain[i].clone() for i in range(6)]),
        "objects": TensorDict(a=torch.arange(6), who=[f"p{i}" for i in range(6)], shared="all", batch_size=[6]),
    }


def same(x: Any) -> Any:
    """What its name says."""
    return x


def more(x: Any) -> Any:
    """What its name says."""
    return x + 1


def tensor(x: Any) -> Any:
    """What its name says."""
    return x["a"]


def nothing(x: Any) -> None:
    """What its name says."""
    return


def noisy(x: Any) -> Any:
    """Draws in every way."""
    drawn = torch.rand(x.batch_size) + torch.nn.functional.dropout(torch.ones(x.batch_size)) + torch.randn(())
    drawn += torch.randint(0, 9, x.batch_size) + torch.randperm(5)[0] + torch.rand_like(drawn)
    drawn += torch.randn_like(drawn) + torch.randint_like(drawn, 9) + torch.randint_like(drawn, 3, 9)
    return TensorDict(r=drawn.bernoulli_(0.5) + torch.normal(drawn, 1.0), batch_size=x.batch_size)


def noisy_everywhere(x: Any) -> Any:
    """What its name says."""
    return TensorDict(r=torch.rand(x.batch_size) + np.random.rand(), batch_size=x.batch_size)


def where(x: Any) -> Any:
    """What its name says."""
    return TensorDict(pid=torch.full(x.batch_size, os.getpid()), batch_size=x.batch_size)


def threads_of(x: Any) -> Any:
    """What its name says."""
    return torch.tensor([torch.get_num_threads()])


class Dies:
    """Kills its worker, once for each of some places, or always."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.times = str(folder), times

    def __call__(self, x: Any) -> Any:
        label = x["a"] if "a" in x else x["label"]
        first = int(label.reshape(-1)[0])
        mark = Path(self.folder, f"died-{first}")
        count = len(mark.read_text()) if mark.exists() else 0
        if count < self.times:
            mark.write_text("x" * (count + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class Strange(Exception):
    """Does not unpickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raises(x: Any) -> Any:
    """What its name says."""
    raise ValueError("no good")


def raises_key(x: Any) -> Any:
    """What its name says."""
    return x["absent"]


def raises_strange(x: Any) -> Any:
    """What its name says."""
    raise Strange(1, 2)


def exits(x: Any) -> Any:
    """What its name says."""
    sys.exit(3)


def kills(x: Any) -> Any:
    """What its name says."""
    os.kill(os.getpid(), signal.SIGKILL)


def gives_lock(x: Any) -> Any:
    """What its name says."""
    return threading.Lock()


def some(x: Any) -> Any:
    """What its name says."""
    return x if x["a"][0] < 2 else None
