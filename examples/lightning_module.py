"""A Lightning module over typed batches: the trainer moves and counts them, and logs the result of `scalars()`.

The data are wines of three growers, 13 measurements each. The metrics are a class, so a misspelled metric is an error
on the line where it is written. Needs `pip install '.[lightning]'`; nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

import lightning
import pandas as pd
import torch
from lightning.pytorch.loggers import CSVLogger
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

EPOCHS = 30
PICTURE = Path("build", "lightning.svg")


@tensorclass
class Wine:
    """The measurements of a wine, and its grower."""

    measured: Float32[Tensor, "13"]
    grower: Int64[Tensor, ""]


@tensorclass
class Metrics:
    """The logged metrics of a batch."""

    loss: Float32[Tensor, ""]
    accuracy: Float32[Tensor, ""]


class Classifier(lightning.LightningModule):
    """A pipeline and its training; the pipeline is checked when the module is created, before there is a trainer."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
        self.network = TensorClassSequential[Wine, Tensor](layers=stage(layers, Wine.measured))

    def metrics(self, wines: Wine) -> Metrics:
        """Return loss and accuracy of a batch."""
        scores = self.network(wines)
        return Metrics(
            loss=nn.functional.cross_entropy(scores, wines.grower),
            accuracy=(scores.argmax(-1) == wines.grower).float().mean(),
        )

    def training_step(self, wines: Wine, index: int) -> Tensor:
        """Log `training/loss` and `training/accuracy`."""
        metrics = self.metrics(wines)
        self.log_dict(metrics.scalars(prefix="training/"), on_step=False, on_epoch=True, batch_size=len(wines))
        return metrics.loss

    def validation_step(self, wines: Wine, index: int) -> None:
        """Log the metrics; the trainer averages them over all batches, weighted by batch size."""
        self.log_dict(self.metrics(wines).scalars(prefix="validation/"), batch_size=len(wines))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def load() -> Wine:
    """Load all wines in random order."""
    measured, grower = load_wine(return_X_y=True)
    return Wine(measured=torch.tensor(measured, dtype=torch.float32), grower=torch.tensor(grower)).shuffle()


def draw(log: pd.DataFrame) -> None:
    """Draw the losses of each epoch, as the logger wrote them."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    for name in ("training/loss", "validation/loss"):
        axes.plot(log.set_index("epoch")[name].dropna(), label=name)
    axes.set(xlabel="epoch", yscale="log")
    axes.legend()
    figure.savefig(PICTURE)


def main() -> None:
    """Train with Lightning's trainer, and draw what its logger wrote."""
    lightning.seed_everything(0, verbose=False)
    torch.set_num_threads(1)
    wines = load()
    logger = CSVLogger("build", name="lightning", version=0)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=EPOCHS, logger=logger, log_every_n_steps=1,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    # the wines are the dataset, and mini-batches are `Wine` too
    trainer.fit(Classifier(), DataLoader(wines[60:], 16, shuffle=True), DataLoader(wines[:60], 16))
    reached = trainer.callback_metrics["validation/accuracy"].item()
    draw(pd.read_csv(Path(logger.log_dir, "metrics.csv")))
    print(f"validation accuracy: {reached:.0%}")
    assert reached > 0.9


if __name__ == "__main__":
    main()
