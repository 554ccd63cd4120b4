"""DDP and fully_shard around typed and keyed modules: the gradients of the plain network on the whole batch."""

from __future__ import annotations

import pytest
import torch

from tests.nn import _ranks
from tests.nn._deployed import FORMS

pytestmark = pytest.mark.slow

TRAINED = tuple(name for name in FORMS if name != "parameters outside")
TYPED = tuple(name for name in TRAINED if "keyed" not in name)
# DDP looks for unused parameters from what comes out, in lists, dicts and dataclasses: typed batches are of the last.
WAYS = [("ddp", TRAINED), ("ddp static", TRAINED), ("ddp unused", TYPED), ("fsdp", TRAINED), ("fsdp each", TRAINED)]


@pytest.mark.parametrize(("how", "names"), WAYS, ids=[how for how, _ in WAYS])
def test_gradients_are_those_of_the_plain_network(how, names, tmp_path):
    """Batches of every kind pass the wrappers; both ranks hold gradients and parameters of one process."""
    for found in _ranks.run(_ranks.step, tmp_path, how, names):
        for name in names:
            gradients, parameters = found[name]
            expected, trained = _ranks.expected(name)
            for ours, theirs in zip([*gradients, parameters], [*expected, trained], strict=True):
                torch.testing.assert_close(ours, theirs)


def test_mixed_precision(tmp_path):
    """A family takes the precision of the policy, a field of one dtype says that it does not fit."""
    for found in _ranks.run(_ranks.precision, tmp_path):
        assert found == {
            "half": "torch.bfloat16 torch.float32",
            "back": "torch.float32 torch.float32",
            "single": "bfloat16 [2, 3]",
            "keyed": "torch.bfloat16",
        }
