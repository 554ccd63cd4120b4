"""`../graphs.py` with a dict for each graph: `join` makes a mini-batch, and has to know every entry."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

WIDTH, ROUNDS, EPOCHS = 64, 4, 40
PICTURE = Path("build", "graphs.svg")

Batch = dict[str, Tensor]


def load() -> list[Batch]:
    """Load the 995 connected graphs of two to seven nodes."""
    graphs = []
    for atlas in nx.graph_atlas_g()[2:]:
        adjacency = torch.tensor(nx.to_numpy_array(atlas), dtype=torch.float32)
        degrees = adjacency.sum(1)
        strength = torch.linalg.eigvalsh(degrees.diag() - adjacency)[1]
        if strength > 1e-4:
            graphs.append({"nodes": degrees[:, None], "edges": adjacency.nonzero(), "strength": strength})
    return graphs


def join(graphs: list[Batch]) -> Batch:
    """Make one graph of many; `part` says which graph a node belongs to."""
    counts = torch.tensor([len(graph["nodes"]) for graph in graphs])
    starts = (counts.cumsum(0) - counts).tolist()
    return {
        "nodes": torch.cat([graph["nodes"] for graph in graphs]),
        "edges": torch.cat([graph["edges"] + start for graph, start in zip(graphs, starts, strict=True)]),
        "part": torch.arange(len(graphs)).repeat_interleave(counts),
        "strength": torch.stack([graph["strength"] for graph in graphs]),
    }


class Network(nn.Module):
    """Pass messages along the edges of all graphs at once, then take the mean and the minimum of each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(1, WIDTH)
        self.rounds = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(ROUNDS)
        )
        self.last = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Flatten(0))

    def forward(self, nodes: Tensor, edges: Tensor, part: Tensor) -> Tensor:
        """Return `[graphs]`."""
        start, end = edges.unbind(1)
        state: Tensor = self.first(nodes)
        for round_ in self.rounds:
            heard = torch.zeros_like(state).index_add(0, end, state[start])
            state = state + round_(torch.cat([state, heard], 1))
        into = part[:, None].expand_as(state)
        whole = torch.zeros(int(part[-1]) + 1, WIDTH)
        mean = whole.scatter_reduce(0, into, state, "mean", include_self=False)
        least = whole.scatter_reduce(0, into, state, "amin", include_self=False)
        expected: Tensor = self.last(torch.cat([mean, least], 1))
        return expected


@torch.no_grad()
def error(model: Network, graphs: Batch) -> float:
    """Return the root mean square error of the predictions."""
    expected = model(graphs["nodes"], graphs["edges"], graphs["part"])
    return nn.functional.mse_loss(expected, graphs["strength"]).sqrt().item()


def train(model: Network, graphs: list[Batch], test: Batch) -> list[float]:
    """Train with Adam; return the error on the test graphs after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    errors = [error(model, test)]
    for _ in range(EPOCHS):
        for index in torch.randperm(len(graphs)).split(32):
            batch = join([graphs[i] for i in index.tolist()])
            loss = nn.functional.mse_loss(model(batch["nodes"], batch["edges"], batch["part"]), batch["strength"])
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
    graphs = load()
    graphs = [graphs[i] for i in torch.randperm(len(graphs)).tolist()]
    test, training = join(graphs[:200]), graphs[200:]
    model = Network()
    errors = train(model, training, test)
    mean = torch.stack([graph["strength"] for graph in training]).mean()
    average = (test["strength"] - mean).square().mean().sqrt().item()
    print(f"off by {errors[-1]:.3f} on {len(test['strength'])} graphs; the mean of all graphs is off by {average:.2f}")
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    curve, points = figure.subplots(1, 2)
    curve.plot(errors)
    curve.set(xlabel="epoch", ylabel="error", yscale="log")
    with torch.no_grad():
        points.scatter(test["strength"], model(test["nodes"], test["edges"], test["part"]), s=6)
    points.set(xlabel="second eigenvalue of the Laplacian", ylabel="said by the model")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    assert errors[-1] < 0.4 * average


if __name__ == "__main__":
    main()
