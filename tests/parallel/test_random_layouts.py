"""Operations on distributed batches give what one process gives, for random classes and layouts."""

from __future__ import annotations

import pytest

from tests.parallel._random_layouts import compare


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_random_layouts_equal_one_process(world: int) -> None:
    """No operation gives other values; what DTensor lacks (unbinding a split dim) is an error."""
    verdicts = compare(24, world, start=1000)
    assert [text for kind, text in verdicts if kind == "different"] == []
    assert all(" unbind of " in text for kind, text in verdicts if kind == "refused")
