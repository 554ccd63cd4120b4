"""Class-to-class modules: from a batch of one class to a batch of another.

They chain with `>>`, and have a keyed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

from torch import nn

from ..._flags import flags
from ...core import TensorCollection
from ...errors import BuildError, Problem, SchemaError
from ..parts._diagnostics import location_of_caller
from ..parts._dispatch import dispatch
from ..parts._hooks import Hooked
from ..parts._how import How
from ..parts._keyed_base import Keys, TensorDictModuleBase
from ..parts._results import describe, fill
from ..parts._slots import Slot, fields_of, is_tensorclass_type
from ..parts._stage import WHOLE, Stage, default_name
from ..parts._wrong_call import what_to_call

if TYPE_CHECKING:
    from ._sequential import TensorClassSequential

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # users read these names in types
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105
New = TypeVar("New")


@flags
class TensorClassModuleBase(Hooked, ABC, Generic[In, Out]):
    """The base class of modules from a batch of one class to a batch of another.

    A subclass names both classes, as `TensorClassModuleBase[In, Out]` or in the annotations of `forward`; every call
    checks them. `a >> b` runs one module after the other; type checkers and the constructor check that they fit. A
    module for a class also accepts its subclasses. In a `TensorClassSequential`, the module reads every field of `In`
    and writes every field of `Out`; in a `TensorDictSequential`, the field names are its keys.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32
    >>> class Image(TensorClass):
    ...     pixels: Float32[Tensor, "4"]
    >>> class Mean(TensorClass):
    ...     value: Float32[Tensor, ""]
    >>> class Average(TensorClassModuleBase[Image, Mean]):
    ...     def forward(self, batch: Image) -> Mean:
    ...         return Mean(batch.pixels.mean(-1), batch_size=batch.batch_size)
    >>> Average()(Image(torch.ones(3, 4))).value
    tensor([1., 1., 1.])
    """

    input_type: type[Any]
    """The input class; not set if it is unknown."""
    output_type: type[Any]
    """The output class; not set if it is unknown."""
    _ends: ClassVar[tuple[Any, Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin: Any = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, TensorClassModuleBase):
                given = dict(zip(getattr(origin, "__parameters__", ()), get_args(base), strict=False))
                cls._ends = (given.get(origin._ends[0], origin._ends[0]), given.get(origin._ends[1], origin._ends[1]))
        for name, end in zip(("input_type", "output_type"), cls._ends, strict=True):
            if not isinstance(end, (TypeVar, str)):
                setattr(cls, name, end)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not (hasattr(type(self), "input_type") and hasattr(type(self), "output_type")):
            self._read_annotations()

    def _read_annotations(self) -> None:
        """Read the classes from the annotations of `forward`, if the type arguments don't give them."""
        try:
            hints = list(get_type_hints(type(self).forward).items())
        except NameError:  # a class that is local to a function: unknown
            return
        returned = [hint for name, hint in hints if name == "return"]
        taken = [hint for name, hint in hints if name != "return"]
        for name, found in (("input_type", taken), ("output_type", returned)):
            if found and not hasattr(type(self), name) and isinstance(_origin(found[0]), type):
                setattr(self, name, found[0])

    @abstractmethod
    def forward(self, x: In, /) -> Out:
        """Compute a batch of the output class."""

    if TYPE_CHECKING:

        def __call__(self, x: In, /) -> Out:
            """Run the module, with its hooks, and check the classes of input and output."""
            ...

    else:

        def __call__(self, x: Any = MISSING, /, *more: Any, **fields: Any) -> Any:
            """Run the module, with its hooks, and check the classes of input and output.

            Raises:
                SchemaError: (a `TypeError`) for anything but one batch of the input class, and for an output of another
                    class.
            """
            declared = _origin(getattr(self, "input_type", object))
            if more or fields or not isinstance(x, declared):
                self._refuse_call(declared, x, more, fields)
            result = super().__call__(x)
            declared = _origin(getattr(self, "output_type", object))
            if not isinstance(result, declared):
                self._refuse_result(declared, result)
            return result

    def _refuse_call(self, declared: type, value: object, more: Sequence[object], fields: Mapping[str, object]) -> None:
        hint = what_to_call(declared, value, more, fields)
        if isinstance(value, TensorCollection) and not more and not fields:
            hint += "; or call `module.as_td_module()` on keys"
        problem = Problem("the input", declared.__name__, describe(value), hint)
        raise SchemaError(f"{type(self).__name__} takes a {declared.__name__}, {hint}", [problem], type(self).__name__)

    def _refuse_result(self, declared: type, value: object) -> None:
        hint = f"return a {declared.__name__}, or declare the class that it returns"
        problem = Problem("the output", declared.__name__, describe(value), hint)
        what = f"{type(self).__name__} declares {declared.__name__}, but returned {problem.given}"
        raise SchemaError(f"{what}: {hint}", [problem], type(self).__name__)

    def __rshift__(self, other: TensorClassModuleBase[Out, New] | TensorClassSequential[Out, New]) -> Chain[In, New]:
        """Chain this module with another module or a pipeline, which gets its output.

        Raises:
            BuildError: if the classes don't fit.
        """
        return Chain(self, other)

    def __rrshift__(self, other: TensorClassSequential[New, In]) -> Chain[New, Out]:
        """Chain a pipeline with this module."""
        return Chain(other, self)

    def as_td_module(self, *, inplace: bool = False) -> TensorClassModuleWrapper:
        """The keyed form of this module: containers in and out, with field names as keys.

        Args:
            inplace: write the output fields to the given container, as other keyed modules do; otherwise return them in
                a new `TensorDict`.

        Raises:
            BuildError: (a `ValueError`) unless input and output are typed classes.
        """
        return TensorClassModuleWrapper(self, inplace=inplace)

    # ---- in a typed pipeline -------------------------------------------------------------------------------------

    def _stage_at(self, index: int) -> tuple[Stage, nn.Module | None]:
        """The stage for a position in a typed pipeline: it reads all fields of `In` and writes all fields of `Out`."""
        taken, returned = ends_of(self, tensorclasses=True)
        reads = tuple(Slot(getattr(taken, name)) for name in fields_of(taken))
        writes = tuple(Slot(getattr(returned, name)) for name in fields_of(returned))
        name = f"{default_name(self)}_{index}"
        return Stage(name, reads, writes, True, location_of_caller(), None, WHOLE, How()), self

    def _on_fields(self, *values: Any) -> Any:
        """Compute the values of the output fields from those of the input fields, in order."""
        taken: Any = self.input_type
        given = dict(zip(fields_of(taken), values, strict=True))
        specs = fields_of(taken)
        batch = taken(**{name: value for name, value in given.items() if specs[name].init})
        later = {name: value for name, value in given.items() if not specs[name].init}
        result: Any = self(fill(batch, later) if later else batch)
        found = tuple(getattr(result, name) for name in fields_of(self.output_type))
        return found[0] if len(found) == 1 else found


