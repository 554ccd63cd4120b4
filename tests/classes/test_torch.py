"""Typed batches inside torch: compile, vmap, functional transforms, autograd, DataLoader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tensorclass import TensorClass, collate, equal
from tensorclass.ops._compare import same_object
from tensorclass.typing import Bool, Float32, Int64
from tests.classes._samples import SAMPLES, aligned, digits, everything, letters

NS = SAMPLES["decorator"]


class Inner(TensorClass):
    """Nested, for compiled code."""

    y: Float32[Tensor, "4"]


class Row(TensorClass):
    """What compiled code builds: optional, nested and text fields."""

    x: Float32[Tensor, "n"]
    label: Int64[Tensor, ""]
    inner: Inner
    mask: Bool[Tensor, "n"] | None = None
    source: str = "scan"

    @property
    def total(self) -> Tensor:
        """A derived value."""
        return self.x.sum(-1)

    def shifted(self, by: float) -> Row:
        """A changed copy."""
        return self.replace(x=self.x + by)


class WithPost(TensorClass):
    """Computes in `__post_init__`."""

    x: Float32[Tensor, ""]
    twice: Float32[Tensor, ""] | None = None

    def __post_init__(self) -> None:
        if self.twice is None:
            self.twice = self.x * 2


def row(*size: int) -> Row:
    """An instance."""
    return Row(torch.randn(*size, 3), torch.zeros(size, dtype=torch.int64), Inner(torch.randn(*size, 4)))


def _set(b: Row) -> Row:
    b = b.clone()
    b.x = b.x * 2
    b.mask = b.x > 0
    b.source = "mail"
    return b


def _post(b: Row) -> WithPost:
    return WithPost(b.x[..., 0])


COMPILED = {
    "construct": lambda b: Row(b.x + 1, b.label, b.inner),
    "construct by name": lambda b: Row(label=b.label, x=b.x, inner=b.inner),
    "construct with batch size": lambda b: Row(b.x, b.label, b.inner, batch_size=[4]),
    "nested": lambda b: Inner(b.inner.y + 1),
    "construct with mask": lambda b: Row(b.x, b.label, b.inner, b.x > 0, "mail"),
    "int": lambda b: b[0],
    "slice": lambda b: b[1:3],
    "tensor": lambda b: b[torch.tensor([0, 2])],
    "stack": lambda b: torch.stack([b, b]),
    "cat": lambda b: torch.cat([b, b]),
    "arithmetic": lambda b: Inner(b.inner.y) * 2 + 1,
    "two": lambda b: b + b,
    "reshape": lambda b: b.reshape(2, 2),
    "set": _set,
    "property": lambda b: b.total,
    "method": lambda b: b.shifted(1.0),
    "clone": lambda b: b.clone(),
    "to": lambda b: b.to("cpu"),
    "unbind": lambda b: torch.stack(list(b.unbind())),
    "compare": lambda b: b == b,
    "post init": _post,
    "get": lambda b: b["inner", "y"],
    "apply": lambda b: b.apply(lambda t: t + 1),
    "update": lambda b: b.clone().update({"x": b.x + 1}),
    "flip": lambda b: b.flip(0),
    "permute": lambda b: b.reshape(2, 2).permute(1, 0),
}


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, class and all."""
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    return type(a) is type(b) and equal(a, b)


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_whole(name: str) -> None:
    """Traced in one graph, the result is what eager code gives, class, text and absent fields included."""
    torch._dynamo.reset()
    fn = COMPILED[name]
    batch = row(4)
    expected = fn(batch)
    result = torch.compile(fn, fullgraph=True, backend="eager")(batch)
    assert same(result, expected)
    if isinstance(expected, Row):
        assert same_object(result.source, expected.source)  # of a comparison a bool for each element
        assert (result.mask is None) == (expected.mask is None)


def test_compiled_code_is_compiled_once() -> None:
    """New instances of the same shapes never recompile; a new batch size does so once, then it is dynamic."""
    torch._dynamo.reset()
    frames = torch._dynamo.testing.CompileCounter()
    step = torch.compile(lambda b: Row(b.x * 2, b.label, b.inner)[:2], fullgraph=True, backend=frames)
    for _ in range(4):
        step(row(4))
    assert frames.frame_count == 1
    for size in (5, 6, 7, 8):
        step(row(size))
    assert frames.frame_count == 2


def test_frozen_and_wide_classes_compile() -> None:
    """A frozen class with a field of every kind goes through a compiled function."""
    torch._dynamo.reset()
    still = NS.Still(torch.ones(4, 2), NS.Pose(torch.ones(4), torch.ones(4, 3)))
    result = torch.compile(lambda b: torch.stack([b[:2], b[2:]]), fullgraph=True, backend="eager")(still)
    assert type(result) is NS.Still
    torch._dynamo.reset()
    batch = everything(NS, 4)
    result = torch.compile(lambda b: b[1:].image + 1, fullgraph=True, backend="eager")(batch)
    assert torch.equal(result, batch[1:].image + 1)


def test_a_wrong_set_raises_in_compiled_code() -> None:
    """Checks are the same, traced or not."""
    torch._dynamo.reset()

    def wrong(b: Row) -> Row:
        return Row(b.x.double(), b.label, b.inner)

    with pytest.raises(Exception, match=r"x[\s\S]*float64|Schema|Unsupported"):
        torch.compile(wrong, backend="eager")(row(4))


