"""One typed module: any callable with the fields that it reads and writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypedDict, overload

import torch
from torch import Tensor, nn
from typing_extensions import Self, TypeVar, Unpack

from ..._dims import why_no_name
from ..._flags import flags
from ...core import Has, Named, Path, TensorCollection
from ...errors import ArgumentError, BuildError
from ._diagnostics import Diagnostic, Location, location_of_caller
from ._hooks import Hooked
from ._how import How, as_device, by_keyword
from ._results import blame, build_alone, outputs
from ._slots import Slot, as_slots, fields_of, is_tensorclass_type, item_of
from ._unnamed import StageValue
from ._wrong_call import what_to_call

Batch = TypeVar("Batch", contravariant=True, default=object)  # noqa: PLC0105  # users read this name in types
N = TypeVar("N")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
Several: TypeAlias = (
    "list[Any] | Mapping[str, Any] | tuple[()] | tuple[Any, Any, Any, Any, Any, Any, Unpack[tuple[Any, ...]]]"
)
"""In fields that checkers don't compare with parameters."""


class ModuleOptions(TypedDict, total=False):
    """The other options of a typed module."""

    name: str | None
    update: bool
    device: torch.device | str | int | None
    checkpoint: bool


WHOLE = "_on_fields"
"""The method of class-to-class modules that a typed pipeline calls; it writes all out fields, even unread ones."""


@dataclass(frozen=True)
class Stage:
    """The record of a sequence about one of its modules; the module itself is registered under `name`."""

    name: str
    reads: tuple[Slot, ...]
    writes: tuple[Slot | None, ...]
    update: bool
    location: Location
    function: Callable[..., Any] | None
    """The callable, if it is not an `nn.Module` or a method of one."""
    method: str | None
    """The name of the method of the registered module to call; None for the module itself."""
    how: How
    partial: bool = False
    """Whether the module is skipped if a required in field is None."""
    skip_existing: bool = False
    """Whether the module is skipped if its out fields are filled in already."""

    def at(self, index: int) -> str:
        """The module in a message, by its position in the pipeline."""
        return f"module {index} `{self.name}`"

    def finding(self, index: int, code: str, text: str, notes: Sequence[str], hint: str, role: str = "") -> Diagnostic:
        """A diagnostic with the line that declares the module."""
        return Diagnostic(code, text, index, self.name, f"{self.location}{role}", tuple(notes), hint)

    @property
    def written(self) -> tuple[Slot, ...]:
        """The out fields without dropped ones."""
        return tuple(slot for slot in self.writes if slot is not None)

    @property
    def spare(self) -> tuple[Slot, ...]:
        """Fields that the module gets where they exist, though it was not seen to read them."""
        return () if self.how.over is None else self.how.over.spare

    def with_spare(self, slots: Sequence[Slot | None]) -> Stage:
        """The stage with other places of its spare fields."""
        over = self.how.over
        if over is None or not over.spare:
            return self
        kept = tuple(slot for slot in slots if slot is not None)
        return replace(self, how=replace(self.how, over=replace(over, spare=kept)))


