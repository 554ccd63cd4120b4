"""Random sequences of operations on a lazy stack, beside a list of dicts of tensors."""

from __future__ import annotations

import hypothesis.strategies as st
import torch
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorDict, lazy_stack

WIDTH = 3
KEYS = ("a", "b", "c")
rows = st.integers(0, 5)
numbers = st.integers(-3, 3).map(float)


def member(number: float, length: int) -> dict[str, Tensor]:
    """The plain form of a member: one entry that all share in shape, one whose length is its own."""
    return {"a": torch.full((WIDTH, 2), number), "b": torch.full((WIDTH, length), number)}


class Stacks(RuleBasedStateMachine):
    """The stack and the list hold the same after every step."""

    @initialize(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def start(self, lengths: list[int]) -> None:
        """A stack of a few members."""
        self.model = [member(float(i), length) for i, length in enumerate(lengths)]
        self.stack: LazyStackedTensorDict = lazy_stack([self.of(plain) for plain in self.model])

    @staticmethod
    def of(plain: dict[str, Tensor]) -> TensorDict:
        """A member that shares no memory with its plain form."""
        return TensorDict({key: value.clone() for key, value in plain.items()}, batch_size=[WIDTH])

    @rule(number=numbers, length=st.integers(0, 3), at=st.none() | rows)
    def add(self, number: float, length: int, at: int | None) -> None:
        """Append or insert."""
        plain = member(number, length)
        self.model.insert(len(self.model) if at is None else at, plain)
        self.stack.append(self.of(plain)) if at is None else self.stack.insert(at, self.of(plain))

    @rule(at=rows)
    def drop_by_index(self, at: int) -> None:
        """Keep all but one member; the slices share tensors."""
        if len(self.model) > 1:
            at %= len(self.model)
            keep = [i for i in range(len(self.model)) if i != at]
            self.model = [self.model[i] for i in keep]
            self.stack = self.stack[torch.tensor(keep)]

    @rule(start=rows, step=st.sampled_from([1, 2]))
    def slice(self, start: int, step: int) -> None:
        """A slice with members left."""
        if self.model[start::step]:
            self.model = self.model[start::step]
            self.stack = self.stack[start::step]

    @rule(mask=st.lists(st.booleans(), min_size=12, max_size=12))
    def masked(self, mask: list[bool]) -> None:
        """A mask with members left."""
        wanted = [plain for plain, keep in zip(self.model, mask, strict=False) if keep]
        if wanted and len(self.model) <= len(mask):
            self.stack = self.stack[torch.tensor(mask[: len(self.model)])]
            self.model = wanted

    @rule()
    def flip(self) -> None:
        """The last member first, each turned."""
        self.model = [{key: value.flip(0) for key, value in plain.items()} for plain in reversed(self.model)]
        self.stack = self.stack.flip((0, 1))

    @rule(number=numbers)
    def set_entry(self, number: float) -> None:
        """A new entry, cut over the members; or the same key again."""
        value = torch.arange(len(self.model) * WIDTH, dtype=torch.float32).reshape(-1, WIDTH) + number
        self.stack["c"] = value
        for plain, row in zip(self.model, value, strict=True):
            plain["c"] = row.clone()

    @rule()
    def delete_entry(self) -> None:
        """Remove it where all have it."""
        if all("c" in plain for plain in self.model):
            del self.stack["c"]
            for plain in self.model:
                del plain["c"]

    @rule(number=numbers)
    def add_in_place(self, number: float) -> None:
        """An augmented operator reaches every tensor."""
        self.stack += number
        for plain in self.model:
            for value in plain.values():
                value += number

    @rule(number=numbers, at=rows, column=st.integers(0, WIDTH - 1))
    def assign(self, number: float, at: int, column: int) -> None:
        """One element of one member."""
        at %= len(self.model)
        self.stack[at, column] = dict.fromkeys(self.model[at], number)
        for value in self.model[at].values():
            value[column] = number

    @rule(number=numbers, column=st.integers(0, WIDTH - 1))
    def assign_across(self, number: float, column: int) -> None:
        """One element of every member."""
        self.stack.set_at_("a", torch.full((2,), number), (slice(None), column))
        for plain in self.model:
            plain["a"][column] = number

    @rule()
    def scale(self) -> None:
        """Arithmetic gives a new stack: the old one stays."""
        old, before = self.stack, self.stack[0]["a"].clone()
        self.stack = self.stack * 0.5
        assert torch.equal(old[0]["a"], before)
        self.model = [{key: value * 0.5 for key, value in plain.items()} for plain in self.model]

    @rule()
    def double(self) -> None:
        """Concatenate a copy of the stack to it."""
        if len(self.model) <= 4:
            self.stack = torch.cat([self.stack, self.stack.clone()])
            self.model = self.model + [{key: value.clone() for key, value in plain.items()} for plain in self.model]

    @invariant()
    def same(self) -> None:
        """Keys, sizes and every element."""
        if not hasattr(self, "model"):
            return
        assert self.stack.batch_size == torch.Size([len(self.model), WIDTH])
        common = [key for key in KEYS if all(key in plain for plain in self.model)]
        assert sorted(self.stack.keys()) == common
        for part, plain in zip(self.stack, self.model, strict=True):
            assert sorted(part.keys()) == sorted(plain)
            assert all(torch.equal(part[key], value) for key, value in plain.items())
        assert torch.equal(self.stack["a"], torch.stack([plain["a"] for plain in self.model]))
        lists = self.stack.get("b", as_list=True)
        assert all(torch.equal(value, plain["b"]) for value, plain in zip(lists, self.model, strict=True))


TestStacks = Stacks.TestCase
