"""The examples about containers in the documents of the original, with imports changed: result for result.

`INVENTORY` lists every example of every document: the test that has it here, or the issue or suite that it belongs to.
The documents are numbered as in the list of capabilities: 000 sequences, 001 modules, 002 `from_modules`, 003 the front
page, 004 the overview. Where an example names a GPU, the `meta` device stands in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tensorclass import LazyStackedTensorDict, TensorDict, lazy_stack, set_printoptions, tensorclass

MODULES, FILES, SCALE = "modules", "files", "scale"
INVENTORY: tuple[tuple[str, str, str], ...] = (
    ("000", "a sequence called with a container and with tensors", MODULES),
    ("000", "a probabilistic sequence with functional parameters, vmap over them", MODULES),
    ("000", "reset_out_keys, select_out_keys (four examples)", MODULES),
    ("000", "select_subsequence, nested sequences", MODULES),
    ("001", "TensorDictModule over nn.Transformer, called with a container and with tensors", MODULES),
    ("001", "nested in and out keys; a module without inputs; in_keys as a dict", MODULES),
    ("001", "functional and stateful calls of a GRU cell, vmap over expanded parameters", MODULES),
    ("002", "parameters of two modules stacked, run through vmap, gradients", MODULES),
    ("002", "parameters of two modules in a lazy stack", MODULES),
    ("003", "training loop over a dataset", MODULES),
    ("003", "construction from key-value pairs and a batch size", "test_construction"),
    ("003", "a container on a device sends what is written there", "test_device"),
    ("003", "nested values by tuple keys, nested tuples unravelled", "test_nested_keys"),
    ("003", "non-tensor data", "test_a_string"),
    ("003", "indexing with an ellipsis", "test_indexing"),
    ("003", "stack and cat", "test_stack_and_cat"),
    ("003", "view, reshape, unsqueeze", "test_shapes"),
    ("003", "apply with a random function", "test_apply"),
    ("003", "apply as a filter", "test_apply_filters"),
    ("003", "isend and irecv", SCALE),
    ("003", "weights as nested containers, compared with ==", "test_weights"),
    ("003", "functional modules, an ensemble through vmap", MODULES),
    ("003", "parameters memory-mapped and loaded in part", FILES),
    ("003", "a dataset allocated by expand and read by index (in memory)", "test_expand_and_gather"),
    ("003", "the same dataset on disk with memmap_like", FILES),
    ("003", "preprocessing with map", SCALE),
    ("003", "stacking the results of a function", "test_stacking_results"),
    ("003", "lazy preallocation, and its printed result", "test_preallocation"),
    ("003", "nested containers, flatten_keys", "test_flatten_keys"),
    ("003", "a nested entry by one index", "test_flatten_keys"),
    ("003", "a tensorclass with methods, its selections and shapes", "test_tensorclass"),
    ("004", "training loop over a dataset", MODULES),
    ("004", "splits indexed out for workers", "test_splits_for_workers"),
    ("004", "the splits sent through pipes", SCALE),
    ("004", "unbind against a dict of tensors", "test_unbind_against_dicts"),
    ("004", "unbind against a nested dict", "test_unbind_against_dicts"),
    ("004", "construction, reading and writing as a dict", "test_dict_access"),
    ("004", "indexing with an ellipsis", "test_dict_access"),
    ("004", "set with inplace=True, set_", "test_in_place"),
    ("004", "to a device, reshape", "test_to_and_reshape"),
    ("004", "inputs and outputs as nested containers", "test_nested_containers"),
    ("004", "a stack that stacks on reading and writes to its members", "test_lazy_evaluation"),
    ("004", "lazy pre-allocation", "test_preallocation"),
    ("004", "modules with nested keys, sequences, keyword calls", MODULES),
    ("004", "make_functional and an ensemble", MODULES),
)
"""Document, example, where it is: a test of this file, or `modules`, `files` (memory maps), `scale` (processes)."""


def example(*size: int) -> TensorDict:
    """The container of most examples."""
    size = size or (3, 4)
    return TensorDict(
        {"key 1": torch.ones(*size, 5), "key 2": torch.zeros(*size, 5, dtype=torch.bool)}, batch_size=size
    )


def test_inventory():
    """Every example has a place, and every test of this file an example."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    places = {place for _, _, place in INVENTORY}
    assert places - {MODULES, FILES, SCALE} == tests - {"test_inventory"}
    assert {document for document, _, _ in INVENTORY} == {f"00{i}" for i in range(5)}


