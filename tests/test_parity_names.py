"""Every name of the containers' capabilities stands on every kind of container, takes the same calls, or has a reason.

The names that `TensorDict` has by its first capabilities, with their parameters by name, are in
tests/ops/test_differential_signatures.py; here are the other capabilities, the other containers, the functions, and
how parameters may be given.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import tensordict
from torch import Tensor

import tensorclass
from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, TypedTensorDict
from tests.ops.test_differential_signatures import NAMES as EARLIER

LATER = {
    "Lazy stacks": "lazy_stack to_lazystack densify to_padded_tensor",
    "Reductions": """
        sum prod mean std var min max amin amax cummin cummax all any nansum nanmean logsumexp softmax norm quantile
    """,
    "Autograd": "grad data detach detach_ requires_grad requires_grad_ zero_grad backward",
    "Consolidate and pack": "consolidate from_consolidated is_consolidated pack",
    "Memory-mapped storage": """
        memmap memmap_ memmap_like load_memmap load_memmap_ load_ load save dumps is_memmap saved_path memmap_refresh_
    """,
    "Conversions": """
        from_any from_dict from_dict_instance from_dataclass from_namedtuple from_tuple from_list from_struct_array
        to_dict to_namedtuple to_struct_array to_tensordict tolist numpy state_dict load_state_dict
    """,
    "Named dims": "names refine_names rename rename_",
    "Non-tensor data": "set_non_tensor get_non_tensor is_non_tensor non_tensor_items",
    "Repr": "__repr__",
    "Shared memory, multiprocessing, map": "share_memory_ is_shared map map_iter",
    "Distributed": """
        send recv isend irecv asend arecv broadcast scatter all_gather all_reduce reduce gather_and_stack init_remote
        from_remote_init
    """,
    "Helpers": "pad",
}
METHODS = [name for names in (*EARLIER.values(), *LATER.values()) for name in names.split()]
FUNCTIONS = """
    TensorDict TensorDictBase TensorCollection make_tensordict fromkeys is_tensor_collection get_defaults_to_none
    set_get_defaults_to_none default_is_leaf is_leaf_nontensor NestedKey KEY_SEPARATOR unravel_key unravel_key_list
    unravel_key_to_tuple unravel_keys merge_tensordicts stack cat maybe_dense_stack dense_stack_tds collate group_by
    LazyStackedTensorDict lazy_stack lazy_legacy set_lazy_legacy from_pytree TensorAttrs is_bool is_floating
    is_inexact is_integer from_consolidated PackLayout from_any from_dict from_dataclass from_namedtuple from_tuple
    from_struct_array NonTensorData NonTensorDataBase NonTensorStack MetaData is_non_tensor capture_non_tensor_stack
    set_capture_non_tensor_stack list_to_stack set_list_to_stack UnbatchedTensor tensorclass TensorClass
    is_tensorclass TypedTensorDict set_printoptions get_printoptions parse_tensor_dict_string print_directory_tree
    pad pad_sequence unpad_sequence assert_close assert_allclose_td isin remove_duplicates expand_right
    expand_as_right timeit logger LinkedList DeviceType IndexType MemoryMappedTensor memmap load_memmap load save
    TensorDictFuture
"""
MEMBERS = {
    "LazyStackedTensorDict": "append extend get_nestedtensor hook_in hook_out insert valid_keys",
    "NonTensorData": """
        __call__ __dataclass_fields__ __dataclass_params__ __expected_keys__ __getattr__ __post_init__ __replace__
        __tensorclass_init_var_defaults__ __tensorclass_kw_only__ extend fields from_tensordict maybe_to_stack
    """,
    "NonTensorStack": """
        append extend from_nontensordata get_nestedtensor hook_in hook_out insert maybe_to_stack valid_keys
    """,
    "MetaData": """
        __call__ __dataclass_fields__ __dataclass_params__ __expected_keys__ __getattr__ __post_init__ __replace__
        __tensorclass_init_var_defaults__ __tensorclass_kw_only__ extend fields from_tensordict maybe_to_stack
    """,
    "TensorClass": "__getattr__ from_tensordict",
    "TypedTensorDict": """
        __expected_keys__ __field_defaults__ __getattr__ __optional_keys__ __required_keys__ from_tensordict
    """,
    "UnbatchedTensor": """
        __array__ __bool__ __ceil__ __complex__ __float__ __floor__ __index__ __int__ __repr__ __round__
        __torch_function__ __trunc__ batch_size copy item numpy tolist
    """,
}
ENTRY_SHAPES = """
    batch_size batch_dims shape size dim ndim numel view reshape expand expand_as broadcast_to squeeze unsqueeze
    permute transpose swapaxes swapdims movedim moveaxis flatten unflatten repeat repeat_interleave tile flip fliplr
    flipud roll rot90 narrow contiguous split tensor_split chunk unbind gather masked_select clone device tolist
    __getitem__ __len__ __iter__ __eq__ __ne__ __torch_function__ maybe_to_stack __repr__
