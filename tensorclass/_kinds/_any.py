"""Fields that hold anything, or an object with the members of a Protocol: `extra: Any`."""

from ._kind import Kind


class AnyKind(Kind):
    """Anything, or any object that an interface describes."""

    __slots__ = ()
    is_open = takes_none = True


ANY = AnyKind("any")