# ---- 003: the front page ---------------------------------------------------------------------------------------------


def test_construction():
    """Key-value pairs and a batch size."""
    data = example()
    assert data.batch_size == torch.Size([3, 4])
    assert list(data.keys()) == ["key 1", "key 2"]
    assert (data["key 1"] == 1).all()
    assert data["key 2"].dtype is torch.bool


def test_device():
    """What is written goes to the container's device."""
    data = TensorDict(
        {"key 1": torch.ones(3, 4, 5), "key 2": torch.zeros(3, 4, 5, dtype=torch.bool)},
        batch_size=[3, 4],
        device="meta",
    )
    data["key 3"] = torch.randn(3, 4, device="cpu")
    assert data["key 3"].device == torch.device("meta")
    assert data["key 1"].device == torch.device("meta")


def test_nested_keys():
    """Tuples name nested entries, however they are nested themselves."""
    data = example()
    data["nested", "key"] = torch.zeros(3, 4)
    assert data["nested"].batch_size == torch.Size([3, 4])
    data["nested", ("supernested", ("key",))] = torch.zeros(3, 4)
    assert (data["nested", "supernested", "key"] == 0).all()
    assert (("nested",), "supernested", (("key",),)) in data.keys(include_nested=True)


def test_a_string():
    """An entry that is no tensor."""
    data = TensorDict({"a-tensor": torch.randn(1, 2)}, batch_size=[1, 2])
    data["non-tensor"] = "a string!"
    assert data["non-tensor"] == "a string!"


def test_indexing():
    """An index gives a container of indexed tensors."""
    sub_tensordict = example()[..., :2]
    assert sub_tensordict.shape == torch.Size([3, 2])
    assert sub_tensordict["key 1"].shape == torch.Size([3, 2, 5])


def test_stack_and_cat():
    """Along a new dim and along a present one."""
    tensordicts = [example() for _ in range(2)]
    stack_tensordict = torch.stack(tensordicts, 1)
    assert stack_tensordict.shape == torch.Size([3, 2, 4])
    assert stack_tensordict["key 1"].shape == torch.Size([3, 2, 4, 5])
    cat_tensordict = torch.cat(tensordicts, 0)
    assert cat_tensordict.shape == torch.Size([6, 4])
    assert cat_tensordict["key 1"].shape == torch.Size([6, 4, 5])


def test_shapes():
    """The document prints the batch sizes."""
    data = example()
    assert data.view(-1).batch_size == torch.Size([12])
    assert data.reshape(-1).batch_size == torch.Size([12])
    assert data.unsqueeze(-1).batch_size == torch.Size([3, 4, 1])
    assert data.unsqueeze(-1)["key 1"].shape == torch.Size([3, 4, 1, 5])


def test_apply():
    """A function without a method of its own; the function of the example takes floating tensors."""
    data = example().select("key 1")
    tensordict_uniform = data.apply(lambda tensor: tensor.uniform_())
    assert ((tensordict_uniform["key 1"] >= 0) & (tensordict_uniform["key 1"] < 1)).all()
    assert torch.equal(tensordict_uniform["key 1"], data["key 1"])


def test_apply_filters():
    """None drops an entry."""
    data = TensorDict({"a": torch.tensor(1.0, dtype=torch.float), "b": torch.tensor(1, dtype=torch.int64)}, [])
    data_float = data.apply(lambda x: x if x.dtype == torch.float else None)
    assert "b" not in data_float
    assert list(data_float.keys()) == ["a"]


def test_weights():
    """State dicts with dotted keys become nested containers, which compare as a whole."""
    layer1, layer2 = nn.Linear(3, 4), nn.Linear(4, 4)
    model = nn.Sequential(layer1, layer2)
    params = TensorDict(model.state_dict(), []).unflatten_keys(".")
    weights1 = TensorDict(layer1.state_dict(), []).unflatten_keys(".")
    weights2 = TensorDict(layer2.state_dict(), []).unflatten_keys(".")
    assert (params == TensorDict({"0": weights1, "1": weights2}, [])).all()
    assert weights1["weight"].shape == (4, 3)


def test_expand_and_gather():
    """A million items that share one, and three of them."""
    data = TensorDict(
        {"images": torch.zeros((128, 128, 3), dtype=torch.uint8), "labels": torch.zeros((), dtype=torch.int)},
        batch_size=[],
    )
    data = data.expand(1000000)
    assert data["images"].shape == (1000000, 128, 128, 3)
    items = data[torch.tensor([1, 10000, 500000])]
    assert items.batch_size == torch.Size([3])
    assert items["images"].shape == (3, 128, 128, 3)


