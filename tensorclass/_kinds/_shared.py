"""Fields that hold one tensor for the whole batch: `Shared[Float32[Tensor, "3"]]`."""

from ._kind import Kind


class SharedKind(Kind):
    """One tensor for the whole batch, without batch dims."""

    __slots__ = ()
    is_shared = is_dense = has_dtype = is_one_for_all = True
    default_join = "same"
    written = "Shared[{}]"


SHARED = SharedKind("shared")
