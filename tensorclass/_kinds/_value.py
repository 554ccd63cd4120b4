"""Fields that hold one Python object for the whole batch: `split: str`."""

from ._kind import Kind


class ValueKind(Kind):
    """One Python object for the whole batch."""

    __slots__ = ()
    is_value = holds_objects = is_one_for_all = takes_none = True
    default_join = "same"


VALUE = ValueKind("value")
