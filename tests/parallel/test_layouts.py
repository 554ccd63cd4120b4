"""`Layout`: the placement of each field follows from its dims; no process group is needed."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import Replicate, Shard

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict
from tensorclass.errors import ArgumentError, FrozenError
from tensorclass.parallel import Layout, LayoutWarning
from tensorclass.typing import Bool, Float32, Int64
from tests.parallel._meshes import fake_mesh

MESH = {"dp": 2, "cp": 2, "tp": 2}


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]
    mask: Bool[Tensor, "t"]
    weight: Float32[Tensor, ""]


class Hidden(TensorClass):
    states: Float32[Tensor, "t d"]
    image: Float32[Tensor, "*lead h w"]
    flat: Float32[Tensor, "h*w"]
    table: Shared[Float32[Tensor, "d"]]
    words: Ragged[Tensor, "n d"]
    name: PerElement[str]
    kind: str


class Outer(TensorClass):
    tokens: Tokens
    hidden: Hidden | None
    loss: Float32[Tensor, ""]


class Longer(Tokens):
    extra: Float32[Tensor, "t"]


def placed(layout: Layout, what: Any, **options: Any) -> dict[str, Any]:
    """The split dims of each field."""
    return {row.field: row.shards for row in layout.explain(what, **options).rows}


def test_dims_decide() -> None:
    """Batch dims follow `batch=`, event dims their names; what is not named is replicated."""
    found = placed(Layout(MESH, batch="dp", t="cp", d="tp"), Outer)
    assert found == {
        "tokens.ids": (0, 1, None),
        "tokens.mask": (0, 1, None),
        "tokens.weight": (0, None, None),
        "hidden.states": (0, 1, 2),
        "hidden.image": (0, None, None),
        "hidden.flat": (0, None, None),
        "hidden.table": (None, None, 0),
        "hidden.words": None,
        "hidden.name": None,
        "hidden.kind": None,
        "loss": (0, None, None),
    }


def test_expressions_and_variadic_dims() -> None:
    """An expression is a dim of its own; dims after a variadic one count from the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = placed(Layout(MESH, h="cp", **{"w*h": "tp"}), Hidden)
    assert found["flat"] == (None, None, 1)
    assert found["image"] == (None, -2, None)


def test_several_batch_dims() -> None:
    """Batch dims are given by position or by name; several mesh dims may split one."""
    data = TensorDict({"x": torch.zeros(4, 6, 2)}, batch_size=[4, 6], names=["time", "env"])
    assert placed(Layout(MESH, batch=(None, "tp")), data)["x"] == (None, None, 1)
    assert placed(Layout(MESH, batch={"env": "dp"}), data)["x"] == (1, None, None)
    assert placed(Layout(MESH, batch=(("dp", "tp"), "cp")), data)["x"] == (0, 1, 0)


def test_fields_have_their_own_placement() -> None:
    """A reference covers a field or a nested class; a subclass has the placements of its base, an outer class wins."""
    layout = Layout(MESH, {Tokens.ids: Replicate(), Tokens.weight: {"tp": Shard(0)}}, batch="dp", t="cp")
    assert placed(layout, Longer) == {
        "ids": (None, None, None),
        "mask": (0, 1, None),
        "weight": (None, None, 0),
        "extra": (0, 1, None),
    }
    assert placed(layout, Outer)["tokens.ids"] == (None, None, None)
    nested = Layout(MESH, {Outer.tokens: Replicate(), Tokens.ids: {"dp": Shard(0)}}, batch="dp")
    found = placed(nested, Outer)
    assert found["tokens.ids"] == found["tokens.mask"] == (None, None, None)
    assert found["loss"] == (0, None, None)
    inner = Layout(MESH, {Outer.tokens.ids: {"cp": Shard(1)}}, batch="dp")
    assert placed(inner, Outer)["tokens.ids"] == (None, 1, None)
    assert placed(inner, Tokens)["ids"] == (0, None, None)


def test_layouts_are_values() -> None:
    """Equal layouts have one hash, pass through pickle and JSON, and can't be changed."""
    layout = Layout(MESH, {Tokens.ids: {"tp": Shard(1)}}, batch=("dp", None), t="cp")
    again = Layout.from_dict(json.loads(json.dumps(layout.to_dict())))
    for twin in (pickle.loads(pickle.dumps(layout)), again):
        assert twin == layout
        assert hash(twin) == hash(layout)
        assert placed(twin, Tokens, batch_size=(2, 2)) == placed(layout, Tokens, batch_size=(2, 2))
    assert layout != Layout(MESH, batch="dp")
    assert layout != "layout"
    assert repr(Layout(MESH, batch=("dp", None), t="cp")) == "Layout(dp=2, cp=2, tp=2; batch=dp, ; t=cp)"
    with pytest.raises(FrozenError, match="immutable"):
        layout.sizes = {}
    with pytest.raises(FrozenError, match="immutable"):
        del layout.sizes


