"""Fields that hold a Python object for each element: `caption: PerElement[str]`."""

from ._kind import Kind


class PerElementKind(Kind):
    """A Python object for each element."""

    __slots__ = ()
    is_per_element = holds_objects = is_listed = True
    written = "PerElement[{}]"


PER_ELEMENT = PerElementKind("per_element")
