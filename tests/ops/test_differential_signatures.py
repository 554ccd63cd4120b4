"""Every documented name of the anchor's container has its place here, with the same parameter names.

The names are those of the capabilities that this library has so far; `DIFFERENT` lists what differs on purpose.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import tensordict

import tensorclass

NAMES = {
    "Construction and dict access": """
        __init__ __contains__ __delitem__ __iter__ __len__ __setattr__ __copy__ __deepcopy__ get set setdefault pop
        popitem del_ clear keys values items empty is_empty update replace copy clone create_nested batch_size
        batch_dims shape size dim ndim ndimension numel auto_batch_size_ fromkeys entry_class get_item_shape
        __class_getitem__ __bool__ sorted_keys new_tensor new_empty new_full new_ones new_zeros depth bytes
        param_count data_ptr __reversed__ __getitems__ __getstate__ __setstate__ __torch_function__
    """,
    "Nested keys and key transforms": """
        select exclude rename_key_ rename_keys flatten_keys unflatten_keys split_keys separates filter_empty_
        filter_non_tensor_data
    """,
    "Indexing, masking, gather": """
        __getitem__ __setitem__ get_at gather masked_select masked_fill masked_fill_ where
    """,
    "In-place writes and preallocation": """
        set_ set_at_ update_ update_at_ copy_ copy_at_ fill_ zero_ from_schema
    """,
    "Shape operations on batch dims": """
        view reshape expand expand_as broadcast_to squeeze unsqueeze permute transpose swapaxes swapdims movedim
        moveaxis flatten unflatten repeat repeat_interleave tile flip fliplr flipud roll rot90 narrow contiguous
        is_contiguous atleast_1d atleast_2d atleast_3d
    """,
    "Split, unbind, stack, cat": """
        split tensor_split chunk unbind stack cat stack_from_tensordict cat_from_tensordict stack_tensors
        cat_tensors maybe_dense_stack
    """,
    "Pointwise and arithmetic operators": """
        __abs__ __add__ __and__ __eq__ __iadd__ __imul__ __invert__ __ipow__ __isub__ __itruediv__ __mod__ __mul__
        __ne__ __neg__ __or__ __pow__ __radd__ __rand__ __rmul__ __ror__ __rpow__ __rsub__ __rtruediv__ __rxor__
        __sub__ __truediv__ __xor__ abs abs_ acos acos_ add add_ addcdiv addcdiv_ addcmul addcmul_ asin asin_ atan
        atan_ bitwise_and ceil ceil_ clamp clamp_max clamp_max_ clamp_min clamp_min_ cos cos_ cosh cosh_ div div_
        erf erf_ erfc erfc_ exp exp_ expm1 expm1_ floor floor_ frac frac_ isfinite isnan isneginf isposinf isreal
        lerp lerp_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ logical_and maximum maximum_ minimum
        minimum_ mod mul mul_ neg neg_ pow pow_ reciprocal reciprocal_ round round_ rsub sigmoid sigmoid_ sign sign_
        sin sin_ sinh sinh_ sqrt sqrt_ sub sub_ tan tan_ tanh tanh_ trunc trunc_
    """,
    "apply, named_apply, pytree": """
        apply apply_ named_apply from_pytree to_pytree
    """,
    "Device and dtype": """
        to cuda cpu device pin_memory pin_memory_ auto_device_ clear_device_ record_stream is_cuda is_cpu is_meta
        dtype type attrs float double half int bool bfloat16 float16 float32 float64 int8 int16 int32 int64 uint8
        uint16 uint32 uint64 complex32 complex64 complex128 qint8 qint32 quint8 quint4x2 is_floating_point as_tensor
    """,
    "Locking and caching": """
        lock_ unlock_ is_locked __enter__ __exit__ clear_refs_for_compile_
    """,
}
ALL = [name for names in NAMES.values() for name in names.split()]
ABSENT: dict[str, str] = {}
IN_PLACE_DEFAULT = "the in-place twin has the parameters of the operation"
SPELLED_OUT = "parameters are spelled out instead of *args and **kwargs"
DIFFERENT: dict[str, tuple[list[str], str]] = {
    "get": (["key", "default", "options"], SPELLED_OUT),
    "maybe_dense_stack": (["input", "dim", "out", "strict"], SPELLED_OUT),
    "get_at": (["key", "index", "default"], SPELLED_OUT),
    "permute": (["order", "dims"], SPELLED_OUT),
    "reshape": (["shape", "size", "inplace"], SPELLED_OUT),
    "expand": (["shape"], SPELLED_OUT),
    "squeeze": (["dim"], SPELLED_OUT),
    "unsqueeze": (["dim"], SPELLED_OUT),
    "to": (
        [
            "args",
            "device",
            "dtype",
            "non_blocking",
            "batch_size",
            "other",
            "memory_format",
            "cast_filter",
            "non_blocking_pin",
            "num_threads",
            "inplace",
        ],
        SPELLED_OUT,
    ),
    "__exit__": (["exc"], "nothing is done with the exception"),
    "mod": (["other", "default"], "a default as for every operation of two containers"),
    "add_": (["other", "alpha", "default"], IN_PLACE_DEFAULT),
    "sub_": (["other", "alpha", "default"], IN_PLACE_DEFAULT),
    **{
        name: (["other", "default"], IN_PLACE_DEFAULT)
        for name in ("clamp_max_", "clamp_min_", "div_", "maximum_", "minimum_", "mul_", "pow_")
    },
}


def parameters(function: Any) -> list[str] | None:
    """The names of a function's parameters without the receiver; None for what is no function."""
    if not callable(function):
        return None
    try:
        names = list(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return None
    return [name for name in names if name not in ("self", "cls")]


def test_number_of_names():
    """The list is complete: a name lost from it would be lost from the library unseen."""
    assert len(ALL) == len(set(ALL)) == 292


@pytest.mark.parametrize("name", ALL)
def test_name(name: str):
    """The name exists, is a property where the anchor's is one, and takes the same parameters."""
    if name in ABSENT:
        assert not hasattr(tensorclass.TensorDict, name)
        return
    ours = inspect.getattr_static(tensorclass.TensorDict, name)
    theirs = inspect.getattr_static(tensordict.TensorDict, name)
    assert isinstance(ours, property) == isinstance(theirs, property)
    mine, wanted = (parameters(getattr(cls, name)) for cls in (tensorclass.TensorDict, tensordict.TensorDict))
    if name in DIFFERENT:
        assert mine == DIFFERENT[name][0]
        assert mine != wanted, "no difference any more"
    elif wanted is not None:
        assert mine == wanted


def test_parameters_of_properties():
    """The helper does not take a property for a function without parameters."""
    assert parameters(tensorclass.TensorDict.batch_size) is None