@flags
class TensorClassModule(Hooked, Generic[Batch]):
    """A typed module: a callable with the fields of a batch that it reads and writes.

    In a `TensorClassSequential` it is only metadata: the wrapped module itself is registered there. Called on a batch,
    it returns an instance of the class of its out fields. If the batch is already of that class, the result is a new
    instance with the out fields filled in and all other fields passed through.

    Args:
        module: An `nn.Module`, a function, a bound method or any other callable. It gets the values of `in_fields` by
            position, tensors of shape `[*batch, *event]`, and returns the values of `out_fields`: one value, a tuple in
            their order, or a mapping with the last parts of their names as keys.
        in_fields: The fields to read: `Digits.image`, a sequence of fields, or a mapping from parameter names to
            fields, which are then passed by keyword. Type checkers compare a single field, and tuples of fields, with
            the parameters.
        out_fields: The fields to write. In a sequence, None drops an output.
        name: The name in a sequence; by default the name of the function or class, with its index.
        update: Whether the module may overwrite fields of the input or of earlier modules.
        device: The device of the module. The module is moved there, as by `nn.Module.to`, and so are its inputs at each
            call.
        checkpoint: Whether the backward pass reruns the module instead of keeping its activations.

    Raises:
        BuildError: for a module that is not callable, and for arguments that are not fields.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32
    >>> class Image(TensorClass):
    ...     pixels: Float32[Tensor, "64"]
    >>> class Hidden(TensorClass):
    ...     h: Float32[Tensor, "8"]
    >>> encoder = TensorClassModule(nn.Linear(64, 8), in_fields=Image.pixels, out_fields=Hidden.h)
    >>> encoder(Image(torch.zeros(5, 64))).h.shape
    torch.Size([5, 8])
    """

    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A], Any],
        in_fields: tuple[A | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A, B], Any],
        in_fields: tuple[A | None, B | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A, B, C], Any],
        in_fields: tuple[A | None, B | None, C | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A, B, C, D], Any],
        in_fields: tuple[A | None, B | None, C | None, D | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A, B, C, D, E], Any],
        in_fields: tuple[A | None, B | None, C | None, D | None, E | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A, B, C, D, E, F], Any],
        in_fields: tuple[A | None, B | None, C | None, D | None, E | None, F | None],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[..., Any],
        in_fields: Several,
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[Has[N]],
        module: Callable[[Tensor], Any],
        in_fields: Named[N],
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassModule[object],
        module: Callable[[A], Any],
        in_fields: A | None,
        out_fields: Any,
        **options: Unpack[ModuleOptions],
    ) -> None: ...
    def __init__(
        self,
        module: Callable[..., Any],
        in_fields: Any,
        out_fields: Any,
        *,
        name: str | None = None,
        update: bool = False,
        device: torch.device | str | int | None = None,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        _check_callable(module)
        self.module = module
        self.name: str | None = check_name(name)
        self.update = update
        self.location: Location = location_of_caller()
        fields, parameters = by_keyword(in_fields)
        self._how = How(parameters, as_device(device), checkpoint)
        self._reads = tuple(slot for slot in as_slots(fields, "in_fields") if slot is not None)
        self._writes = self._declared = as_slots(out_fields, "out_fields", droppable=True)
        if self._how.device is not None and isinstance(module, nn.Module):
            module.to(self._how.device)

    @property
    def in_fields(self) -> tuple[Any, ...]:
        """The field references that the module reads.

        >>> encoder.in_fields
        (Image.pixels: Float32["64"],)
        """
        return tuple(slot.ref for slot in self._reads)

    @property
    def out_fields(self) -> tuple[Any, ...]:
        """The field references that the module writes; None for a dropped output.

        >>> encoder.out_fields
        (Hidden.h: Float32["8"],)
        """
        return tuple(None if slot is None else slot.ref for slot in self._writes)

    def select_out_fields(self, *fields: Any) -> Self:
        """Drop all outputs except these, in place; `reset_out_fields` restores them.

        Raises:
            BuildError: for a field that the module does not write.

        >>> class Ends(TensorClass):
        ...     low: Float32[Tensor, ""]
        ...     high: Float32[Tensor, ""]
        >>> ends = TensorClassModule(lambda h: (h.amin(-1), h.amax(-1)), Hidden.h, (Ends.low, Ends.high))
        >>> ends.select_out_fields(Ends.high).out_fields
        (None, Ends.high: Float32[""])
        """
        wanted = as_slots(fields, "fields")
        unknown = [str(slot) for slot in wanted if slot not in self._declared]
        if unknown or not wanted:
            raise BuildError(f"{self._label()} writes {fields_text(self._declared)}, not {unknown or 'no field'}")
        self._writes = tuple(slot if slot in wanted else None for slot in self._declared)
        return self

    def reset_out_fields(self) -> Self:
        """Keep all outputs again.

        >>> encoder.reset_out_fields().out_fields
        (Hidden.h: Float32["8"],)
        """
        self._writes = self._declared
        return self

    def forward(self, batch: Any = MISSING, *more: Any, **fields: Any) -> Any:
        """Read the in fields of a batch, call the module, and build the class of the out fields.

        Raises:
            TypeError: for anything but one batch with the in fields.
            SchemaError: if an output doesn't fit its declaration.
        """
        if more or fields or not is_tensorclass_type(type(batch)):
            label = f"{self._label()} takes a batch that declares {', '.join(s.label for s in self._reads)}"
            owner = self._reads[0].owner if self._reads else TensorCollection
            raise ArgumentError(f"{label}; {what_to_call(owner, batch, more, fields)}")
        values = [read_slot(batch, slot, self._label()) for slot in self._reads]
        try:
            result = self._how.call(self.module, values)
        except Exception as error:  # the user's callable may raise anything
            blame(error, self._label(), self._reads, values)
            raise
        written = outputs(result, self._writes, self._label())
        return build_alone(batch, self._writes, written, self._label())

    def _stage_at(self, index: int) -> tuple[Stage, nn.Module | None]:
        """The stage for a position in a sequence, and the module to register there."""
        owner = getattr(self.module, "__self__", None)
        name = self.name or f"{default_name(self.module)}_{index}"
        method = method_name(owner, self.module) if isinstance(owner, nn.Module) else None
        if isinstance(self.module, nn.Module):
            registered: nn.Module | None = self.module
        elif method is not None:
            registered = owner
        else:
            registered = None
        function = self.module if registered is None else None
        stage = Stage(name, self._reads, self._writes, self.update, self.location, function, method, self._how)
        return stage, registered

    def _label(self) -> str:
        return f"module `{self.name or default_name(self.module)}`"

    def extra_repr(self) -> str:
        """The fields, in the repr of the module."""
        return f"{fields_text(self._reads)} -> {fields_text(self._writes)}"


def fields_text(slots: tuple[Slot | None, ...]) -> str:
    """Slots as the user wrote them."""
    names = ["None" if slot is None else slot.label for slot in slots]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def as_module(stage: Stage, target: Callable[..., Any]) -> TensorClassModule:
    """The typed module of a stage."""
    how = stage.how
    reads = [slot.ref for slot in stage.reads]
    writes = [None if slot is None else slot.ref for slot in stage.writes]
    module = TensorClassModule(
        target, reads, writes, name=stage.name.rpartition(".")[2], update=stage.update, checkpoint=how.checkpoint
    )
    spare = [replace(slot, apart="", within="", home=None) for slot in stage.spare]
    module._how, module.location = stage.with_spare(spare).how, stage.location
    module._reads = tuple(replace(slot, apart="", within="", home=None) for slot in stage.reads)
    return module


def module_of(target: object) -> nn.Module | None:
    """The module that a callable is, or that its method belongs to."""
    owner = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def method_name(owner: nn.Module, method: Any) -> str:
    """The attribute of a module that holds a bound method. The `__name__` of the method may differ, as for a lambda.

    Raises:
        BuildError: if no attribute holds it.
    """
    known = [name for base in type(owner).__mro__ for name, value in vars(base).items() if value is method.__func__]
    for name in (method.__name__, *known):
        if not why_no_name(name) and getattr(owner, name, None) == method:
            return str(name)
    raise BuildError(
        f"got a method of {type(owner).__name__} that no attribute of the module gives: a pipeline calls it by the "
        "name of the attribute; define it in the class of the module"
    )


def default_name(module: object) -> str:
    """A readable name for a callable: that of the function, else that of its class.

    >>> default_name(nn.LayerNorm(3)), default_name(lambda x: x)
    ('layer_norm', 'function')
    """
    while isinstance(module, partial):
        module = module.func
    name = getattr(module, "__name__", "") if not isinstance(module, nn.Module) else ""
    if name == "<lambda>":
        return "function"
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name or type(module).__name__).lower()
    clean = re.sub(r"\W", "", snake).strip("_")
    return clean if clean[:1].isalpha() else f"module{clean}"