TensorClassModuleBase._ends = (In, Out)  # in the class body, checkers would treat them as types


class Chain(TensorClassModuleBase[In, Out]):
    """A chain of class-to-class modules; the result of `a >> b`."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        parts = [part for module in modules for part in _parts(module)]
        for before, after in pairwise(parts):
            have, want = ends_of(before)[1], ends_of(after)[0]
            if not issubclass(_origin(have), _origin(want)):
                names = f"`{type(before).__name__}` returns {have.__name__}, `{type(after).__name__}` takes"
                raise BuildError(f"{names} {want.__name__}; chain a module between them that makes a {want.__name__}")
        self.input_type: type[Any] = ends_of(parts[0])[0]
        self.output_type: type[Any] = ends_of(parts[-1])[1]
        for number, part in enumerate(parts):
            self.add_module(str(number), part)

    def forward(self, x: In, /) -> Out:
        """Run the modules in order."""
        value: Any = x
        for module in self._modules.values():
            value = module(value)  # type: ignore[misc]  # never None
        result: Out = value
        return result

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())


@flags
class TensorClassModuleWrapper(TensorDictModuleBase):
    """The keyed form of a class-to-class module: containers in and out, with field names as keys.

    Args:
        module: a `TensorClassModuleBase` or a typed pipeline.
        inplace: write the output fields to the given container; otherwise return them in a new `TensorDict`.

    Raises:
        BuildError: (a `ValueError`) unless input and output are typed classes.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, TensorDict
    >>> class Image(TensorClass):
    ...     pixels: Tensor
    >>> class Invert(TensorClassModuleBase[Image, Image]):
    ...     def forward(self, batch: Image) -> Image:
    ...         return Image(1 - batch.pixels, batch_size=batch.batch_size)
    >>> keyed = Invert().as_td_module()
    >>> keyed.in_keys, keyed(TensorDict(pixels=torch.ones(2), other=torch.ones(2), batch_size=[2]))
    (['pixels'], TensorDict(batch_size=[2], fields={pixels: f32[]}))
    """

    def __init__(self, module: Any, *, inplace: bool = False) -> None:
        super().__init__()
        taken, returned = ends_of(module, tensorclasses=True)
        self.tc_module = module
        self.inplace = inplace
        self.in_keys: Keys = leaf_keys(taken)
        self.out_keys: Keys = leaf_keys(returned)

    @dispatch
    def forward(self, tensordict: Any) -> Any:
        """Read the input class from a container, call the module, return the fields of its output.

        Raises:
            SchemaError: if the container doesn't fit the input class.
        """
        taken: Any = ends_of(self.tc_module)[0]
        batch = tensordict
        if not isinstance(tensordict, _origin(taken)):
            held = tensordict.select(*fields_of(taken), strict=False)
            # A container without batch dims, as from `dispatch`: infer the batch size from the shapes.
            batch = taken.from_tensordict(held) if held.batch_dims else taken.from_dict(held.to_dict())
        result = self.tc_module(batch)
        keyed = result.select(*(key for key in self.out_keys_source if result.get(key) is not None))
        return tensordict.update(keyed) if self.inplace else keyed


def ends_of(module: Any, *, tensorclasses: bool = False) -> tuple[Any, Any]:
    """The input and output class of a class-to-class module or a typed pipeline.

    Raises:
        BuildError: if they are unknown, or if they must be typed classes and are not.
    """
    pairs = (("input_type", "input_class"), ("output_type", "output_class"))
    taken, returned = (getattr(module, name, None) or getattr(module, other, None) for name, other in pairs)
    title = f"{type(module).__name__}: "
    if taken is None or returned is None:
        raise BuildError(
            f"{title}its input and output classes are not declared; write `class {type(module).__name__}("
            "TensorClassModuleBase[In, Out])`, or annotate the argument and the result of `forward`"
        )
    wrong = [end for end in (taken, returned) if tensorclasses and not is_tensorclass_type(_origin(end))]
    if wrong:
        raise BuildError(f"{title}input and output must be tensorclasses, and {wrong[0]} is not one")
    return taken, returned


def leaf_keys(cls: Any, prefix: tuple[str, ...] = (), seen: tuple[Any, ...] = ()) -> Keys:
    """The fields of a class as keys, with the fields of nested classes."""
    keys: Keys = []
    for name, spec in fields_of(cls).items():
        path = (*prefix, name)
        nested: Any = spec.nested
        if nested is not None and nested not in (cls, *seen):
            keys += leaf_keys(nested, path, (cls, *seen))
        else:
            keys.append(path if prefix else name)
    return keys


def _parts(module: Any) -> list[Any]:
    return list(module) if isinstance(module, Chain) else [module]


def _origin(cls: Any) -> Any:
    return get_origin(cls) or cls
