"""Typed classes for pydantic and JSON: a schema for validation and dumps, a JSON Schema, `to_json` and `from_json`."""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike
from typing import Any, ClassVar, Literal, overload

from typing_extensions import Self

from .._budget import Budget, budget
from .._content import read_content, write_content
from .._deferred import pydantic, pydantic_core
from .._flags import answers
from .._places import is_url
from .._schema import FieldSpec, Schema
from .._schema._json_keys import unique
from .._schema._json_schema import JsonObject
from .._schema._spec import short
from ..core import TensorCollection
from ..errors import ArgumentError, Problem, SchemaError
from ..store._bridges import tables
from . import _json
from ._build import complete

Mode = Literal["base64", "lists", "records"]
Js = Callable[[Any, Any], dict[str, Any]]


class _Serializer:
    """The serializer for instances in fields of type `Any` and in pydantic's `to_json`."""

    def __get__(self, batch: Any, cls: Any) -> Any:
        """The serializer of the class of an instance, made at the first read; pydantic asks for it on the class too."""
        if batch is None:
            raise AttributeError("__pydantic_serializer__")
        if "__tensorclass_serializer__" not in vars(cls):
            cls.__tensorclass_serializer__ = pydantic.TypeAdapter(cls).serializer
        return cls.__tensorclass_serializer__


@answers
class JsonMethods:
    """Methods of typed classes for pydantic and JSON."""

    __slots__ = ()
    __pydantic_serializer__: ClassVar[Any] = _Serializer()

    @overload
    def to_json(
        self, path: None = None, *, mode: Mode | None = None, separator: str | None = None, lines: bool = False
    ) -> str: ...
    @overload
    def to_json(
        self, path: str | PathLike[str], *, mode: Mode | None = None, separator: str | None = None, lines: bool = False
    ) -> None: ...
    def to_json(
        self,
        path: str | PathLike[str] | None = None,
        *,
        mode: Mode | None = None,
        separator: str | None = None,
        lines: bool = False,
    ) -> str | None:
        """Convert the batch to JSON text, or write it to a file.

        Args:
            path: the file or URL, which is written as a whole or not at all; without it, the text is returned.
            mode: "base64" writes one object with the bytes, dtype and shape of each tensor; "lists" the same with
                nested lists; "records" a list with one object for each element, like rows of a table. The default is
                "base64", and "records" for a file.
            separator: the string that joins the names of nested fields in records; without it, objects are nested.
            lines: one record a line.

        Raises:
            SchemaError: for values that JSON can't hold.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Point(TensorClass):
        ...     x: Float32[Tensor, "2"]
        >>> Point(x=torch.zeros(1, 2)).to_json(mode="lists")
        '{"x":[[0.0,0.0]],"batch_size":[1]}'
        >>> Point.from_json(Point(x=torch.ones(3, 2)).to_json()).batch_size
        torch.Size([3])
        """
        mode = mode or ("base64" if path is None else "records")
        if mode not in ("base64", "lists", "records"):
            raise ArgumentError(f'mode is "base64", "lists" or "records", got {mode!r:.200}')
        rows = tables().records_of(self, separator) if mode == "records" else [_json.dump(self, mode == "lists")]
        if mode == "records" and not lines:
            text = pydantic_core.to_json(rows).decode()
        else:
            text = "\n".join(pydantic_core.to_json(row).decode() for row in rows)
        if path is None:
            return text
        (tables().write_text if isinstance(path, str) and is_url(path) else write_content)(path, text)
        return None

    @classmethod
    def from_json(
        cls,
        source: str | bytes | bytearray | PathLike[str] | None = None,
        *,
        path: str | PathLike[str] | None = None,
        separator: str | None = None,
        lines: bool = False,
        max_bytes: int | None = None,
    ) -> Self:
        """Make an instance from JSON: the output of `to_json` in any mode, lists without a batch size, or records.

        Args:
            source: the text, or a `Path` to a file. A string is always text, never the name of a file.
            path: the file, instead of `source`.
            separator: the string that joins the names of nested fields in records.
            lines: one record a line.
            max_bytes: the largest file that is read, and the most memory that its values may take; by default 1 GiB,
                and 128 times the size of the text, at least 128 MiB. Text is taken at any size.

        Raises:
            SchemaError: for text that is not JSON or doesn't fit the declaration.
            MemoryBudgetError: for input beyond `max_bytes`; it is a `ValueError`.
            OSError: for a file that can't be read, or is not a regular file; nothing is read from it.

        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32
        >>> class Point(TensorClass):
        ...     x: Float32[Tensor, "2"]
        >>> Point.from_json('{"x": [[1, 2], [3, 4]]}').x
        tensor([[1., 2.],
                [3., 4.]])
        """
        _finish(cls)
        text = _text(source, path, max_bytes)
        with budget(max_bytes, len(text), path):
            given = _parse_lines(cls, text, lines, isinstance(source, str))
            is_list = isinstance(given, list)
            new: Self = tables().batch_of_records(given, cls, separator) if is_list else _json.load(cls, given)
        return new

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: pydantic.GetCoreSchemaHandler
    ) -> pydantic_core.CoreSchema:
        """Support validation, dumps and JSON Schema in pydantic models, `TypeAdapter` and other uses of pydantic."""
        owner: Any = cls
        if "__tensorclass_root__" in vars(cls):  # a base class: accept any instance
            return pydantic_core.core_schema.is_instance_schema(cls)
        _finish(cls)

        def validate(value: Any, info: pydantic.ValidationInfo) -> Any:
            return _validate(owner, value, info)

        validate.__name__ = cls.__name__  # shown in the titles of errors
        return pydantic_core.core_schema.with_info_plain_validator_function(
            validate,
            serialization=pydantic_core.core_schema.plain_serializer_function_ser_schema(_serialize, info_arg=True),
            metadata={
                "pydantic_js_annotation_functions": [lambda _, handler: _inner(_placeholder_schema(owner, ()), handler)]
            },
        )


