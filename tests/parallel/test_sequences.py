"""Context parallel blocks: which tensors torch splits follows from the layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import Replicate
from torch.nn import functional

from tensorclass import PerElement, Shared, TensorClass, TensorDict
from tensorclass.errors import ArgumentError, TensorClassError
from tensorclass.parallel import Layout
from tensorclass.typing import Bool, Float32, Int64
from tests.parallel._meshes import fake_mesh


class Notes(TensorClass):
    mask: Bool[Tensor, "h t"]
    text: PerElement[str]


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]
    hidden: Float32[Tensor, "t d"]
    weight: Float32[Tensor, ""]
    place: Shared[Int64[Tensor, "t"]]
    notes: Notes


class Pairs(TensorClass):
    ids: Int64[Tensor, "t"]
    pairs: Bool[Tensor, "t t"]


def tokens(t: int = 8) -> Tokens:
    """Two rows."""
    ids = torch.arange(2 * t).view(2, t)
    notes = Notes(mask=ids[:, None].expand(2, 3, t) % 2 == 0, text=["a", "b"])
    return Tokens(
        ids=ids, hidden=ids[..., None].expand(2, t, 4).float(), weight=torch.ones(2), place=ids[0], notes=notes
    )


def test_fields_with_the_dim_are_split() -> None:
    """Each rank has an early and a late part of each field with the dim, of positions too; the batch stays whole."""
    seen = []
    for rank in range(4):
        with fake_mesh(rank, dp=2, cp=2) as mesh:
            batch, positions = tokens(), torch.arange(8)
            with Layout(mesh, batch="dp", t="cp").context_parallel(batch, buffers=[(positions, 0)]) as part:
                here = torch.tensor([0, 1, 6, 7] if rank % 2 == 0 else [2, 3, 4, 5])
                assert type(part) is Tokens
                assert torch.equal(part.ids, tokens().ids[:, here])
                assert torch.equal(part.hidden, tokens().hidden[:, here])
                assert torch.equal(part.notes.mask, tokens().notes.mask[..., here])
                assert torch.equal(part.place, here)
                assert torch.equal(positions, here)
                assert part.notes.text.tolist() == ["a", "b"]
                assert part.weight.shape == (2,)
                assert part.clone().ids.shape == (2, 4)
                seen += here.tolist()
            assert bool((batch == tokens()).all())
            assert positions.tolist() == [*range(8)]
    assert sorted(seen) == sorted([*range(8)] * 2)


def test_attention_needs_a_gpu() -> None:
    """Torch has no context parallel attention for the CPU, and says so; the block ends with whole buffers."""
    with fake_mesh(dp=2, cp=2) as mesh:
        query = torch.randn(2, 4, 8, 8)
        batch = TensorDict(x=query, batch_size=[2])
        layout = Layout(mesh, batch="dp", t="cp")
        with pytest.raises(ArgumentError, match="splits no field of TensorDict over `cp`"):
            _enter(lambda: layout.context_parallel(batch))
        with layout.context_parallel(tokens(), buffers=[(query, 2)]):
            assert query.shape == (2, 4, 4, 8)
            with pytest.raises(NotImplementedError, match="_scaled_dot_product_flash_attention_for_cpu"):
                functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        assert query.shape == (2, 4, 8, 8)


def _enter(block: Callable[[], Any]) -> None:
    with block():
        raise AssertionError("the block was entered")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda mesh: Layout(mesh, batch="dp").context_parallel(tokens()), ["no event dims"]),
        (lambda mesh: Layout(mesh, t="cp", d="dp").context_parallel(tokens()), ["which dim is the sequence", "`dim=`"]),
        (lambda mesh: Layout(mesh, t="cp").context_parallel(tokens(), "tt"), ["'tt'", "did you mean `t`"]),
        (lambda mesh: Layout(mesh, t=("dp", "cp")).context_parallel(tokens()), ["over `dp*cp`", "one mesh dim"]),
        (lambda mesh: Layout(mesh, t="cp").context_parallel(tokens(6)), ["`ids` has size 6 in dim 1", "4 equal parts"]),
        (lambda mesh: Layout(mesh, t="cp").context_parallel(3), ["takes a batch, got a int"]),
        (
            lambda mesh: Layout(mesh, t="cp").context_parallel(tokens(), buffers=[(torch.zeros(3), 0)]),
            ["buffer 0 has size 3 in dim 0"],
        ),
        (
            lambda mesh: Layout(mesh, t="cp").context_parallel(tokens(), buffers=[(torch.zeros(12), 0)]),
            ["buffer 0 has size 12 in dim 0, and `ids` has 8 in dim 1", "other positions"],
        ),
        (
            lambda mesh: Layout(mesh, t="cp").context_parallel(tokens(), buffers=[(torch.zeros(8), 1)]),
            ["buffer 0 has 1 dims, and its sequence dim is 1"],
        ),
        (
            lambda mesh: Layout(mesh, t="cp").context_parallel(
                tokens().distribute(Layout(mesh, batch="dp"), source="everywhere")
            ),
            ["`ids` is distributed", "loader(layout=layout)"],
        ),
        (
            lambda mesh: Layout(mesh, t="cp").context_parallel(
                Pairs(ids=torch.zeros(2, 8, dtype=torch.int64), pairs=torch.ones(2, 8, 8).bool())
            ),
            ["`pairs`", "`cp` splits both dim `t` and dim `t`"],
        ),
    ],
)
def test_wrong_sequences(make: Any, words: list[str]) -> None:
    """What can't be split into equal parts is an error before anything changes, the same on every rank."""
    said = set()
    for rank in range(4):
        with fake_mesh(rank, dp=2, cp=2) as mesh:
            with pytest.raises(TensorClassError) as error:
                _enter(lambda mesh=mesh: make(mesh))  # type: ignore[misc]  # a default
            said.add(str(error.value))
    assert len(said) == 1
    assert [word for word in words if word not in said.copy().pop()] == []


def test_a_mask_of_pairs_is_whole() -> None:
    """A placement of its own keeps a mask whole."""
    pairs = Pairs(ids=torch.zeros(2, 8, dtype=torch.int64), pairs=torch.ones(2, 8, 8).bool())
    with (
        fake_mesh(cp=2) as mesh,
        Layout(mesh, {Pairs.pairs: Replicate()}, t="cp").context_parallel(pairs) as part,
    ):
        assert part.ids.shape == (2, 4)
        assert part.pairs.shape == (2, 8, 8)
