"""A small transformer on one process, or over a mesh of data and tensor parallel ranks, with the same losses.

    python examples/mesh.py
    torchrun --nproc-per-node 4 examples/mesh.py --dp 2 --tp 2

The classes and the pipeline don't change: a layout says over which ranks their dims are split, torch parallelises the
modules, and the build checks that both fit. The model learns to continue sequences that count in steps.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.nn.functional import scaled_dot_product_attention

from tensorclass import Shared, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.parallel import Layout, cross_entropy
from tensorclass.typing import Float32, Int64

VOCABULARY, LENGTH, WIDTH, HEADS, ROWS = 32, 16, 32, 4, 8


@tensorclass
class Text:
    """Sequences, and for each token the next one."""

    ids: Int64[Tensor, "t"]
    following: Int64[Tensor, "t"]


@tensorclass
class Scores:
    """A score for each token of the vocabulary."""

    logits: Float32[Tensor, "t v"]


@tensorclass
class Loss:
    """The mean over all tokens of the batch."""

    loss: Shared[Float32[Tensor, ""]]


Model = TensorClassSequential[Text, Loss]


class Block(nn.Module):
    """Causal attention, then a network for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.wide, self.narrow = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Each rank has some of the heads: `-1` counts them."""
        y = self.norms[0](x)
        query, key, value = (
            each(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        attended = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        added: Tensor = self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))
        return x + added


class Network(nn.Module):
    """Two blocks between an embedding and the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of shape `[b, t]` to scores of shape `[b, t, v]`."""
        places = torch.arange(ids.shape[1], device=ids.device)[:, None] / 2.0 ** torch.arange(WIDTH, device=ids.device)
        scores: Tensor = self.head(self.blocks(self.tokens(ids) + places.sin()))
        return scores


def spread(network: nn.Module, mesh: DeviceMesh) -> None:
    """Split heads, wide layers and the vocabulary over `tp`, and what is left over `dp`."""
    plan: dict[str, ParallelStyle] = {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    for n in range(2):
        plan |= {f"blocks.{n}.{name}": ColwiseParallel() for name in ("query", "key", "value", "wide")}
        plan |= {f"blocks.{n}.{name}": RowwiseParallel() for name in ("out", "narrow")}
    parallelize_module(network, mesh["tp"], plan)
    fully_shard(network, mesh=mesh["dp"])


def build(layout: Layout | None) -> Model:
    """Return the pipeline; with a layout, its modules are parallel."""
    torch.manual_seed(0)
    network = Network()
    if layout is not None:
        spread(network, layout.mesh_on("cpu"))
    return TensorClassSequential(
        TensorClassModule(network, in_fields=Text.ids, out_fields=Scores.logits),
        TensorClassModule(cross_entropy, in_fields=[Scores.logits, Text.following], out_fields=Loss.loss),
        input=Text,
        output=Loss,
        layout=layout,
    )


def batch(step: int) -> Text:
    """Sequences that count on in steps of one to four."""
    generator = torch.Generator().manual_seed(step)
    start = torch.randint(VOCABULARY, (ROWS, 1), generator=generator)
    stride = torch.randint(1, 5, (ROWS, 1), generator=generator)
    ids = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
    return Text(ids=ids[:, :-1], following=ids[:, 1:])


def train(layout: Layout | None, steps: int) -> list[float]:
    """Return the loss of each step."""
    model, losses = build(layout), list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        text = batch(step)
        if layout is not None:
            text = text.distribute(layout, source="everywhere")
        loss = model(text).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
    return losses


def main() -> None:
    """Train, and print some losses on the first rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dp", type=int, default=1)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    layout = None
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
        layout = Layout({"dp": arguments.dp, "tp": arguments.tp}, batch="dp", v="tp")
    losses = train(layout, arguments.steps)
    if layout is None or dist.get_rank() == 0:
        print(f"loss {losses[0]:.5f}, after {len(losses)} steps {losses[-1]:.5f}")
    if layout is not None:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
