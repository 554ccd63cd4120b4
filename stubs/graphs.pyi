# Written by `tensorclass stubs` from graphs.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A graph network on mini-batches: every connected graph of up to seven nodes, and its algebraic connectivity.

Nodes and edges are ragged fields, so a mini-batch is one large graph with many components: `nodes.offsets` has the
first node of each component, and `nodes.segment_ids` the component of each node. The graphs come with networkx.
"""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from pathlib import Path
import networkx as nx
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tensorclass import RaggedTensor, collate, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64
WIDTH, ROUNDS, EPOCHS = 64, 4, 40
PICTURE = Path("build", "graphs.svg")

class Graph(_t.Declared, _TensorClass):
    """A graph and the second eigenvalue of its Laplacian, which is 0 if the graph is disconnected."""
    nodes: Float32[RaggedTensor, "n 1"]  # how many neighbours each node has
    edges: Int64[RaggedTensor, "e 2"]  # from, to; each edge in both directions
    strength: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Graph | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Graph | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        nodes: _t.RaggedGiven = ...,
        edges: _t.RaggedGiven = ...,
        strength: Tensor = ...,
    ) -> Graph: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["nodes", "edges"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["strength"]) -> Tensor: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["nodes", "edges"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["strength"]) -> Tensor: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def load() -> Graph:
    """Load the 995 connected graphs of two to seven nodes."""

class Network(nn.Module):
    """Pass messages along the edges of all graphs at once, then take the mean and the minimum of each graph."""
    def __init__(self) -> None: ...
    def forward(self, nodes: RaggedTensor, edges: RaggedTensor) -> Tensor:
        """Return `[graphs]`. Node numbers start at 0 in each graph, and are shifted to the numbers in the batch."""
    first: _Any
    rounds: _Any
    last: _Any

@torch.no_grad()
def error(model: TensorClassSequential[Graph, Tensor], graphs: Graph) -> float:
    """Return the root mean square error of the predictions."""
def train(model: TensorClassSequential[Graph, Tensor], graphs: Graph, test: Graph) -> list[float]:
    """Train with Adam; return the error on the test graphs after each epoch."""
def main() -> None:
    """Load, train, compare with the mean of all graphs."""