def _finish(cls: Any) -> None:
    if "__tensorclass_root__" in vars(cls):
        raise ArgumentError(f"{cls.__name__} declares no fields; read the JSON with a class that does")
    complete(cls)


def _parse_lines(cls: Any, text: bytes, lines: bool, is_text: bool) -> Any:
    """The values of a JSON text, or a list with those of each line."""
    try:
        return [unique(line) for line in text.splitlines() if line.strip()] if lines else unique(text)
    except ValueError as error:
        named = is_text and text.lstrip()[:1] not in (b"{", b"[")
        hint = f"{error}; a string is the text itself, a file is given as `path=`" if named else str(error)
        problem = Problem(cls.__name__, "JSON", short(bytes(text[:40])), hint)
        raise SchemaError.of(cls.__name__, [problem]) from None


def _text(source: Any, path: Any, max_bytes: int | None) -> bytes:
    """The bytes of a text or a file."""
    if (source is None) == (path is None):
        raise ArgumentError("from_json takes the text, or the file as `path=`: one of the two")
    if path is not None or isinstance(source, PathLike):
        Budget(max_bytes)  # refuses anything but a limit
        far = isinstance(path, str) and is_url(path)
        read = tables().read_text if far else read_content
        content: bytes = read(source if path is None else path, max_bytes)
        return content
    if not isinstance(source, str | bytes | bytearray | memoryview):
        raise ArgumentError(f"from_json takes text, bytes or a Path, got a {type(source).__name__}")
    return source.encode(errors="surrogatepass") if isinstance(source, str) else bytes(source)


# ---- validation and dumps ----------------------------------------------------------------------------------------


def _validate(cls: Any, value: Any, info: pydantic.ValidationInfo) -> Any:
    """An instance, for pydantic; all problems become one error of pydantic."""
    if isinstance(value, cls):
        return value
    try:
        if isinstance(value, TensorCollection):
            return cls.from_tensordict(value)
        return _json.load(cls, value, info.mode == "json")
    except SchemaError as error:
        details = [_detail(cls, problem, value) for problem in error.problems[:_TOLD]]
        if error.problems[_TOLD:]:
            more = pydantic_core.PydanticCustomError(
                "more_problems", "{count} more problems", {"count": len(error.problems) - _TOLD}
            )
            details.append(pydantic_core.InitErrorDetails(type=more, loc=(), input=cls.__name__))
        raise pydantic.ValidationError.from_exception_data(cls.__name__, details) from None


