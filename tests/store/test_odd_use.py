"""Uses that no example shows: absent keys, odd indices, odd leaves, containers inside themselves."""

import copy
import pickle

import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict, errors, tensorclass
from tensorclass.errors import MissingKeyError, UnknownFieldError


@tensorclass
class Row:
    """A class whose property fails inside."""

    x: Tensor

    @property
    def broken(self) -> Tensor:
        """Reads what is not there."""
        return self.nothing  # type: ignore[attr-defined, no-any-return]  # the point of the test


def batch(**entries: object) -> TensorDict:
    """Three rows."""
    return TensorDict({"a": torch.arange(6.0).reshape(3, 2), "b": {"c": torch.ones(3)}, **entries}, batch_size=[3])


# ---- absent keys -----------------------------------------------------------------------------------------------------


def test_asking_for_what_is_absent_compares_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """`get`, `hasattr` and a caught error look for no nearest name: that takes longer than the rest by far."""

    def refuse(*_: object) -> str:
        raise AssertionError("names were compared")

    monkeypatch.setattr(errors, "SequenceMatcher", refuse)
    data, row = batch(), Row(x=torch.zeros(3), batch_size=[3])
    assert data.get("q") is None
    assert data.get(("b", "q"), 1) == 1
    assert data.get(("q", "r")) is None
    assert not hasattr(row, "nothing")
    assert row.get("nothing", 2) == 2
    with pytest.raises(MissingKeyError):
        data["q"]


def test_the_error_of_an_absent_key_survives_a_pickle() -> None:
    """The text is put together when it is read, and travels as text."""
    with pytest.raises(MissingKeyError) as caught:
        batch()["b", "d"]
    text = "TensorDict has no key `d`; its keys are ['c']"
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    assert str(copy.copy(caught.value)) == text


def test_an_absent_key_among_many_names_the_nearest_and_not_all() -> None:
    """A message of ten thousand keys helps nobody."""
    data = TensorDict({f"key{i}": torch.zeros(()) for i in range(1000)})
    with pytest.raises(MissingKeyError, match=r"did you mean `key99`\?.*\.\.\.\], 1000 in all") as caught:
        data["kez99"]
    assert len(str(caught.value)) < 600


def test_an_error_inside_a_property_is_its_own() -> None:
    """`hasattr` falls back to the property, whose error says what was missing there."""
    with pytest.raises(UnknownFieldError, match="no field or attribute `nothing`"):
        Row(x=torch.zeros(3), batch_size=[3]).broken  # reading it is the test


# ---- one object for each element, of a large batch -------------------------------------------------------------------


def texts(count: int) -> TensorDict:
    """A batch with a text for each element."""
    return TensorDict(text=[f"t{i}" for i in range(count)], x=torch.arange(count), batch_size=[count])


def test_rows_of_a_large_batch_carry_their_own_objects() -> None:
    """A pickled, copied, joined or merged row does not take the objects of all others along."""
    data = texts(500)
    row = data[7]
    assert b"t9" not in pickle.dumps(row)
    assert pickle.loads(pickle.dumps(row))["text"] == "t7"
    assert len(copy.deepcopy(row).get("text")._table) == 1
    assert "PerElement" in repr(data[:2])
    joined = torch.stack([row, texts(400)[3]])
    assert joined["text"] == ["t7", "t3"]
    assert len(joined.get("text")._table) == 2
    chosen = data[:2].where(torch.tensor([True, False]), texts(300)[5:7])
    assert chosen["text"] == ["t0", "t6"]
    assert len(chosen.get("text")._table) <= 4


def test_joined_rows_of_one_batch_share_its_objects() -> None:
    """A collated sample of a data set copies no table."""
    data = texts(500)
    sample = torch.stack([data[i] for i in (3, 499, 3)])
    assert sample["text"] == ["t3", "t499", "t3"]
    assert sample.get("text")._table is data.get("text")._table


def test_kinds_are_those_of_the_elements_that_are_there() -> None:
    """What is printed of a row says nothing of other rows."""
    data = TensorDict(note=["a", None, 3, 4, 5], batch_size=[5])
    assert "PerElement[str]" in repr(data[:1])


def test_a_buffer_of_texts_is_written_an_element_at_a_time() -> None:
    """Many writes, rows that were read before keep what they had, and what is overwritten is let go in the end."""
    data = texts(200)
    before = data[:3].clone()
    early = data.get("text")[5]
    for round in range(5):
        for i in range(200):
            data[i] = TensorDict(text=f"{round}-{i}", x=torch.tensor(-i))
    assert data["text"] == [f"4-{i}" for i in range(200)]
    assert before["text"] == ["t0", "t1", "t2"]
    assert early.item() == "t5"
    assert len(data.get("text")._table) <= 402


def test_two_stacks_that_grow_from_one_table_do_not_see_each_other() -> None:
    """The longest table grows in place; a shorter one that is written makes its own."""
    data = texts(100)
    data[0] = TensorDict(text="first", x=torch.tensor(0))
    twin = data.clone()
    data[1] = TensorDict(text="mine", x=torch.tensor(0))
    twin[1] = TensorDict(text="theirs", x=torch.tensor(0))
    data[2] = TensorDict(text="more", x=torch.tensor(0))
    assert data["text"][:4] == ["first", "mine", "more", "t3"]
    assert twin["text"][:4] == ["first", "theirs", "t2", "t3"]
    assert pickle.loads(pickle.dumps(twin))["text"] == twin["text"]
    leaves, spec = torch.utils._pytree.tree_flatten(twin)
    assert spec == torch.utils._pytree.tree_structure(twin.clone())
    assert torch.utils._pytree.tree_unflatten(leaves, spec)["text"] == twin["text"]
    with pytest.raises(AttributeError):
        twin.get("text")._table.append("more")
