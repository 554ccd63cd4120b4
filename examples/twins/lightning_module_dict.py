"""`../lightning_module.py` with dicts of tensors, as the default collate function makes them."""

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

EPOCHS = 30
PICTURE = Path("build", "lightning.svg")

Batch = dict[str, Tensor]


class Classifier(lightning.LightningModule):
    """A network and its training."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))

    def metrics(self, wines: Batch) -> Batch:
        """Return loss and accuracy of a batch."""
        scores = self.network(wines["measured"])
        return {
            "loss": nn.functional.cross_entropy(scores, wines["grower"]),
            "accuracy": (scores.argmax(-1) == wines["grower"]).float().mean(),
        }

    def training_step(self, wines: Batch, index: int) -> Tensor:
        """Log `training/loss` and `training/accuracy`."""
        metrics = self.metrics(wines)
        named = {f"training/{name}": value for name, value in metrics.items()}
        self.log_dict(named, on_step=False, on_epoch=True, batch_size=len(wines["grower"]))
        return metrics["loss"]

    def validation_step(self, wines: Batch, index: int) -> None:
        """Log the metrics; the trainer averages them over all batches, weighted by batch size."""
        named = {f"validation/{name}": value for name, value in self.metrics(wines).items()}
        self.log_dict(named, batch_size=len(wines["grower"]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def load() -> list[Batch]:
    """Load all wines in random order."""
    measured, grower = load_wine(return_X_y=True)
    table = torch.tensor(measured, dtype=torch.float32)
    order = torch.randperm(len(table)).tolist()
    return [{"measured": table[i], "grower": torch.tensor(grower[i])} for i in order]


def loader(wines: list[Batch], shuffle: bool = False) -> DataLoader[Batch]:
    """Make a loader; the list is the dataset, and mini-batches are dicts too."""
    return DataLoader(wines, batch_size=16, shuffle=shuffle)  # type: ignore[arg-type]  # a list is a dataset


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
    trainer.fit(Classifier(), loader(wines[60:], shuffle=True), loader(wines[:60]))
    reached = trainer.callback_metrics["validation/accuracy"].item()
    draw(pd.read_csv(Path(logger.log_dir, "metrics.csv")))
    print(f"validation accuracy: {reached:.0%}")
    assert reached > 0.9


if __name__ == "__main__":
    main()
