"""DDP and fully_shard around typed and keyed modules: the gradients of the plain network on the whole batch."""

from __future__ import annotations

import pytest
import torch

from tests.nn import _ranks
from tests.nn._deployed import FORMS

pytestmark = pytest.mark.slow

TRAINED = tuple(name for name in FORMS if name != "parameters outside")


@pytest.mark.parametrize("how", ["ddp", "fsdp", "fsdp each"])
def test_gradients_are_those_of_the_plain_network(how, tmp_path):
    """Batches of every kind pass the wrappers; both ranks hold gradients and parameters of one process."""
    for found in _ranks.run(_ranks.step, tmp_path, how, TRAINED):
        for name in TRAINED:
            gradients, parameters = found[name]
            expected, trained = _ranks.expected(name)
            for ours, theirs in zip([*gradients, parameters], [*expected, trained], strict=True):
                torch.testing.assert_close(ours, theirs)
