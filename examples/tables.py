"""Train on a Parquet file: scikit-learn's digits as a table from another program, a dataset made from it, a loader.

The table has float64 pixels and a column that no field declares. The class selects the columns and converts them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tensorclass import PerElement, TensorClassDataset, field, tensorclass
from tensorclass.typing import Float32, Int64

EPOCHS = 10


@tensorclass
class Digits:
    """Scanned digits, each with the name of its file."""

    image: Float32[Tensor, "64"] = field(coerce="cast")
    label: Int64[Tensor, ""] = field(renamed_from="target")
    name: PerElement[str]


def write_table(path: Path) -> None:
    """Write a table as another program might do it: lists of float64, and row groups of 500 images."""
    pixels, labels = load_digits(return_X_y=True)
    table = pa.table({
        "image": pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1) / 16), 64),
        "target": pa.array(labels),
        "name": pa.array([f"scan-{i:04d}.png" for i in range(len(labels))]),
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=500)


def train(data: TensorClassDataset[Digits]) -> nn.Module:
    """Train with Adam and cross-entropy; batches are `Digits`, in a new order each epoch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batches = data.batches(64, shuffle=True, seed=0)
    for epoch in range(EPOCHS):
        loss = torch.zeros(())
        for batch in batches:
            loss = nn.functional.cross_entropy(model(batch.image), batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    return model


def main() -> None:
    """Make a dataset from the table, train the model, and write its mistakes to a table."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder, "digits.parquet"))
        data = TensorClassDataset.from_parquet(Path(folder, "digits.parquet"), Path(folder, "digits"), Digits, 400)
        print(data.schema, f"\n{len(data)} rows in {len(data.shards)} shards")
        model = train(data)
        everything = data[:]
        wrong = everything[model(everything.image).argmax(-1) != everything.label]
        wrong.to_csv(Path(folder, "wrong.csv"))
        print(f"{len(wrong)} of {len(data)} wrong, the first of them {wrong.name.tolist()[:3]}")
        assert len(wrong) < 0.06 * len(data)


if __name__ == "__main__":
    main()
