"""Wrong programs over containers, one a row: each raises an error that says what came, what was expected, what to do.

The rows have the shape of those in `test_bad_input.py`: a name, what the user writes, words that the message must contain
(`a|b`: one of them); the error stands above a group, or in `BUILTIN`. After each row all containers are as before.
"""

# ruff: noqa: E501  # a row of the table is one line

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    NonTensorData,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    cat,
    lazy_stack,
    pad,
    pad_sequence,
    stack,
)
from tensorclass.errors import BatchDimError, TensorClassError
from tensorclass.typing import Float32, Int64
from tests.test_bad_input import Case, _state_of

CASES: list[Case] = []


class Point(TensorClass):
    """A declared class."""

    x: Float32[Tensor, "2"]
    n: Int64[Tensor, ""]


def rows(errors: Any, *cases: Any) -> None:
    """Register cases that raise the same kind of error."""
    kinds = errors if isinstance(errors, tuple) else (errors,)
    CASES.extend(Case(name, call, kinds, words) for name, call, *words in cases)


def dense(*size: int, **more: Any) -> TensorDict:
    """Two tensors, one of them below."""
    size = size or (2, 3)
    return TensorDict({"a": torch.ones(*size, 4), "n": {"x": torch.ones(size)}, **more}, batch_size=size)


def member(n: int, **more: Any) -> TensorDict:
    """A container without dims whose entry has n elements."""
    return TensorDict(a=torch.ones(n), **more)


class World:
    """What a row may use."""

    def __init__(self) -> None:
        self.d: Any = dense()
        self.o: Any = dense().select("a")
        self.named: Any = TensorDict(a=torch.ones(2, 3), batch_size=[2, 3], names=["time", "lane"])
        self.even: Any = lazy_stack([dense(3) for _ in range(2)])
        self.uneven: Any = lazy_stack([member(2), member(3, only=torch.ones(1))])
        self.ragged: Any = lazy_stack([TensorDict(a=torch.ones(n), batch_size=[n]) for n in (2, 3)])
        self.objects: Any = TensorDict(a=torch.ones(2), batch_size=[2])
        self.objects["who"] = ["ann", "bob"]
        self.point: Any = Point(torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), batch_size=[5])
        self.locked: Any = dense().lock_()
        self.ints: Any = TensorDict(a=torch.ones(2, dtype=torch.int64), batch_size=[2])

    def state(self) -> list[Any]:
        """Everything that a failure must leave alone."""
        stacks = (self.even, self.uneven, self.ragged)
        parts = [self.d, self.o, self.named, self.objects, self.point, self.locked, self.ints]
        return [_state_of(part) for part in [*parts, *(m for s in stacks for m in s._members)]]


ANY = (TensorClassError,)
BUILTIN = {
    **dict.fromkeys(
        (
            "a default that is none",
            "a sum over an absent name",
            "a flip of an absent name",
            "too few names",
            "the same name twice",
            "names of another length at construction",
            "a renamed name that is absent",
            "a quantile above one",
            "an unknown form of to_dict",
        ),
        ValueError,
    ),
    **dict.fromkeys(
        (
            "a lazy stack of a tensor and a container",
            "a name that is a number",
            "a member that is none",
            "from_dataclass of a number",
            "from_namedtuple of a tuple",
            "an unknown option of apply",
            "iteration of a container without dims",
        ),
        TypeError,
    ),
}
"""Wrong arguments rather than wrong data: Python's own errors."""

# ---- operands --------------------------------------------------------------------------------------------------------

rows(
    ANY,
    ("other keys in a sum", lambda w: w.d + w.o, "`n`|n.x", "default="),
    ("an unknown key in a sum", lambda w: w.o + w.d, "`n`|n.x"),
    ("other keys in a comparison", lambda w: w.d == w.d.select("n"), "`a`"),
    ("other batch sizes in a product", lambda w: w.d * dense(4, 3), "[2, 3]", "[4, 3]"),
    ("a tensor that does not broadcast", lambda w: w.d + torch.ones(5), "[5]", "[2, 3]"),
    ("other keys in lerp", lambda w: w.d.lerp(w.o, 0.5), "n"),
    ("other keys in addcmul", lambda w: w.d.addcmul(w.d, w.o), "n"),
    ("other keys in place", lambda w: w.d.add_(w.o), "n"),
    ("other keys in maximum", lambda w: w.d.maximum(w.o), "n"),
    ("a condition of another size", lambda w: w.d.where(torch.ones(5, dtype=torch.bool), w.d), "[5]", "[2, 3]"),
    ("a condition that is not a mask", lambda w: w.d.where(torch.ones(2, 3), w.d), "bool"),
    ("a mask of another size", lambda w: w.d.masked_fill(torch.ones(5, dtype=torch.bool), 0), "5", "[2, 3]"),
    ("a fraction added to ints in place", lambda w: w.ints.add_(0.5), "int64", "use `add`"),
    ("a default that is none", lambda w: w.d.add(w.o, default="union"), "union", "intersection"),
)

