"""Reductions of bools and integers that torch refuses: the hint names a cast that works."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import UnsupportedOperationError
from tensorclass.typing import Bool


class Known(TensorClass):
    known: Bool[Tensor, ""]


BOOLS = torch.tensor([True, False, True, True])


@pytest.mark.parametrize("batch", [Known(BOOLS), TensorDict(known=BOOLS, batch_size=[4])], ids=["typed", "untyped"])
@pytest.mark.parametrize("op", ["mean", "nanmean", "std", "var"])
def test_the_hint_casts_and_the_program_runs(batch: Any, op: str) -> None:
    """A mean of bools is refused, also after `float()` of a typed batch, which keeps them; the hint runs."""
    with pytest.raises(UnsupportedOperationError) as caught:
        getattr(batch.float() if isinstance(batch, Known) else batch, op)()
    hint = str(caught.value).partition("cast it: `")[2].partition("`")[0]
    if hint.startswith(op):
        found = eval(f"batch.{hint}", {"batch": batch, "torch": torch})
    else:
        found = getattr(eval(f"batch.{hint}", {"batch": batch, "torch": torch}), op)()
    torch.testing.assert_close(found["known"], getattr(torch, op)(BOOLS.float()))