def test_the_table_shows_shapes() -> None:
    """`explain` prints symbolic sizes, known ones, and the largest piece where ranks differ."""
    layout = Layout({"dp": 2, "cp": 4}, batch="dp", t="cp")
    assert str(layout.explain(Tokens)).splitlines()[1].split() == [
        "ids",
        "[B,",
        "t]",
        "Shard(0)",
        "Shard(1)",
        "[B/2,",
        "t/4]",
    ]
    rows = {row.field: row.local for row in layout.explain(Tokens, batch_size=3, t=10).rows}
    assert rows == {"ids": ("<=2", "<=3"), "mask": ("<=2", "<=3"), "weight": ("<=2",)}
    batch = Tokens(ids=torch.zeros(4, 8, dtype=torch.int64), mask=torch.ones(4, 8).bool(), weight=torch.ones(4))
    assert [row.local for row in layout.explain(batch).rows] == [("2", "2"), ("2", "2"), ("2",)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Layout(MESH, batch="pd"), ["the mesh has no dim `pd`", "['dp', 'cp', 'tp']"]),
        (lambda: Layout(MESH, tp="t"), ["the mesh has no dim `t`", "write `t='tp'`"]),
        (lambda: Layout(MESH, batch="ddp"), ["did you mean `dp`"]),
        (lambda: Layout(MESH, t=("tp", "cp")), ["in the order of the mesh"]),
        (lambda: Layout(MESH, t=("tp", "tp")), ["each mesh dim once"]),
        (lambda: Layout(MESH, t=3), ["`t=` is the name of a mesh dim"]),  # type: ignore[arg-type]  # wrong
        (lambda: Layout(MESH, batch=("dp", "dp")), ["`dp` splits two batch dims"]),
        (lambda: Layout(MESH, **{"8": "tp"}), ["`8` is not the name of one dim"]),
        (lambda: Layout(MESH, **{"h w": "tp"}), ["`h w` is not the name of one dim"]),
        (lambda: Layout(MESH, **{"*h": "tp"}), ["`*h` is not the name of one dim"]),
        (lambda: Layout(MESH, **{"h%": "tp"}), ["`h%=`", "the operators are"]),
        (lambda: Layout({}), ["at least one dim"]),
        (lambda: Layout({"dp": 0}), ["`dp` has 1 rank or more, got 0"]),
        (lambda: Layout({3: 2}), ["a mesh dim is a name, got 3"]),
        (lambda: Layout(8), ["a DeviceMesh, or the names and sizes", "got a int"]),
        (lambda: Layout(MESH, 3), ["a mapping from references"]),  # type: ignore[arg-type]  # wrong
        (lambda: Layout(MESH, {"ids": Replicate()}), ["named by a reference", "'ids'"]),
        (lambda: Layout(MESH, {Tokens.ids: Shard(0)}), ["split over which mesh dim", "{'dp': S(0)}"]),
        (lambda: Layout(MESH, {Tokens.ids: {"pp": Shard(0)}}), ["the mesh has no dim `pp`"]),
        (lambda: Layout(MESH, {Tokens.ids: {"tp": 0}}), ["`Tokens.ids` over `tp` is `Shard(dim)`"]),
        (lambda: Layout(MESH, {Tokens.ids: 0}), ["`Tokens.ids` has a placement"]),
        (lambda: Layout(MESH, t="tp", d="tp").explain(Hidden), ["`states`", "`tp` splits both dim `t` and dim `d`"]),
        (lambda: Layout(MESH, batch="dp", t="dp").explain(Tokens), ["`ids`", "both batch dim 0 and dim `t`"]),
        (lambda: Layout(MESH, batch=(None, "dp")).explain(Tokens, batch_size=2), ["batch dim 1 over `dp`"]),
        (lambda: Layout(MESH, {Tokens.ids: {"tp": Shard(2)}}).explain(Tokens, 2, t=3), ["has 2 dims", "dim 2"]),
        (lambda: Layout(MESH, {Tokens.weight: {"tp": Shard(3)}}).explain(Tokens), ["`weight` has 1 dims", "dim 3"]),
        (lambda: Layout(MESH, {Tokens.ids: {"tp": Shard(-5)}}).explain(Tokens), ["`ids` has 2 dims", "dim -5"]),
        (lambda: Layout(MESH, {Hidden.table: {"tp": Shard(1)}}).explain(Hidden), ["`table` has 1 dims", "dim 1"]),
        (lambda: Layout(MESH, **{"h*w": "tp"}).explain(Hidden, h=3, w=3), ["`flat`: dim `h*w` is 9"]),
        (lambda: Layout(MESH, **{"h*w": "tp"}).explain(Hidden, 2, h=3, w=3), ["`flat`: dim `h*w` is 9", "2 ranks"]),
        (lambda: Layout(MESH, batch=0), ["`batch=` is the name of a mesh dim", "got 0"]),  # type: ignore[arg-type]  # wrong
        (
            lambda: Layout(MESH, {Hidden.words: {"tp": Shard(0)}}).explain(Hidden),
            ["`words` is whole", "`tp` (2 ranks)"],
        ),
        (lambda: Layout(MESH, {Hidden.name: {"tp": Shard(0)}}).explain(Outer), ["`hidden.name` is whole", "dim 0"]),
        (lambda: Layout(MESH, {Hidden.kind: {"dp": Shard(0)}}).explain(Hidden), ["`kind` is whole", "leave out"]),
        (lambda: Layout(MESH).explain(Tokens, 4, tt=3), ["no dim `tt`", "did you mean `t`"]),
        (lambda: Layout(MESH).explain(Tokens, 4, t=-3), ["a whole number from 0, got -3"]),
        (lambda: Layout(MESH).explain(Tokens, "4"), ["a whole number from 0, got '4'"]),  # type: ignore[arg-type]  # wrong
        (lambda: Layout(MESH).explain(3), ["a typed class or a batch, got 3"]),
        (lambda: Layout(MESH, batch="dp").data_rank(), ["needs 8 ranks, and no process group was started"]),
    ],
)
def test_wrong_layouts_say_what_to_do(make: Any, words: list[str]) -> None:
    """An error names the field, the dim, the mesh dim and the sizes, and the nearest name."""
    with pytest.raises(ArgumentError) as error:
        make()
    assert [word for word in words if word not in str(error.value)] == []


