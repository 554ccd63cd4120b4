"""Conveniences of typed classes: allocation ahead of time, validation on request, spellings of other libraries.

A field may have the name of one of these methods, and then hides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import answers
from .._schema import Dim, FieldSpec, check_fields
from .._schema._domain import dtypes_of, first_name
from ..core import Device, TensorCollection, as_batch_size
from ..errors import ArgumentError, Problem, SchemaError
from ..ops._mapping import MappingOps
from ..store import RaggedTensor, TensorDict
from ..store._bridges import tables
from ..store.entries._rows import holds
from . import _algebra
from ._along import Along, along
from ._checks import _state, readable
from ._example import check_sizes
from ._validators import run_checks

T_co = TypeVar("T_co", covariant=True)
Make = Callable[..., Tensor]


class _Allocate(Protocol[T_co]):
    """The type of `Digits.empty` for checkers."""

    def __call__(
        self,
        batch_size: Sequence[int] | int = (),
        /,
        *,
        device: Device = None,
        fields: Mapping[str, Any] | None = None,
        **dims: int,
    ) -> T_co: ...


class _Empty:
    """`Digits.empty(...)` allocates, as `Digits.zeros(...)` does; `batch.empty()` is the method of all containers.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32
    >>> class Image(TensorClass):
    ...     pixels: Float32[Tensor, "h w"]
    >>> Image.empty(100, h=8, w=8).pixels.shape
    torch.Size([100, 8, 8])
    """

    @overload
    def __get__(self, instance: None, owner: type[T_co]) -> _Allocate[T_co]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., TensorDict]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        return partial(empty, owner) if instance is None else partial(MappingOps.empty, instance)  # traceable


@answers
class Conveniences:
    """Methods of typed classes that a field of the same name may hide."""

    __slots__ = ()
    empty: ClassVar[_Empty] = _Empty()

    @classmethod
    def zeros(
        cls,
        batch_size: Sequence[int] | int = (),
        /,
        *,
        device: Device = None,
        fields: Mapping[str, Any] | None = None,
        **dims: int,
    ) -> Self:
        """Allocate an instance filled with zeros, with the declared dtypes and shapes; also `ones`, `full` and `empty`.

        Optional fields are None, Python values have their defaults, ragged elements have no rows, nested classes are
        allocated in the same way. A dtype family gets its usual dtype. `empty` does not initialize memory, unless the
        class validates values: then it is zero.

        Args:
            batch_size: the leading dims that all fields share.
            device: the device of the tensors and of the instance.
            fields: values of some fields: required for Python values without a default, possible for all others.
            **dims: the sizes of named dims, including those of nested classes.

        Raises:
            SchemaError: for a dim without a size, and a value without a default; names the fields and the missing
                arguments.
            ArgumentError: for the size of a dim that no field has.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32, Int64
        >>> class Sample(TensorClass):
        ...     image: Float32[Tensor, "c h w"]
        ...     label: Int64[Tensor, ""]
        >>> buffer = Sample.zeros(100, c=3, h=8, w=8)
        >>> buffer[0] = Sample(image=torch.rand(3, 8, 8), label=torch.tensor(1))
        >>> buffer
        Sample(batch_size=[100], fields={image: f32[3,8,8], label: i64[]})
        """
        return _allocate(cls, "zeros", torch.zeros, batch_size, device, fields, dims)  # type: ignore[no-any-return]  # of this class

    @classmethod
    def ones(
        cls,
        batch_size: Sequence[int] | int = (),
        /,
        *,
        device: Device = None,
        fields: Mapping[str, Any] | None = None,
        **dims: int,
    ) -> Self:
        """Allocate an instance filled with ones; see `zeros`.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Step(TensorClass):
        ...     reward: Float32[Tensor, ""]
        >>> Step.ones(2).reward
        tensor([1., 1.])
        """
        return _allocate(cls, "ones", torch.ones, batch_size, device, fields, dims)  # type: ignore[no-any-return]  # of this class

    @classmethod
    def full(
        cls,
        batch_size: Sequence[int] | int,
        /,
        fill_value: complex,
        *,
        device: Device = None,
        fields: Mapping[str, Any] | None = None,
        **dims: int,
    ) -> Self:
        """Allocate an instance filled with a number; see `zeros`.

        Raises:
            SchemaError: for a field whose dtype can't hold the number; and the errors of `zeros`.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Int64
        >>> class Text(TensorClass):
        ...     tokens: Int64[Tensor, "t"]
        >>> Text.full(2, -1, t=3).tokens
        tensor([[-1, -1, -1],
                [-1, -1, -1]])
        """

        def make(shape: tuple[int, ...], dtype: torch.dtype, device: Device) -> Tensor:
            if not holds(dtype, fill_value):
                raise SchemaError(f"{dtype} can't hold {fill_value!r}")
            return torch.full(shape, fill_value, dtype=dtype, device=device)

        return _allocate(cls, "full", make, batch_size, device, fields, dims)  # type: ignore[no-any-return]  # of this class

    @classmethod
    def from_rows(cls, rows: Any, *, device: Device = None, nan_as_none: bool = False) -> Self:
        """A batch with an element for each row: the inverse of a loop over rows.

        Rows may be mappings, dataclasses, pydantic models, named tuples and instances without batch dims, also mixed
        and from a generator; or a table: a frame of pandas or polars, an Arrow table, a Hugging Face dataset, a
        structured array. Numbers are converted exactly as in `from_json`; tensors keep their dtype.

        Args:
            rows: the rows, or the table.
            device: the device of the batch.
            nan_as_none: read NaN in fields that admit None as None; pandas writes NaN for missing values.

        Raises:
            SchemaError: for values that don't fit; names the row and the field.

        >>> from torch import Tensor
        >>> from tensorclass import PerElement, TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Point(TensorClass):
        ...     x: Float32[Tensor, "2"]
        ...     name: PerElement[str]
        >>> points = Point.from_rows([{"x": [0, 0.5], "name": "a"}, {"x": [1, 2], "name": "b"}])
        >>> points.x.tolist(), points[1].name
        ([[0.0, 0.5], [1.0, 2.0]], 'b')
        """
        return tables().from_rows(cls, rows, device, nan_as_none)  # type: ignore[no-any-return]  # of this class

    def validate(self) -> Self:
        """Check every value against the declaration again, including constraints and validators; returns this batch.

        In-place writes to a tensor, and writes to a shared container, bypass the class. This method finds invalid ones.

        Raises:
            SchemaError: lists every field that doesn't fit; also for a class with `validate="off"`.

        >>> from typing import Annotated
        >>> from annotated_types import Ge
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Row(TensorClass):
        ...     price: Annotated[Float32[Tensor, ""], Ge(0)]
        >>> batch = Row(price=torch.ones(3)).validate()
        >>> _ = batch.price.neg_()
        >>> batch.validate()
        Traceback (most recent call last):
        tensorclass.errors.SchemaError: Row: 1 problem...
        """
        problems = list(_problems(self, ""))
        if problems:
            raise SchemaError.of(type(self).__name__, problems)
        return self

    def along(self, dim: str, /) -> Along[Self]:
        """The batch along a named event dim, such as time: `batch.along("t")[:48]`, `batch.along("t").split(12)`.

        Fields that declare the dim are indexed, and the others are kept. The result has the same class.

        Args:
            dim: the name of the dim; for a dim of a nested class with its path, such as `"past.t"`.

        Raises:
            ArgumentError: for a dim that no field declares; suggests the nearest one. Also for a field whose size
                follows from the dim, such as `"t+1"`.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32, Int64
        >>> class Series(TensorClass):
        ...     series: Float32[Tensor, "t 3"]
        ...     label: Int64[Tensor, ""]
        >>> series = Series(series=torch.zeros(2, 48, 3), label=torch.arange(2))
        >>> series.along("t")[-12:]
        Series(batch_size=[2], fields={series: f32[12,3], label: i64[]})
        >>> [len(part.along("t")) for part in series.along("t").split(20)]
        [20, 20, 8]
        """
        return along(self, dim)

    def omit(self, /, *fields: Any) -> Any:
        """Leave out some fields: an instance of a smaller class around the same tensors; see `pick`.

        Raises:
            UnknownFieldError: for a name that is not a field.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> class Digits(TensorClass):
        ...     image: Tensor
        ...     label: Tensor
        >>> Digits(image=torch.zeros(2, 8), label=torch.ones(2), batch_size=2).omit("label")
        Digits_image(batch_size=[2], fields={image: f32[8]})
        """
        cls: Any = type(self)
        return _algebra.view(self, _algebra.omit(cls, *fields))

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        include: Any = None,
        exclude: Any = None,
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """Dump the batch as pydantic does: field values by name, nested classes as dicts, and the batch size.

        Args:
            mode: "python" keeps tensors, "json" returns JSON types (`to_json` returns the text).
            include: the fields to keep, in the forms of pydantic.
            exclude: the fields to leave out.
            exclude_none: leave absent optional fields out.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> class Digits(TensorClass):
        ...     label: Tensor
        >>> Digits(label=torch.ones(2), batch_size=2).model_dump()
        {'label': tensor([1., 1.]), 'batch_size': [2]}
        """
        if mode not in ("python", "json"):
            raise ArgumentError(f'mode is "python" or "json", got {mode!r:.80}')
        batch: Any = self
        options: Any = {"include": include, "exclude": exclude, "exclude_none": exclude_none}
        return batch.__pydantic_serializer__.to_python(batch, mode=mode, **options)  # type: ignore[no-any-return]  # a dict


# ---- allocation -------------------------------------------------------------------------------------------------


def empty(
    cls: Any, batch_size: Any = (), /, *, device: Device = None, fields: Mapping[str, Any] | None = None, **dims: Any
) -> Any:
    """Implement `Digits.empty(...)`: an uninitialized instance; for a batch as argument, its method `empty`."""
    if isinstance(batch_size, TensorCollection):
        options: dict[str, Any] = {**dims, **({} if device is None else {"device": device})}
        return MappingOps.empty(batch_size, **options)  # type: ignore[arg-type]  # all containers have it
    return _allocate(cls, "empty", torch.empty, batch_size, device, fields, dims)


def _allocate(
    cls: Any, op: str, make: Make, batch_size: Any, device: Device, fields: Mapping[str, Any] | None, dims: Any
) -> Any:
    if "__tensorclass_schema__" not in vars(cls):
        raise ArgumentError(f"{cls.__name__} declares no fields; `{op}` is for classes that do")
    if not isinstance(fields or {}, Mapping) or not all(isinstance(name, str) for name in fields or {}):
        raise ArgumentError(f"{op}: `fields` is a dict from field names to values, got {fields!r:.80}")
    check_sizes(cls, op, dims)
    return _make_instance(cls, op, make, as_batch_size(batch_size), device, fields or {}, dims)


def _make_instance(
    cls: Any, op: str, make: Make, size: Any, device: Device, fields: Any, dims: Mapping[str, int], outer: str = ""
) -> Any:
    """Make an instance; `outer` is the field of the class given by the user that contains it."""
    values, problems = dict(fields), []
    looked_into = make is torch.empty and cls.__tensorclass__.checked
    for spec in cls.__tensorclass_schema__:
        made = spec.kind.has_dtype or spec.kind.holds_container or not spec.has_default
        if spec.name in fields or not (made and spec.init) or spec.optional:
            continue
        try:
            values[spec.name] = _value(spec, op, torch.zeros if looked_into else make, size, device, dims, outer)
        except SchemaError as error:
            way = f"`{op}(..., fields={{{(outer or spec.name)!r}: ...}})`"
            own = [Problem(spec.name, str(spec), str(error), f"give {' or '.join([*getattr(error, 'ways', ()), way])}")]
            inner = [problem._replace(path=f"{spec.name}.{problem.path}") for problem in error.problems]
            problems += inner or own
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    return cls(**values, batch_size=size, device=device)


def _value(spec: FieldSpec, op: str, make: Make, size: Any, device: Device, dims: Any, outer: str) -> Any:
    """The value of one field: tensors are made by `make`, nested instances in the same way."""
    if spec.kind.is_nested:
        return _make_instance(spec.nested, op, make, size, device, {}, dims, outer or spec.name)
    if spec.kind.is_collection:
        return TensorDict({}, batch_size=size, device=device)
    if spec.spec is None:
        raise SchemaError("no value")
    dtype = dtypes_of(spec)[0]
    event = event_shape(spec, dims)
    if spec.kind.is_ragged:
        length = dims.get(first_name(spec), 0)
        table = make((size.numel() * length, *event), dtype=dtype, device=device)
        return RaggedTensor(table, lengths=torch.full(size, length))
    return make((*(() if spec.kind.is_shared else size), *event), dtype=dtype, device=device)


class NoSize(SchemaError):
    """A shape whose dims have no size.

    Args:
        names: the dims.
        free: those that an argument can set.
    """

    def __init__(self, names: list[str], free: list[str]) -> None:
        super().__init__(f"no size for {', '.join(f'`{name}`' for name in names)}")
        self.ways = [f"`{', '.join(f'{name}=...' for name in free)}`"] if free else []


def event_shape(spec: FieldSpec, dims: Mapping[str, int]) -> list[int]:
    tokens = () if spec.dims is None else spec.dims.tokens[spec.kind.is_ragged :]
    if spec.dims is None and not spec.kind.is_ragged:
        raise SchemaError("no declared shape")
    open_ = [str(token) for token in tokens if not isinstance(token, Dim)]
    missing = [name for token in tokens if isinstance(token, Dim) for name in token.size.names if name not in dims]
    if open_ or missing:
        raise NoSize(list(dict.fromkeys(open_ or missing)), [] if open_ else list(dict.fromkeys(missing)))
    sizes = [token.size.evaluate(dims) for token in tokens if isinstance(token, Dim)]
    if any(size < 0 for size in sizes):
        raise SchemaError(f"the sizes {sizes}")
    return sizes


# ---- validation --------------------------------------------------------------------------------------------------


def _problems(batch: Any, prefix: str) -> Iterator[Problem]:
    """The problems of a batch, its nested classes and the members of lazy stacks."""
    if batch._store._stacked:
        for i, part in enumerate(batch._parts()):
            yield from _problems(part, f"{prefix}[{i}].")
        return
    cls, entries = type(batch), readable(batch._entries())
    try:
        options = replace(cls.__tensorclass_options__, validate="values", autocast=False, nocast=True)
        state = _state(cls.__tensorclass_schema__, entries)
        checked, _ = check_fields(cls.__tensorclass_schema__, state, batch_size=batch._batch_size, options=options)
    except SchemaError as error:
        yield from (problem._replace(path=prefix + problem.path) for problem in error.problems)
        return
    for name, value in entries.items():
        spec = cls.__tensorclass_schema__.fields[name]
        if isinstance(value, Tensor) and checked[name] is not value:  # a casting field would accept it
            yield Problem(prefix + name, str(spec), f"{value.dtype} {list(value.shape)}", "assign it: it is cast then")
        if hasattr(value, "__tensorclass_schema__"):
            yield from _problems(value, f"{prefix}{name}.")
    try:
        run_checks(batch, True)
    except SchemaError as error:
        yield from (problem._replace(path=prefix + problem.path) for problem in error.problems)
