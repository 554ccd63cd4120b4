"""Fields that hold an untyped container: `extra: TensorDict`."""

from ._kind import Kind


class CollectionKind(Kind):
    """An untyped container, with the same batch dims."""

    __slots__ = ()
    is_collection = holds_container = True


COLLECTION = CollectionKind("collection")