"""

OBJECT = "an object is an entry and no container: it has no keys, fields or leaves"
TORCH = "torch gives tensors no such method; the anchor's copy of the class does"
ABSENT = {
    "NonTensorData": OBJECT,
    "MetaData": OBJECT,
    "NonTensorStack": OBJECT,
    "__getattr__ of TypedTensorDict": "fields are properties, and any other name is an AttributeError by itself",
    "__ceil__": TORCH, "__floor__": TORCH, "__round__": TORCH, "__trunc__": TORCH,
}  # fmt: skip
OF_STORES = {"__getstate__", "__setstate__", "__iter__"}
"""What typed classes leave to `__reduce__`, and to `__getitem__`."""
OBJECT_MEMBERS = {
    "NonTensorData": {"__call__", "maybe_to_stack"},
    "MetaData": {"__call__", "maybe_to_stack"},
    "NonTensorStack": {"append", "extend", "from_nontensordata", "insert", "maybe_to_stack"},
}
"""What entries of objects have of their classes' members."""


class Point(TensorClass):
    x: Tensor


class Typed(TypedTensorDict):
    x: Tensor


CONTAINERS: list[Any] = [TensorDict, Point, LazyStackedTensorDict, Typed]


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda cls: cls.__mro__[1].__name__ + "." + cls.__name__)
def test_methods(container):
    """Every container has every method; what one is a property of is a property of all."""
    missing = [name for name in METHODS if name not in ABSENT and not hasattr(container, name)]
    assert set(missing) <= (OF_STORES if container is Point else set())
    for name in METHODS:
        if name in ABSENT or (container is Point and name in ("batch_size", "device", "names", *OF_STORES)):
            continue
        theirs = isinstance(inspect.getattr_static(tensordict.TensorDict, name), property)
        assert isinstance(inspect.getattr_static(container, name), property) == theirs, name


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions(name):
    """Every function and class of the capabilities is public, under the anchor's name."""
    assert getattr(tensorclass, name) is not None


@pytest.mark.parametrize("owner", MEMBERS)
def test_members(owner):
    """Members of particular classes; entries of objects have those that make sense without keys."""
    ours, theirs = getattr(tensorclass, owner), getattr(tensordict, owner)
    for name in MEMBERS[owner].split():
        assert hasattr(theirs, name) or name in ("__getattr__", *ABSENT), name
        left_out = ABSENT.get(name) or ABSENT.get(f"{name} of {owner}")
        if owner in ABSENT and name not in OBJECT_MEMBERS[owner]:
            left_out = ABSENT[owner]
        if left_out is None and not hasattr(ours, name):
            raise AssertionError(f"{owner}.{name} is missing")


@pytest.mark.parametrize("owner", ["NonTensorData", "MetaData", "NonTensorStack"])
def test_entries_of_objects(owner):
    """Entries of objects follow the batch: what a tensor of the batch shape can do, they can."""
    cls = getattr(tensorclass, owner)
    assert [name for name in ENTRY_SHAPES.split() if not hasattr(cls, name)] == []


# ---- how parameters are given ------------------------------------------------------------------------------------