def _detail(cls: Any, problem: Problem, value: Any) -> pydantic_core.InitErrorDetails:
    """A problem in the form of pydantic: where it is, and the value there."""
    parts = [] if problem.path == cls.__name__ or problem.path.endswith("()") else _PART.findall(problem.path)
    where = tuple(int(part[1:]) if part[0] == "[" else part for part in parts)
    for part in where:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
    if problem.given == "nothing":
        return {"type": "missing", "loc": where, "input": value}
    context = {"declared": problem.declared, "given": problem.given, "hint": problem.hint}
    kind = pydantic_core.PydanticCustomError("tensorclass", "{hint} (declared {declared}, given {given})", context)
    return {"type": kind, "loc": where, "input": value}


_PART = re.compile(r"[^.\[\]]+|\[\d+(?=\])")
_TOLD = 100
"""The most problems of one input that become errors of pydantic, since input is not trusted."""


def _serialize(batch: Any, info: pydantic.SerializationInfo) -> dict[str, Any]:
    """Plain data: JSON types in JSON mode, with lists if the context is `{"tensors": "lists"}`; else the values."""
    context = info.context
    lists = isinstance(context, dict) and context.get("tensors") == "lists"
    found = _json.dump(batch, lists) if info.mode_is_json() else _plain(batch)
    if info.include is None and info.exclude is None and not info.exclude_none:
        return found
    return _choose_fields(type(batch), found, info.include, info.exclude, info.exclude_none)


def _choose_fields(cls: Any, found: dict[str, Any], include: Any, exclude: Any, without_none: bool) -> dict[str, Any]:
    """Apply the options of a dump, in nested classes too. The batch size stays, so that the dump can be read."""
    fields, kept = cls.__tensorclass_schema__.fields, {}
    for key, value in found.items():
        left_out = include is not None and key not in include and key != "batch_size"
        if left_out or _is_whole(exclude, key) or (without_none and value is None):
            continue
        nested = fields[key].nested if key in fields and isinstance(value, dict) else None
        if nested is not None:
            part = None if _is_whole(include, key) else _part(include, key)
            value = _choose_fields(nested, value, part, _part(exclude, key), without_none)
        kept[key] = value
    return kept


def _is_whole(chosen: Any, key: str) -> bool:
    """Whether an option selects a whole field, not parts of it."""
    return chosen is not None and key in chosen and (not isinstance(chosen, dict) or chosen[key] in (True, ...))


def _part(chosen: Any, key: str) -> Any:
    return chosen.get(key) if isinstance(chosen, dict) else None


def _plain(batch: Any) -> dict[str, Any]:
    """Field values by name, nested classes as dicts, with the batch size: the form that validation accepts."""
    found = {}
    for name in batch._fields_and_gaps():
        value = batch.get(name, None)
        found[name] = _plain(value) if hasattr(value, "__tensorclass_schema__") else value
    return {**found, "batch_size": list(batch.batch_size)}


# ---- JSON Schema -------------------------------------------------------------------------------------------------


def _inner(core: Any, handler: Any) -> dict[str, Any]:
    """The JSON Schema for an inner schema: a reference to a definition, if there is one."""
    return dict(handler(pydantic_core.core_schema.list_schema(core))["items"])


def _placeholder_schema(cls: Any, above: tuple[Any, ...]) -> Any:
    """A placeholder schema for a class, so that pydantic writes its description once, among the definitions."""
    ref = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
    if cls in above:
        return pydantic_core.core_schema.definition_reference_schema(ref)
    return pydantic_core.core_schema.any_schema(
        ref=ref, metadata={"pydantic_js_functions": [_describe(cls, (*above, cls))]}
    )


def _describe(cls: Any, above: tuple[Any, ...]) -> Js:
    """The function with which pydantic makes the JSON Schema of a class."""

    def describe(_: Any, handler: Any) -> dict[str, Any]:
        def nested(spec: FieldSpec) -> dict[str, Any]:
            return _inner(_placeholder_schema(spec.nested, above), handler)

        def value(spec: FieldSpec) -> dict[str, Any]:
            try:
                return _inner(spec.adapter.core_schema, handler)
            except (pydantic.PydanticInvalidForJsonSchema, pydantic.PydanticUserError):
                return {"title": spec.type_text}

        schema: Schema = cls.__tensorclass_schema__
        found = JsonObject(nested, value).of(schema)
        doc = vars(cls).get("__doc__")
        return {**found, "description": doc} if doc else found

    return describe