# ---- joins -----------------------------------------------------------------------------------------------------------

rows(
    ANY,
    ("a stack of other keys", lambda w: torch.stack([w.d, w.o]), "keys", "`n`", "position 0"),
    ("a stack of other batch sizes", lambda w: torch.stack([w.d, dense(4, 3)]), "[2, 3]", "[4, 3]"),
    ("a stack of other event shapes", lambda w: torch.stack([member(2), member(3)]), "`a`", "[2]", "[3]", "position 1"),
    (
        "a stack of other shapes below",
        lambda w: stack([TensorDict(n=member(2)), TensorDict(n=member(3))]),
        "n.a",
        "[2]",
        "[3]",
    ),
    ("cat of other sizes beside the dim", lambda w: torch.cat([w.d, dense(2, 5)], 0), "[2, 3]", "[2, 5]"),
    ("cat of other keys", lambda w: cat([w.o, w.d]), "keys", "`n`", "position 1"),
    ("cat along no dim", lambda w: torch.cat([member(2), member(2)]), "batch dim", "stack"),
    (
        "stack of a class and a container",
        lambda w: torch.stack([w.point, w.point.to_tensordict()]),
        "one class",
        "Point",
        "TensorDict",
    ),
    ("stack of a tensor and a container", lambda w: torch.stack([w.d, torch.ones(2, 3)]), "Tensor", "position 1"),
    ("stack of nothing", lambda w: TensorDict.stack([]), "at least one", "empty"),
    ("cat of other names", lambda w: torch.cat([w.named, w.named.rename("a", "b")]), "time", "name"),
    (
        "cat of shared tensors that differ",
        lambda w: torch.cat([TensorDict(t=UnbatchedTensor(torch.ones(2) * i), batch_size=[2]) for i in (0, 1)]),
        "`t`",
    ),
    (
        "a lazy stack of a tensor and a container",
        lambda w: lazy_stack([w.d, torch.ones(2, 3)]),
        "Tensor",
        "position 1",
        "torch.stack",
    ),
    ("a lazy stack of other numbers of dims", lambda w: lazy_stack([w.d, dense(2)]), "[2, 3]", "[2]"),
    ("padding of other keys", lambda w: pad_sequence([dense(2), dense(3).select("a")]), "n"),
    ("padding with other than numbers", lambda w: pad(w.ints, [0, 1], value=0.5), "0.5", "int64|`a`"),
    ("padding beyond the batch", lambda w: pad(w.ints, [0, 1, 0, 1]), "[0, 1, 0, 1]", "1 batch dim"),
)

# ---- shapes, dims, names ---------------------------------------------------------------------------------------------

rows(
    BatchDimError,
    ("a sum over an absent dim", lambda w: w.d.sum(2), "sum", "2", "-2 to 1|legal"),
    ("a mean over an absent dim", lambda w: w.d.mean(-3), "mean", "-3", "-2 to 1|legal"),
    ("a softmax over an absent dim", lambda w: w.d.softmax(4), "softmax", "4"),
    ("a cumulative maximum over an absent dim", lambda w: w.d.cummax(2), "cummax", "2"),
    ("all over an absent dim", lambda w: w.d.bool().all(dim=5), "all", "5"),
    ("a sum over an absent name", lambda w: w.named.sum("lan"), "lan", "lane"),
    ("a flip of an absent name", lambda w: w.named.flip("row"), "row", "time"),
)
rows(
    ANY,
    ("too few names", lambda w: setattr(w.d, "names", ["time"]), "2 batch dims", "time"),
    ("the same name twice", lambda w: setattr(w.d, "names", ["t", "t"]), "distinct", "['t', 't']"),
    ("a name that is a number", lambda w: setattr(w.d, "names", [0, 1]), "0", "str"),
    (
        "names of another length at construction",
        lambda w: TensorDict(batch_size=[2], names=["a", "b"]),
        "1 batch dims|1 batch dim",
        "b",
    ),
    ("a renamed name that is absent", lambda w: w.named.rename(row="x"), "row", "time"),
    ("refined to other names", lambda w: w.named.refine_names("x", ...), "time", "x"),
    ("a sum over no dims", lambda w: w.d.sum(()), "sum", "dim"),
    ("a quantile above one", lambda w: w.d.quantile(1.5, 0), "1.5|q"),
    ("a mean of ints", lambda w: w.ints.mean(0), "`a`", "int64"),
    (
        "reduce without a tensor",
        lambda w: TensorDict(batch_size=[2]).sum(reduce=True),
        "sum|no",
        "tensor|leaves|entries",
    ),
    ("a reshape to another number", lambda w: w.d.reshape(4), "6 elements", "[4]"),
    ("two open dims", lambda w: w.d.reshape(-1, -1), "-1", "one"),
    ("an expand of a dim that is not one", lambda w: w.d.expand(4, 3), "[2, 3]", "4"),
    ("an index beyond the end", lambda w: w.d[2], "2", "[2, 3]|size 2"),
    ("an index of floats", lambda w: w.d[torch.ones(2)], "float32|int64|bool"),
    ("a mask of another size as an index", lambda w: w.d[torch.ones(3, dtype=torch.bool)], "[3]|3", "[2, 3]|2"),
    (
        "gather of another number of dims",
        lambda w: w.d.gather(0, torch.zeros(1, dtype=torch.int64)),
        "gather",
        "1",
        "2",
    ),
    ("split into other sizes", lambda w: w.d.split([1, 2], 0), "[1, 2]", "2", "batch dim 0"),
    ("a chunk of none", lambda w: w.d.chunk(0), "chunk", "0"),
)