def test_gradients_flow_through_a_batch(ns: SimpleNamespace) -> None:
    """Construct, index and join are differentiable."""
    image = torch.randn(4, 2, 3, requires_grad=True)
    batch = ns.Digits(image, torch.arange(4))
    loss = torch.stack([batch[:2], batch[2:]]).reshape(4)[1:].image.pow(2).sum()
    (grad,) = torch.autograd.grad(loss, image)
    assert torch.allclose(grad[1:], 2 * image[1:])
    assert grad[0].abs().sum() == 0


def test_vmap_over_batches(ns: SimpleNamespace) -> None:
    """A vmap maps over the first batch dim and gives the class back, text kept."""
    batch = digits(ns.Digits, 3, 2)

    def double(b: Any) -> Any:
        return b.replace(image=b.image * 2)

    soft = ns.Soft(torch.randn(3, 2, 2), torch.randn(3, 2), batch_size=[3, 2])
    result = torch.vmap(lambda b: b * 2)(soft)
    assert type(result) is ns.Soft
    assert result.batch_size == torch.Size([3, 2])
    assert torch.allclose(result.x, soft.x * 2)
    mapped = torch.vmap(double)(batch)
    assert type(mapped) is ns.Digits
    assert torch.allclose(mapped.image, batch.image * 2)
    assert mapped.source == "scan"


def test_functional_gradients_over_a_batch() -> None:
    """`torch.func.grad` differentiates by a whole batch and gives its class."""
    batch = Inner(torch.randn(3, 4))
    result = torch.func.grad(lambda b: b.y.pow(2).sum())(batch)
    assert type(result) is Inner
    assert torch.allclose(result.y, 2 * batch.y)
    per_row = torch.vmap(torch.func.grad(lambda b: b.y.pow(2).sum()))(batch)
    assert torch.allclose(per_row.y, 2 * batch.y)


def test_functional_call_over_a_batch_of_inputs() -> None:
    """A module called functionally inside vmap reads typed fields."""
    layer = torch.nn.Linear(4, 2)
    parameters = dict(layer.named_parameters())
    batch = Inner(torch.randn(5, 4))
    result = torch.vmap(lambda b: torch.func.functional_call(layer, parameters, (b.y,)))(batch)
    assert torch.allclose(result, layer(batch.y), atol=1e-6)


def test_pytrees(ns: SimpleNamespace) -> None:
    """Every kind of field goes through flatten and unflatten; `tree_map` keeps the class."""
    batch = everything(ns, 3)
    leaves, spec = pytree.tree_flatten(batch)
    again = pytree.tree_unflatten(leaves, spec)
    assert type(again) is ns.Everything
    aligned(again)
    mapped = pytree.tree_map_only(Tensor, lambda t: t[:2] if t.shape[:1] == (3,) else t, batch)
    assert mapped.batch_size == torch.Size([2])
    aligned(mapped)
    paths = {pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(batch)[0]}
    assert any("pose" in path and "axis" in path for path in paths)


def test_modules_take_and_give_batches() -> None:
    """An ordinary module may take and return typed batches; hooks see them."""
    seen: list[type] = []

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, batch: Row) -> Row:
            return batch.replace(x=self.layer(batch.x))

    step = Step()
    step.register_forward_hook(lambda module, args, output: seen.append(type(output)))
    step(row(4)).x.sum().backward()
    assert seen == [Row]
    assert step.layer.weight.grad is not None


class Samples(Dataset[Any]):
    """One instance an index."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, index: int) -> Any:
        return self.batch[index]


def test_the_default_collate_stacks_instances(ns: SimpleNamespace) -> None:
    """A dataset of single instances gives batches of the class, per-element values aligned."""
    loader = DataLoader(Samples(everything(ns, 6)), batch_size=4)
    first, second = list(loader)
    assert type(first) is ns.Everything
    assert (first.batch_size, second.batch_size) == (torch.Size([4]), torch.Size([2]))
    assert [*first.who.tolist(), *second.who.tolist()] == letters(6)
    aligned(first)


def test_a_batch_is_a_dataset(ns: SimpleNamespace) -> None:
    """A batch itself is a map-style dataset; its rows are gathered at once."""
    batch = everything(ns, 6)
    loader: Any = DataLoader(batch, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1))
    parts = list(loader)
    assert [len(part) for part in parts] == [4, 2]
    for part in parts:
        assert type(part) is ns.Everything
        aligned(part)
    assert sorted(torch.cat(parts).label.tolist()) == list(range(6))
    for part in DataLoader(batch, batch_size=3, collate_fn=collate):  # type: ignore[arg-type]  # a dataset by behaviour
        aligned(part)


def test_instances_inside_other_samples_collate(ns: SimpleNamespace) -> None:
    """Tuples and dicts of instances collate entry by entry."""
    batch = everything(ns, 4)
    samples = [({"batch": batch[i]}, i) for i in range(4)]
    (found, index) = next(iter(DataLoader(samples, batch_size=4)))  # type: ignore[arg-type]  # a list is a dataset
    aligned(found["batch"])
    assert index.tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_workers_send_batches() -> None:
    """Batches come whole out of worker processes."""
    loader: Any = DataLoader(everything(NS, 6), batch_size=3, num_workers=1)
    parts = list(loader)
    assert [type(part) for part in parts] == [NS.Everything, NS.Everything]
    aligned(torch.cat(parts))
