"""Fields that hold one tensor, which begins with the batch dims: `Float32[Tensor, "3"]`."""

from ._kind import Kind


class TensorKind(Kind):
    """One tensor, which begins with the batch dims."""

    __slots__ = ()
    is_batched = is_dense = has_dtype = True


TENSOR = TensorKind("tensor")