def foo() -> TensorDict:
    """The function of the preallocation example."""
    data = TensorDict({}, batch_size=[])
    data["a"] = torch.randn(3)
    data["b"] = TensorDict({"c": torch.zeros(2)}, batch_size=[])
    return data


def test_stacking_results():
    """One way to collect the results of a function."""
    data = torch.stack([foo() for _ in range(10)])
    assert data.batch_size == torch.Size([10])
    assert data["a"].shape == (10, 3)
    assert data["b", "c"].shape == (10, 2)


PREALLOCATED = """\
TensorDict(
    fields={
        a: Tensor(shape=torch.Size([10, 3]), device=cpu, dtype=torch.float32, is_shared=False),
        b: TensorDict(
            fields={
                c: Tensor(shape=torch.Size([10, 2]), device=cpu, dtype=torch.float32, is_shared=False)},
            batch_size=torch.Size([10]),
            device=None,
            is_shared=False)},
    batch_size=torch.Size([10]),
    device=None,
    is_shared=False)"""


@pytest.mark.parametrize("order", [range(10), (3, 0, 9, 1, 2, 8, 4, 7, 5, 6)], ids=["in order", "shuffled"])
def test_preallocation(order: list[int]):
    """The first record allocates the entries, the others are written in place, in any order."""
    data = TensorDict({}, batch_size=[10])
    records = [foo() for _ in range(10)]
    data[order[0]] = records[order[0]]
    storage = data["a"].data_ptr()
    for i in order:
        data[i] = records[i]
    assert data["a"].data_ptr() == storage
    assert torch.equal(data["a"], torch.stack([record["a"] for record in records]))
    with set_printoptions(compact=False):
        assert repr(data) == PREALLOCATED


def test_flatten_keys():
    """From nested to flat; the nested container has a batch dim more."""
    data = TensorDict(
        {
            "key 1": torch.ones(3, 4, 5),
            "key 2": TensorDict({"sub-key": torch.randn(3, 4, 5, 6)}, batch_size=[3, 4, 5]),
        },
        batch_size=[3, 4],
    )
    tensordict_flatten = data.flatten_keys(separator=".")
    assert sorted(tensordict_flatten.keys()) == ["key 1", "key 2.sub-key"]
    sub_value = data["key 2", "sub-key"]
    assert sub_value is tensordict_flatten["key 2.sub-key"]
    assert sub_value.shape == (3, 4, 5, 6)


@tensorclass
class MyData:
    """The typed class of the document."""

    image: torch.Tensor
    mask: torch.Tensor
    label: torch.Tensor

    def mask_image(self) -> torch.Tensor:
        """What the mask picks, for each element."""
        return self.image[self.mask.expand_as(self.image)].view(*self.batch_size, -1)

    def select_label(self, label: int) -> MyData:
        """The elements with a label."""
        return self[self.label == label]


def test_tensorclass():
    """Methods of one's own beside those of a container."""
    images = torch.randn(100, 3, 64, 64)
    label = torch.randint(10, (100,))
    mask = torch.zeros(1, 64, 64, dtype=torch.bool).bernoulli_().expand(100, 1, 64, 64)
    data = MyData(images, mask, label=label, batch_size=[100])
    count, picked = int((label == 1).sum()), int(mask[0].sum())
    chosen = data.select_label(1)
    assert type(chosen) is MyData
    assert chosen.image.shape == (count, 3, 64, 64)
    assert chosen.mask.shape == (count, 1, 64, 64)
    assert chosen.label.tolist() == [1] * count
    assert data.mask_image().shape == (100, 3 * picked)
    square = data.reshape(10, 10)
    assert type(square) is MyData
    assert square.batch_size == torch.Size([10, 10])
    assert (square.image.shape, square.label.shape) == ((10, 10, 3, 64, 64), (10, 10))
    assert (square.device, square.mask.shape) == (None, (10, 10, 1, 64, 64))


# ---- 004: the overview -----------------------------------------------------------------------------------------------