def _check_callable(module: object) -> None:
    hint = "give an instance of an nn.Module, a function or any other callable"
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise BuildError(f"got the class {module.__name__}: make an instance of it, `{module.__name__}(...)`")
    if isinstance(module, TensorClassModule):
        raise BuildError(
            "got a TensorClassModule, which names its fields already; use it as it is, or wrap its `.module`"
        )
    if isinstance(module, StageValue):
        raise BuildError("got the value of a stage, which is an input: name the callable first, `stage(f, h)`")
    if isinstance(module, Tensor) or not callable(module):
        raise BuildError(f"got {type(module).__name__}, which can't be called; {hint}")


def check_name(name: object) -> str | None:
    """Check the name of a module in a sequence; it may be None."""
    if name is None:
        return None
    if not isinstance(name, str) or not name.isidentifier():
        raise BuildError(f"name={name!r}: a module's name is one Python identifier, such as 'encoder'")
    if hasattr(nn.Module, name):
        raise BuildError(f"name={name!r} would hide `nn.Module.{name}`; take another name")
    return name


def read_slot(batch: Any, slot: Slot, label: str, path: Path | None = None) -> Any:
    """The value of a field of a batch, which may have it at another path."""
    value = batch
    for part in slot.plain if path is None else path:
        if value is None:
            return None
        if not is_tensorclass_type(type(value)) or part not in fields_of(type(value)):
            raise ArgumentError(
                f"{label} reads {slot}, which {type(batch).__name__} does not have; give it a batch of "
                f"{slot.owner.__name__}"
            )
        value = getattr(value, part)
    return item_of(value, slot.items)