# ---- writes ----------------------------------------------------------------------------------------------------------

rows(
    ANY,
    ("missing keys at an index", lambda w: w.d.__setitem__(0, {"a": torch.zeros(3, 4)}), "n"),
    (
        "unknown keys at an index",
        lambda w: w.d.__setitem__(0, {"a": torch.zeros(3, 4), "n": {"x": torch.zeros(3)}, "z": torch.zeros(3)}),
        "z",
    ),
    ("another size at an index", lambda w: w.d.__setitem__(0, dense(5)), "[5]", "[3]"),
    ("another event shape in place", lambda w: w.d.set_("a", torch.ones(2, 3, 9)), "`a`", "[2, 3, 4]", "[2, 3, 9]"),
    (
        "a fraction into ints",
        lambda w: w.ints.set_("a", torch.ones(2) / 2),
        "`a`",
        "int64",
        "float32",
        ".to(torch.int64)",
    ),
    ("an unknown key in update_", lambda w: w.d.update_({"aa": torch.ones(2, 3)}), "aa", "did you mean `a`"),
    ("a key of a locked container", lambda w: w.locked.set("z", torch.ones(2, 3)), "locked", "unlock_()", "`z`"),
    ("a key below a locked container", lambda w: w.locked["n"].set("z", torch.ones(2, 3)), "locked", "`z`"),
    ("unlocking below a locked container", lambda w: w.locked["n"].unlock_(), "locked", "outermost"),
    ("a rename onto another key", lambda w: w.d.rename_key_("a", "n", safe=True), "n"),
    ("flat keys that collide", lambda w: TensorDict({"a.b": 1, "a": {"b": 2}}).flatten_keys("."), "a.b"),
    (
        "a list of another length as objects",
        lambda w: w.objects.__setitem__("who", NonTensorData("x", batch_size=[5])),
        "who",
        "[5]",
        "[2]",
    ),
    ("data of another shape", lambda w: setattr(w.d, "data", dense(2, 4)), "[2, 3]|[2, 4]"),
)

# ---- lazy stacks and ragged reads ------------------------------------------------------------------------------------

rows(
    ANY,
    (
        "a ragged read that can't be dense",
        lambda w: w.uneven["a"],
        "`a`",
        "[2]",
        "[3]",
        "as_list=True",
        "as_padded_tensor",
    ),
    ("a ragged batch read as a tensor", lambda w: w.ragged["a"], "`a`", "[2]", "[3]"),
    ("a sum of a ragged entry", lambda w: w.uneven.select("a").sum(0), "`a`", "[2]", "[3]"),
    ("a key that one member has", lambda w: w.uneven["only"], "`only`", "positions 1", "default"),
    ("a reshape of a ragged batch", lambda w: w.ragged.reshape(2, 3), "5 elements", "[2, 3]"),
    ("a value of another count", lambda w: w.even.set("z", torch.ones(5, 3)), "`z`", "[2, 3]", "[5, 3]"),
    ("a member of another size", lambda w: w.even.__setitem__(0, dense(7)), "[7]", "[3]"),
    ("a member appended with other dims", lambda w: w.even.append(dense(2, 3)), "[2, 3]", "[3]"),
    ("a member that is none", lambda w: w.even.append(torch.ones(3)), "Tensor"),
    ("a write in place of a key that one member has", lambda w: w.uneven.set_("only", torch.ones(2, 1)), "only"),
    ("an unknown key in update_ of a stack", lambda w: w.even.update_({"aa": torch.ones(2, 3)}), "aa", "`a`"),
    ("a stack member out of range", lambda w: w.even[5], "5"),
    ("a dict of an uneven stack", lambda w: w.uneven.to_dict(), "only|`a`"),
)

