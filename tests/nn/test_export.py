"""torch.export of every form of a network with a dynamic batch: containers in and out, or tensors by name."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.export import Dim, ShapesCollection
from torch.utils._pytree import tree_leaves

from tests.nn._deployed import FORMS, tensors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"
    ),  # of torch itself
    # Reading the interaction type is no side effect, which strict tracing can't know.
    pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning"),
]
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
SIZES = (2, 5, 17)


@pytest.fixture(autouse=True)
def _unvalidated() -> None:
    """An exported program can't look at values."""
    Distribution.set_default_validate_args(False)


class ByName(nn.Module):
    """A form of the network over tensors by name, and a dict of tensors out."""

    def __init__(self, module: nn.Module, batch: Any, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.module = module
        self.batch = batch
        self.outputs = outputs

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Batch, call, take apart."""
        result = self.module(self.batch(x, y))
        return {name: result[name] for name in self.outputs}


@forms
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_tensors_in_and_out(form, strict):
    """A wrapper with the names of the fields; the exported program gives the numbers for other batch sizes."""
    layers = form.raw().eval()
    module = ByName(form.build(layers), form.batch, form.outputs).eval()
    rows = Dim("rows", min=2)
    shapes = {"x": {0: rows}, "y": {0: rows}}
    exported = torch.export.export(module, tensors(4), dynamic_shapes=shapes, strict=strict)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    for program in (exported.module(), torch.export.load(file).module()):
        for size in SIZES:
            result = program(*tensors(size))
            assert list(result) == list(form.outputs)
            for found, expected in zip(result.values(), layers(*tensors(size)), strict=True):
                torch.testing.assert_close(found, expected)


@forms
def test_containers_in_and_out(form):
    """The container itself goes in and comes out, as a pytree, with its class and batch size; unflattened too."""
    layers = form.raw().eval()
    module = form.build(layers).eval()
    given = form.batch(*tensors(4))
    expected_class = type(module(given.copy()))
    shapes = ShapesCollection()
    for leaf in tree_leaves(given):
        shapes[leaf] = {0: Dim("rows", min=2)}
    exported = torch.export.export(module, (given,), dynamic_shapes=shapes, strict=False)
    for program in (exported.module(), torch.export.unflatten(exported)):
        for size in SIZES:
            result = program(form.batch(*tensors(size)))
            assert type(result) is expected_class
            assert result.batch_size == (size,)
            for name, expected in zip(form.outputs, layers(*tensors(size)), strict=True):
                torch.testing.assert_close(result[name], expected)
