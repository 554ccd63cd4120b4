"""The ways to declare a class (decorator, base class, both at once), and the same classes declared in each way.

This file keeps its annotations as objects; the test files keep theirs as strings, so both are covered.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, TensorDict, field, produced, tensorclass
from tensorclass.typing import Bool, Float, Float32, Int64


@dataclass(frozen=True)
class Form:
    """One way to declare: `@form(...) class X(form.base, **form.words(...))`."""

    name: str
    base: type
    decorates: bool

    def __call__(self, **options: Any) -> Callable[[Any], Any]:
        """What stands above the class."""
        if not self.decorates:
            return lambda cls: cls
        return tensorclass(**options) if options else tensorclass

    def words(self, **options: Any) -> dict[str, Any]:
        """What stands behind the bases."""
        return {} if self.decorates else options


FORMS = {
    "decorator": Form("decorator", object, True),
    "base": Form("base", TensorClass, False),
    "both": Form("both", TensorClass, True),
}


def _declare(form: Form) -> SimpleNamespace:
    @form()
    class Pose(form.base):
        """Where something looks."""

        angle: Float32[Tensor, ""]
        axis: Float32[Tensor, "3"]

        def doubled(self) -> Tensor:
            return self.angle * 2

    @form()
    class Digits(form.base):
        """Images and what they show."""

        image: Float32[Tensor, "h w"]
        label: Int64[Tensor, ""]
        mask: Bool[Tensor, "h w"] | None = None
        source: str = "scan"

    @form()
    class Everything(form.base):
        """A field of every kind."""

        image: Float32[Tensor, "h w"]
        label: Int64[Tensor, ""]
        pose: Pose
        who: PerElement[str]
        table: Shared[Float32[Tensor, "k"]]
        source: str = "scan"
        mask: Bool[Tensor, "h w"] | None = None
        extra: TensorDict | None = None
        anything: Any = None
        tags: dict[str, int] = field(default_factory=dict)
        hidden: Float32[Tensor, "4"] = produced("what the encoder sees")

    @form()
    class Soft(form.base):
        """Fields of families, which casts and arithmetic may change."""

        x: Float[Tensor, "2"]
        y: Tensor

    @form(frozen=True)
    class Still(form.base, **form.words(frozen=True)):
        """Refuses every write."""

        x: Float32[Tensor, "2"]
        pose: Pose
        source: str = "scan"

    return SimpleNamespace(Pose=Pose, Digits=Digits, Everything=Everything, Soft=Soft, Still=Still)


SAMPLES: dict[str, SimpleNamespace] = {}
for _form in FORMS.values():
    SAMPLES[_form.name] = _declare(_form)
    for _name, _cls in vars(SAMPLES[_form.name]).items():
        # Pickling finds a class by its qualified name in its module.
        _cls.__qualname__ = f"{_name}_{_form.name}"
        globals()[_cls.__qualname__] = _cls


def pose(cls: Any, *size: int) -> Any:
    """A pose whose elements all differ."""
    count = torch.Size(size).numel()
    return cls(angle=torch.arange(count, dtype=torch.float32).reshape(size), axis=torch.randn(*size, 3))


def digits(cls: Any, *size: int, **more: Any) -> Any:
    """Images whose labels count up."""
    count = torch.Size(size).numel()
    return cls(image=torch.randn(*size, 2, 3), label=torch.arange(count).reshape(size), **more)


def letters(*size: int) -> Any:
    """Nested lists of letters that count up."""
    return _nest(iter(string.ascii_letters), size)


def _nest(source: Any, size: tuple[int, ...]) -> Any:
    return [_nest(source, size[1:]) for _ in range(size[0])] if size else next(source)


def everything(ns: SimpleNamespace, *size: int, **more: Any) -> Any:
    """An instance with a field of every kind, where the label says what the letter and the angle have to be."""
    count = torch.Size(size).numel()
    given = {
        "image": torch.randn(*size, 2, 3),
        "label": torch.arange(count).reshape(size),
        "pose": pose(ns.Pose, *size),
        "who": letters(*size),
        "table": torch.arange(4.0),
        "mask": torch.arange(count).reshape(*size, 1, 1).expand(*size, 2, 3) % 2 == 0,
        "extra": TensorDict(deep=torch.arange(count).reshape(size), batch_size=size),
    }
    return ns.Everything(**{**given, **more}, batch_size=size)


def aligned(batch: Any) -> None:
    """Assert that letters, angles, masks and the untyped corner still stand beside the labels they came with."""
    labels = batch.label.reshape(-1)
    assert _flat(batch.who.tolist(), batch.ndim) == [string.ascii_letters[i] for i in labels.tolist()]
    assert batch.pose.angle.reshape(-1).tolist() == labels.tolist()
    assert batch.extra["deep"].reshape(-1).tolist() == labels.tolist()
    assert batch.mask.reshape(-1, 6)[:, 0].tolist() == (labels % 2 == 0).tolist()
    assert batch.table.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert batch.source == "scan"


def _flat(values: Any, depth: int) -> list[Any]:
    if depth == 0:
        return [values]
    return [value for part in values for value in _flat(part, depth - 1)]
