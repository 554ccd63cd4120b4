"""ONNX programs of typed and keyed networks: inputs and outputs named by fields, numbers compared in onnxruntime."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.export import Dim

from tests.nn._deployed import FORMS, tensors

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _unvalidated() -> None:
    """An exported program can't look at values."""
    Distribution.set_default_validate_args(False)


class ByName(nn.Module):
    """A form of the network over tensors by the names of fields."""

    def __init__(self, module: nn.Module, batch: Any, outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.module = module
        self.batch = batch
        self.outputs = outputs

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Batch, call, take apart."""
        result = self.module(self.batch(x, y))
        return tuple(result[name] for name in self.outputs)


@pytest.mark.parametrize("name", ["typed sequence", "nested sequence", "class to class", "keyed sequence", "policy"])
def test_onnx(name, tmp_path):
    """The names of the fields, a dynamic batch, the numbers of the network."""
    runtime = importlib.import_module("onnxruntime")
    form = FORMS[name]
    layers = form.raw().eval()
    module = ByName(form.build(layers), form.batch, form.outputs).eval()
    rows = Dim("rows", min=2)
    path = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter and the libraries that it imports
        torch.onnx.export(
            module,
            tensors(4),
            path,
            dynamo=True,
            verbose=False,
            input_names=["x", "y"],
            output_names=list(form.outputs),
            dynamic_shapes=({0: rows}, {0: rows}),
        )
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == ["x", "y"]
    assert [made.name for made in session.get_outputs()] == list(form.outputs)
    for size in (2, 5, 17):
        x, y = tensors(size)
        results = session.run(None, {"x": x.numpy(), "y": y.numpy()})
        for found, expected in zip(results, layers(x, y), strict=True):
            np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