def test_unknown_dims_warn() -> None:
    """A dim that no field has is a warning with near names, also for a batch."""
    with pytest.warns(LayoutWarning, match=r"no field of Tokens has the dim `tt`.*did you mean `t`"):
        Layout(MESH, tt="cp").explain(Tokens)
    with pytest.warns(LayoutWarning, match=r"`\*lead` is any number of dims"):
        Layout(MESH, lead="cp").explain(Hidden)


def test_unknown_fields_warn_until_a_class_has_them() -> None:
    """A layout of several classes warns of what no class had that it was used with; objects may be replicated."""
    layout = Layout(MESH, {Outer.loss: Replicate(), Hidden.words: Replicate()}, d="tp")
    with pytest.warns(LayoutWarning) as caught:
        layout.explain(Tokens)
    texts = [str(one.message) for one in caught]
    assert [text for text in texts if "the dim `d`" in text or "Tokens has no field" in text] == texts
    assert len(texts) == 3
    assert "`Outer.loss`" in texts[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layout.explain(Outer)
        layout.explain(Tokens)
    with fake_mesh(dp=2) as mesh, pytest.warns(LayoutWarning, match="no field of TensorDict has the dim `d`"):
        TensorDict(x=torch.zeros(2), batch_size=[2]).distribute(Layout(mesh, d="dp"), source="everywhere")
    with fake_mesh(dp=2) as mesh, pytest.warns(LayoutWarning, match="no batch dims, so `batch=`"):
        TensorDict(x=torch.zeros(2)).distribute(Layout(mesh, batch="dp"), source="everywhere")


def test_ranks_of_rows() -> None:
    """Ranks that differ only in mesh dims beside the rows have the same rows."""
    found = []
    for rank in range(8):
        with fake_mesh(rank, dp=2, cp=2, tp=2) as mesh:
            assert Layout(MESH, batch="cp").data_rank() == Layout(mesh, batch="cp").data_rank()
            found.append(Layout(mesh, batch=(("dp", "tp"),)).data_rank())
    assert found == [(0, 4), (1, 4), (0, 4), (1, 4), (2, 4), (3, 4), (2, 4), (3, 4)]