# ---- conversions and states ------------------------------------------------------------------------------------------

rows(
    ANY,
    ("a state without a key", lambda w: w.d.load_state_dict(w.o.state_dict()), "missing", "`n.x`", "strict=False"),
    (
        "a state with an unknown key",
        lambda w: w.o.load_state_dict(w.d.state_dict()),
        "unexpected",
        "`n.x`",
        "strict=False",
    ),
    (
        "a state of other shapes",
        lambda w: w.d.load_state_dict(dense(2, 3, 1).state_dict()),
        "`a`",
        "[2, 3, 4]",
        "[2, 3, 1, 4]",
    ),
    ("a state that is none", lambda w: w.d.load_state_dict([1]), "mapping", "list"),
    (
        "a dict of another batch size",
        lambda w: TensorDict.from_dict({"a": torch.ones(3)}, batch_size=[2]),
        "`a`",
        "[2]",
        "[3]",
    ),
    ("from_dict of a list", lambda w: TensorDict.from_dict([1, 2]), "mapping|dict", "list"),
    ("numpy of bfloat16", lambda w: w.d.bfloat16().numpy(), "`a`", "bfloat16"),
    ("numpy of a gradient", lambda w: w.d.clone().requires_grad_().numpy(), "`a`", "detach"),
    ("from_dataclass of a number", lambda w: TensorDict.from_dataclass(3), "dataclass", "3", "from_any"),
    ("from_namedtuple of a tuple", lambda w: TensorDict.from_namedtuple((1, 2)), "tuple", "from_tuple|_fields|named"),
    (
        "a tuple of other batch sizes",
        lambda w: TensorDict.from_tuple((torch.ones(2), torch.ones(3)), batch_size=[2]),
        "[2]",
        "[3]",
    ),
    ("an unknown form of to_dict", lambda w: w.d.to_dict(convert_tensors="lists"), "convert_tensors", "lists"),
    ("a cast to a word", lambda w: w.d.to("float"), "float", "torch.float32"),
    ("a device that is none", lambda w: TensorDict(a=torch.ones(1), device="gpu0"), "gpu0", "cuda"),
)

# ---- apply, gradients, context managers ------------------------------------------------------------------------------

rows(
    ANY,
    ("a function that drops the batch", lambda w: w.d.apply(lambda t: t.sum()), "`n.x`", "[]", "[2, 3]", "batch_size="),
    ("a function that gives a number", lambda w: w.d.apply(lambda t: 3), "`n.x`", "[]", "[2, 3]"),
    ("a second container without a key", lambda w: w.d.apply(torch.add, w.o), "n", "default="),
    ("a function that breaks a declaration", lambda w: w.point.apply(lambda t: t.double()), "Point|x", "float64"),
    ("an unknown option of apply", lambda w: w.d.apply(torch.neg, in_place=True), "in_place"),
    ("gradients of ints", lambda w: w.ints.requires_grad_(), "`a`", "int64"),
    ("backward without a graph", lambda w: w.d.backward(), "grad"),
    ("backward without a weight", lambda w: (w.d.clone().requires_grad_() * 2).backward(gradient=w.o), "n"),
    ("matmul of containers", lambda w: torch.matmul(w.d, w.d), "matmul", "field|leaf"),
    ("a container as a condition", lambda w: bool(w.d), "ambiguous", "TensorDict"),
    ("iteration of a container without dims", lambda w: list(member(2)), "batch"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_programs_raise_and_change_nothing(case: Case) -> None:
    """The right error, with every word that a user needs, and all containers as they were."""
    world = World()
    before = world.state()
    with pytest.raises(BUILTIN.get(case.name, case.errors)) as caught:
        case.call(world)
    message = str(caught.value)
    for word in case.words:
        assert any(part in message for part in word.split("|")), f"{word!r} is not in:\n{message}"
    assert world.state() == before
    assert "object at 0x" not in message


def test_the_table_is_large_and_its_names_differ() -> None:
    """At least 100 wrong programs, each with words to look for."""
    assert len(CASES) >= 100
    assert BUILTIN.keys() <= {case.name for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.words for case in CASES)
