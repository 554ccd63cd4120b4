"""Every test that asks for `form` or `ns` runs for the decorator, the base class and both at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.classes._samples import FORMS, SAMPLES, Form


@pytest.fixture(params=FORMS)
def form(request: Any) -> Form:
    """A way to declare a class."""
    return FORMS[request.param]


@pytest.fixture(params=SAMPLES)
def ns(request: Any) -> SimpleNamespace:
    """The sample classes, declared in one way."""
    return SAMPLES[request.param]
