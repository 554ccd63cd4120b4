"""Whether two containers are the same in every respect that a file keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Buffer, Parameter

from tensorclass import RaggedTensor, TensorCollection, TensorDictParams
from tensorclass.store import MetaData, NonTensorData, NonTensorStack, Unbatched


def raw(tensor: Tensor) -> bytes:
    """The bytes of a tensor, in order."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().as_subclass(Tensor)
    if not plain.numel():
        return b""
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().tobytes()  # a dim of one has any stride


def assert_same(found: Any, expected: Any, where: str = "root") -> None:
    """Both are the same: classes, keys in order, sizes, names, devices, locks, dtypes, bytes, gradients, objects."""
    assert type(found) is type(expected), f"{where}: {type(found)} is not {type(expected)}"
    if isinstance(expected, Tensor):
        _same_tensor(found, expected, where)
    elif isinstance(expected, TensorCollection):
        _same_container(found, expected, where)
    elif isinstance(expected, Unbatched):
        assert_same(found.tensor, expected.tensor, where)
    elif isinstance(expected, RaggedTensor):
        assert_same(found.lengths, expected.lengths, where)
        assert_same(found.values, expected.values, where)
    elif isinstance(expected, NonTensorStack):
        assert found.shape == expected.shape, where
        _same_objects(found.tolist(), expected.tolist(), where)
    elif isinstance(expected, (NonTensorData, MetaData)):
        _same_objects(found.data, expected.data, where)
    else:
        _same_objects(found, expected, where)


def _same_objects(found: Any, expected: Any, where: str) -> None:
    assert repr(found) == repr(expected), where


def _same_tensor(found: Tensor, expected: Tensor, where: str) -> None:
    assert found.dtype is expected.dtype, where
    assert found.requires_grad == expected.requires_grad, where
    assert isinstance(found, Parameter) == isinstance(expected, Parameter), where
    assert isinstance(found, Buffer) == isinstance(expected, Buffer), where
    assert found.layout is expected.layout, where
    if expected.is_nested:
        for i, (one, other) in enumerate(zip(found.unbind(), expected.unbind(), strict=True)):
            assert_same(one.detach(), other.detach(), f"{where}[{i}]")
        return
    assert found.shape == expected.shape, where
    assert raw(found) == raw(expected), where


def _same_container(found: Any, expected: Any, where: str) -> None:
    assert found.batch_size == expected.batch_size, where
    assert found.names == expected.names, where
    assert found.device == expected.device, where
    assert found.is_locked == expected.is_locked, where
    assert found._stacked == expected._stacked, where
    if isinstance(expected, TensorDictParams):
        assert found.no_convert == expected.no_convert, where
    if expected._stacked:
        one, other = getattr(found, "_store", found), getattr(expected, "_store", expected)
        assert one.stack_dim == other.stack_dim, where
        assert len(one._members) == len(other._members), where
        for i, (a, b) in enumerate(zip(one._members, other._members, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
        return
    mine, theirs = found._entries(), expected._entries()
    assert list(mine) == list(theirs), where
    for key, value in theirs.items():
        assert_same(mine[key], value, f"{where}.{key}")