KEYWORD = "given by keyword, as in every other operation"
DECIDED = {
    ("clamp_min", "default"): KEYWORD,
    ("sub_", "alpha"): KEYWORD,
    ("addcdiv", "value"): "None stands for 1",
    ("addcdiv_", "value"): "None stands for 1",
    ("addcmul", "value"): "None stands for 1",
    ("addcmul_", "value"): "None stands for 1",
    ("broadcast", "_tensorclass_type"): "its own",
    ("init_remote", "_tensorclass_type"): "its own",
    ("__exit__", "exc_type"): "nothing is done with the exception",
    ("__exit__", "exc_val"): "nothing is done with the exception",
    ("__exit__", "exc_tb"): "nothing is done with the exception",
}
MAKERS = ("maybe_dense_stack", "lazy_stack", "from_dict")
"""Class methods that are the same for every container here; the anchor's lazy stack names parameters its own way."""
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters without the receiver; none for what has no signature."""
    try:
        found = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return {}
    return {name: p for name, p in found.items() if name not in ("self", "cls")}


def is_unset(default: Any) -> bool:
    """Whether a default only says that nothing was given."""
    return default is None or "_NoDefault" in str(type(default)) or repr(default) == "<unset>"


def misfits(name: str, ours: Any, theirs: Any) -> list[str]:
    """Parameters of the anchor's function that ours does not take in the same way."""
    mine, found = parameters(ours), []
    spread = any(p.kind in VARIABLE for p in mine.values())
    for position, (key, wanted) in enumerate(parameters(theirs).items()):
        if wanted.kind in VARIABLE or (name, key) in DECIDED:
            continue
        if key not in mine:
            found += [] if spread else [f"{key}: absent"]
            continue
        given = mine[key]
        same = given.default == wanted.default or (is_unset(given.default) and is_unset(wanted.default))
        loose = is_unset(wanted.default) and wanted.default is not None  # the anchor decides inside
        optional = wanted.default is inspect.Parameter.empty and given.default is not inspect.Parameter.empty
        if not (same or loose or optional):
            found.append(f"{key}: default {given.default!r}, the anchor's is {wanted.default!r}")
        if wanted.kind in POSITIONAL and (given.kind not in POSITIONAL or list(mine).index(key) != position):
            found.append(f"{key}: not at position {position}")
    known = parameters(theirs)
    extra = [p for key, p in mine.items() if key not in known and p.kind not in VARIABLE]
    takes_any = any(p.kind in VARIABLE for p in known.values())
    return found + [f"{p.name}: required" for p in extra if p.default is inspect.Parameter.empty and not takes_any]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ABSENT])
def test_calls(name):
    """Whatever the anchor's signature admits, ours does, for dense and lazy containers alike."""
    dense = misfits(name, getattr(TensorDict, name), getattr(tensordict.TensorDict, name))
    anchor = tensordict.TensorDict if name in MAKERS else tensordict.LazyStackedTensorDict
    lazy = misfits(name, getattr(LazyStackedTensorDict, name), getattr(anchor, name))
    assert (dense, lazy) == ([], [])


def test_no_stale_decisions():
    """Every decided difference is one."""
    kept = dict(DECIDED)
    DECIDED.clear()
    try:
        for name, key in kept:
            found = misfits(name, getattr(TensorDict, name), getattr(tensordict.TensorDict, name))
            assert any(line.startswith(f"{key}:") for line in found) or name == "__exit__", (name, key)
    finally:
        DECIDED.update(kept)


def test_misfits_are_found():
    """The comparison sees a missing parameter, another default, another position and a new required one."""

    def theirs(a: int, b: int = 1, *, c: int = 2) -> None: ...

    assert misfits("f", theirs, theirs) == []
    assert misfits("f", lambda a, b=1, *, c=2, d=3: None, theirs) == []
    assert misfits("f", lambda a, c=2: None, theirs) == ["b: absent"]
    assert misfits("f", lambda a, b=2, c=2: None, theirs) == ["b: default 2, the anchor's is 1"]
    assert misfits("f", lambda b=1, a=0, c=2: None, theirs) == ["a: not at position 0", "b: not at position 1"]
    assert misfits("f", lambda a, b=1, *, c=2, d: None, theirs) == ["d: required"]
