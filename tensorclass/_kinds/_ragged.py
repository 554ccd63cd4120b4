"""Fields that hold a tensor of its own length for each element: `Ragged[Tensor, "t d"]`."""

from ._kind import Kind


class RaggedKind(Kind):
    """A tensor for each element; the first event dim differs."""

    __slots__ = ()
    is_ragged = has_dtype = is_listed = True
    default_join = "ragged"
    written = "Ragged[{}]"


RAGGED = RaggedKind("ragged")