def test_splits_for_workers():
    """Batches of ten data points, as every worker gets them."""
    tensordict = TensorDict({"a": torch.arange(35)}, batch_size=[35])
    splits = torch.arange(tensordict.shape[0]).split(10)
    parts = [tensordict[idx] for idx in splits]
    assert [part.batch_size[0] for part in parts] == [10, 10, 10, 5]
    assert torch.equal(torch.cat(parts)["a"], tensordict["a"])


def rows(data: dict[str, object]) -> Iterator[dict[str, object]]:
    """The three rows of a nested dict, by hand."""
    for i in range(3):
        yield {
            key: {inner: leaf[i] for inner, leaf in value.items()} if isinstance(value, dict) else value[i]  # type: ignore[index]  # a tensor
            for key, value in data.items()
        }


@pytest.mark.parametrize("nested", [False, True])
def test_unbind_against_dicts(nested: bool):
    """One call against a dict of dicts taken apart by hand."""
    first = torch.randn(3, 11)
    td = TensorDict({"a": {"c": first} if nested else first, "b": torch.randn(3, 3)}, batch_size=3)
    regular_dict = {"a": {"c": td["a", "c"]} if nested else td["a"], "b": td["b"]}
    td0, td1, td2 = td.unbind(0)
    for row, wanted in zip((td0, td1, td2), rows(regular_dict), strict=True):
        assert (row == TensorDict(wanted, [])).all()
        assert row.batch_size == torch.Size([])


def test_dict_access():
    """Reading, writing and indexing."""
    tensordict = TensorDict({"zeros": torch.zeros(2, 3, 4), "ones": torch.ones(2, 3, 4, 5)}, batch_size=[2, 3])
    zeros = tensordict["zeros"]
    assert zeros.shape == (2, 3, 4)
    assert not zeros.any()
    tensordict["twos"] = 2 * torch.ones(2, 3)
    assert tensordict["twos"].sum() == 12
    sub_tensordict = tensordict[..., :2]
    assert sub_tensordict.batch_size == torch.Size([2, 2])
    assert sub_tensordict["ones"].shape == (2, 2, 4, 5)


def test_in_place():
    """`set_` wants the key, `set` with `inplace` writes a new one where there is none."""
    tensordict = TensorDict({"zeros": torch.zeros(2, 3)}, batch_size=[2])
    before = tensordict["zeros"]
    tensordict.set_("zeros", torch.ones(2, 3))
    assert tensordict["zeros"] is before
    assert (before == 1).all()
    tensordict.set("zeros", torch.full((2, 3), 2.0), inplace=True)
    tensordict.set("new", torch.zeros(2), inplace=True)
    assert (before == 2).all()
    assert tensordict["new"].shape == (2,)
    with pytest.raises(KeyError, match="absent"):
        tensordict.set_("absent", torch.zeros(2))


def test_to_and_reshape():
    """All entries move, all batch dims are rearranged."""
    tensordict = TensorDict({"zeros": torch.zeros(2, 3, 4)}, batch_size=[2, 3])
    assert tensordict.to("meta")["zeros"].device.type == "meta"
    assert tensordict.reshape(6)["zeros"].shape == (6, 4)


def test_nested_containers():
    """Dicts become containers; tuples of strings read and write."""
    tensordict = TensorDict(
        {
            "inputs": {
                "image": torch.rand(100, 28, 28),
                "mask": torch.randint(2, (100, 28, 28), dtype=torch.uint8),
            },
            "outputs": {"logits": torch.randn(100, 10)},
        },
        batch_size=[100],
    )
    assert tensordict["inputs"].batch_size == torch.Size([100])
    image = tensordict["inputs", "image"]
    logits = tensordict.get(("outputs", "logits"))
    tensordict["outputs", "probabilities"] = torch.sigmoid(logits)
    assert image.shape == (100, 28, 28)
    assert torch.equal(tensordict["outputs"]["probabilities"], logits.sigmoid())


def test_lazy_evaluation():
    """`lazy_stack` is what the document calls `torch.stack`: entries are stacked when they are read."""
    tensordicts = [TensorDict({"a": torch.rand(10), "b": torch.rand(10, 100, 100)}, [10]) for _ in range(3)]
    stacked = lazy_stack(tensordicts, 0)
    assert type(stacked) is LazyStackedTensorDict
    stacked_a = stacked["a"]
    assert torch.equal(stacked_a, torch.stack([part["a"] for part in tensordicts]))
    stacked["a"] = torch.zeros_like(stacked["a"])
    assert (tensordicts[0]["a"] == 0).all()
    assert type(stacked.contiguous()) is TensorDict
