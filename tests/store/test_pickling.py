"""Containers leave the process: pickle, deepcopy, queues between processes over torch's shared memory, DataLoader."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import MetaData, RaggedTensor, TensorDict, UnbatchedTensor, collate, equal, lazy_stack, tensorclass
from tests.contract._invariants import check
from tests.contract._kinds import mixed
from tests.contract._model import Model, assert_same
from tests.contract._typed_kinds import ALL_KINDS, Inner

KINDS = pytest.mark.parametrize("kind", ALL_KINDS)


@KINDS
@pytest.mark.parametrize("way", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_twin_in_every_respect(kind: str, way: Callable[[Any], Any]):
    """Entries, batch size, names, device and lock survive; no storage is shared."""
    container = ALL_KINDS[kind](mixed())
    twin = way(container)
    check(twin)
    assert_same(twin, Model.of(container))
    assert (type(twin), twin.names, twin.device) == (type(container), container.names, container.device)
    assert not {v.data_ptr() for v in container._leaves() if v.numel()} & {v.data_ptr() for v in twin._leaves()}


def test_pickling_keeps_the_lock():
    """A locked container is locked on the other side, also below."""
    twin = pickle.loads(pickle.dumps(ALL_KINDS["locked"](mixed())))
    assert twin.is_locked
    assert twin["n"].is_locked


def test_deepcopy_keeps_shared_entries_shared():
    """Two keys around one tensor stay so, as for a dict."""
    tensor = torch.zeros(2)
    twin = copy.deepcopy(TensorDict(a=tensor, b=tensor, batch_size=[2]))
    assert twin["a"] is twin["b"]
    assert twin["a"] is not tensor


def double(inbox: Any, outbox: Any) -> None:
    """What the other process does: write into what it got, and answer."""
    container = inbox.get()
    container.mul_(2)
    outbox.put(container.batch_size)
    inbox.get()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
def test_queues_share_memory(method: str, typed: bool):
    """Tensors travel as handles: what the other process writes is seen here."""
    context = mp.get_context(method)
    tensors = {"x": torch.ones(2, 4), "y": torch.ones(2)}
    container: Any = Inner(**tensors, batch_size=[2]) if typed else TensorDict(tensors, batch_size=[2])
    inbox, outbox = context.Queue(), context.Queue()
    worker = context.Process(target=double, args=(inbox, outbox))
    worker.start()
    inbox.put(container)
    assert outbox.get(timeout=120) == torch.Size([2])
    inbox.put(None)
    worker.join(120)
    assert worker.exitcode == 0
    assert container["x"].sum() == 16


def rows() -> TensorDict:
    """A data set of ten elements."""
    return TensorDict({"x": torch.arange(10.0), "n": {"y": torch.arange(20).reshape(10, 2)}}, batch_size=[10])


@pytest.mark.parametrize("given", [None, collate])
@pytest.mark.parametrize("as_list", [False, True])
def test_data_loader(given: Any, as_list: bool):
    """Batches are containers, gathered at once from a container, stacked from a list of elements."""
    data = rows()
    loader = DataLoader(list(data) if as_list else data, batch_size=4, collate_fn=given)
    batches = list(loader)
    assert [tuple(batch.batch_size) for batch in batches] == [(4,), (4,), (2,)]
    assert equal(torch.cat(batches), data)


def test_data_loader_shuffles_whole_elements():
    """Entries of one element stay together."""
    torch.manual_seed(0)
    batch = next(iter(DataLoader(rows(), batch_size=10, shuffle=True)))
    assert batch["x"].tolist() != rows()["x"].tolist()
    assert (batch["n", "y"][:, 0] == 2 * batch["x"]).all()


def test_data_loader_of_pairs():
    """A container inside a tuple is stacked by default collate."""
    batch, number = next(iter(DataLoader([(row, i) for i, row in enumerate(rows())], batch_size=3)))
    assert (tuple(batch.batch_size), number.tolist()) == ((3,), [0, 1, 2])


@pytest.mark.slow
def test_data_loader_workers():
    """Workers hand batches over."""
    loader = DataLoader(rows(), batch_size=5, num_workers=2, multiprocessing_context="fork")
    assert equal(torch.cat(list(loader)), rows())


def reloaded(value: Any) -> Any:
    """What `torch.load` gives, with its default of no pickled code."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_containers_in_checkpoints_load_as_weights() -> None:
    """`torch.load` with its default takes containers of every kind, as it takes tensors."""
    data = TensorDict(
        a=torch.arange(2),
        b={"c": torch.ones(2)},
        name=["x", "y"],
        one="s",
        shared=UnbatchedTensor(torch.ones(3)),
        ragged=RaggedTensor([torch.ones(2), torch.ones(1)]),
        meta=MetaData({"k": 1}),
        batch_size=[2],
        names=["t"],
        lock=True,
    )
    made = reloaded({"buffer": data, "step": 3})["buffer"]
    assert equal(made, data)
    assert made.is_locked
    assert made.names == ["t"]
    assert made["name"] == ["x", "y"]
    assert equal(reloaded(data.select("a", "b").consolidate()), data.select("a", "b"))
    stack = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2))])
    assert [len(part["a"]) for part in reloaded(stack)] == [1, 2]


@tensorclass
class Saved:
    """A class of a user."""

    x: Tensor


def test_a_class_of_the_user_is_named_before_it_loads_as_weights() -> None:
    """As torch asks of every class; nothing but the class is to be allowed."""
    batch = Saved(x=torch.arange(2), batch_size=[2])
    with pytest.raises(pickle.UnpicklingError, match="Saved"):
        reloaded(batch)
    with torch.serialization.safe_globals([Saved]):
        assert equal(reloaded(batch), batch)
