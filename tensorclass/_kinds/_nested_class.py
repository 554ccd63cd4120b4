"""Fields that hold an instance of a typed class: `box: Box`."""

from ._kind import Kind


class NestedKind(Kind):
    """An instance of a typed class, with the same batch dims."""

    __slots__ = ()
    is_nested = holds_container = True


NESTED = NestedKind("nested")
