"""A graph network on mini-batches: every connected graph of up to seven nodes, and its algebraic connectivity.

Nodes and edges are ragged fields, so a mini-batch is one large graph with many components: `nodes.offsets` has the
first node of each component, and `nodes.segment_ids` the component of each node. The graphs come with networkx.
"""

from __future__ import annotations

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


@tensorclass
class Graph:
    """A graph and the second eigenvalue of its Laplacian, which is 0 if the graph is disconnected."""

    nodes: Float32[RaggedTensor, "n 1"]  # how many neighbours each node has
    edges: Int64[RaggedTensor, "e 2"]  # from, to; each edge in both directions
    strength: Float32[Tensor, ""]


def load() -> Graph:
    """Load the 995 connected graphs of two to seven nodes."""
    graphs = []
    for atlas in nx.graph_atlas_g()[2:]:
        adjacency = torch.tensor(nx.to_numpy_array(atlas), dtype=torch.float32)
        degrees = adjacency.sum(1)
        strength = torch.linalg.eigvalsh(degrees.diag() - adjacency)[1]
        if strength > 1e-4:
            graphs.append(Graph(nodes=degrees[:, None], edges=adjacency.nonzero(), strength=strength))
    return collate(graphs)


class Network(nn.Module):
    """Pass messages along the edges of all graphs at once, then take the mean and the minimum of each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(1, WIDTH)
        self.rounds = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(ROUNDS)
        )
        self.last = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0))

    def forward(self, nodes: RaggedTensor, edges: RaggedTensor) -> Tensor:
        """Return `[graphs]`. Node numbers start at 0 in each graph, and are shifted to the numbers in the batch."""
        start, end = (edges.values + nodes.offsets[edges.segment_ids, None]).unbind(1)
        state: Tensor = self.first(nodes.values)
        for round_ in self.rounds:
            heard = torch.zeros_like(state).index_add(0, end, state[start])
            state = state + round_(torch.cat([state, heard], 1))
        whole = RaggedTensor(state, lengths=nodes.lengths)
        expected: Tensor = self.last(torch.cat([whole.mean(), whole.min()], 1))
        return expected


@torch.no_grad()
def error(model: TensorClassSequential[Graph, Tensor], graphs: Graph) -> float:
    """Return the root mean square error of the predictions."""
    return nn.functional.mse_loss(model(graphs), graphs.strength).sqrt().item()


def train(model: TensorClassSequential[Graph, Tensor], graphs: Graph, test: Graph) -> list[float]:
    """Train with Adam; return the error on the test graphs after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    errors = [error(model, test)]
    for _ in range(EPOCHS):
        for batch in graphs.iter(32, shuffle=True):
            loss = nn.functional.mse_loss(model(batch), batch.strength)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        errors.append(error(model, test))
    return errors


def main() -> None:
    """Load, train, compare with the mean of all graphs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    graphs = load().shuffle()
    test, training = graphs[:200], graphs[200:]
    model = TensorClassSequential(network=stage(Network(), Graph.nodes, Graph.edges, returns=Float32[Tensor, ""]))
    errors = train(model, training, test)
    average = (test.strength - training.strength.mean()).square().mean().sqrt().item()
    print(f"off by {errors[-1]:.3f} on {len(test)} graphs; the mean of all graphs is off by {average:.2f}")
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    curve, points = figure.subplots(1, 2)
    curve.plot(errors)
    curve.set(xlabel="epoch", ylabel="error", yscale="log")
    with torch.no_grad():
        points.scatter(test.strength, model(test), s=6)
    points.set(xlabel="second eigenvalue of the Laplacian", ylabel="said by the model")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    assert errors[-1] < 0.4 * average


if __name__ == "__main__":
    main()
