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
