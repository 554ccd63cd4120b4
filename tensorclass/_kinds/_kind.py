"""What a kind of field is: a word, and the answers to the questions that other rooms ask about a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")
KINDS: dict[str, Kind] = {}
"""Every kind by its word."""


class Kind(str):
    """The kind of a field. It is the word that `FieldSpec.kind` shows; its attributes say what fields of it hold.

    Rooms ask these attributes and compare no words. What a room does for each kind is one table of `per_kind`.
    """

    __slots__ = ()

    is_batched: ClassVar[bool] = False
    """One tensor, which begins with the batch dims."""
    is_shared: ClassVar[bool] = False
    """One tensor for the whole batch, without batch dims."""
    is_dense: ClassVar[bool] = False
    """One tensor, with batch dims or without."""
    is_ragged: ClassVar[bool] = False
    """A tensor for each element, of its own length."""
    has_dtype: ClassVar[bool] = False
    """Tensors, so the declaration has a dtype and dims."""
    is_nested: ClassVar[bool] = False
    """An instance of a typed class."""
    is_collection: ClassVar[bool] = False
    """An untyped container."""
    holds_container: ClassVar[bool] = False
    """A container, typed or not."""
    is_value: ClassVar[bool] = False
    """One Python object for the whole batch."""
    is_per_element: ClassVar[bool] = False
    """A Python object for each element."""
    holds_objects: ClassVar[bool] = False
    """Python objects, which pydantic checks."""
    is_open: ClassVar[bool] = False
    """Anything, or any object with certain members."""
    is_listed: ClassVar[bool] = False
    """Given as nested lists, one entry for each element of the batch."""
    is_one_for_all: ClassVar[bool] = False
    """The elements of the batch share what the field holds."""
    takes_none: ClassVar[bool] = False
    """None may be a value of the type, and need not mean that the field is absent."""
    default_join: ClassVar[str] = "stack"
    """The join policy of a field that doesn't set one."""
    written: ClassVar[str] = "{}"
    """The annotation around the type inside."""

    def __new__(cls, word: str) -> Kind:
        """The kind of this word, which exists once."""
        if word not in KINDS:
            KINDS[word] = super().__new__(cls, word)
        return KINDS[word]

    def __reduce__(self) -> tuple[Any, ...]:
        return Kind, (str(self),)


PENDING, INIT_VAR, UNREAD = Kind("pending"), Kind("init_var"), Kind("other")
"""No fields of a schema: an undefined name in the annotation, an argument, an annotation that a checker can't read."""


def kind_of_mark(name: str) -> Kind | None:
    """The kind that a mark around a type makes, as `Shared` in `Shared[Tensor]`; None for anything else."""
    return next((kind for kind in KINDS.values() if kind.written == f"{name}[{{}}]"), None)


def per_kind(
    *, tensor: T, shared: T, ragged: T, nested: T, collection: T, value: T, per_element: T, any: T
) -> Mapping[Kind, T]:
    """What a room does for fields of each kind; type checkers and the import report a kind that a table lacks."""
    return {Kind(word): adapter for word, adapter in locals().items()}
