"""`../lightning_module.py` with tensordict."""

from __future__ import annotations

from pathlib import Path

import lightning
import pandas as pd
import torch
from lightning.pytorch.loggers import CSVLogger
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.utils.data import DataLoader

EPOCHS = 30
PICTURE = Path("build", "lightning.svg")


class Classifier(lightning.LightningModule):
    """A network and its training."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
        self.network = TensorDictModule(layers, in_keys=["measured"], out_keys=["scores"])

    def metrics(self, wines: TensorDict) -> dict[str, Tensor]:
        """Return loss and accuracy of a batch."""
        scores = self.network(wines)["scores"]
        return {
            "loss": nn.functional.cross_entropy(scores, wines["grower"]),
            "accuracy": (scores.argmax(-1) == wines["grower"]).float().mean(),
        }

    def training_step(self, wines: TensorDict, index: int) -> Tensor:
        """Log `training/loss` and `training/accuracy`."""
        metrics = self.metrics(wines)
        named = {f"training/{name}": value for name, value in metrics.items()}
        self.log_dict(named, on_step=False, on_epoch=True, batch_size=len(wines))
        return metrics["loss"]

    def validation_step(self, wines: TensorDict, index: int) -> None:
        """Log the metrics; the trainer averages them over all batches, weighted by batch size."""
        named = {f"validation/{name}": value for name, value in self.metrics(wines).items()}
        self.log_dict(named, batch_size=len(wines))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def load() -> TensorDict:
    """Load all wines in random order."""
    measured, grower = load_wine(return_X_y=True)
    columns = {"measured": torch.tensor(measured, dtype=torch.float32), "grower": torch.tensor(grower)}
    return TensorDict(columns, [len(grower)])[torch.randperm(len(grower))]


def loader(wines: TensorDict, shuffle: bool = False) -> DataLoader[TensorDict]:
    """Make a loader; the wines are the dataset, and mini-batches are a `TensorDict` too."""
    return DataLoader(wines, batch_size=16, shuffle=shuffle, collate_fn=lambda batch: batch)


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
