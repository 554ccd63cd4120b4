"""`../autoencoder.py` with dicts: the weights are a dict by name, and the average is updated entry by entry."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call

EPOCHS, WIDTH = 50, 8
PICTURE = Path("build", "autoencoder.png")

Batch = dict[str, Tensor]


class Encoder(nn.Module):
    """Map an image to the center and the log-variance of its code."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2 * WIDTH))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return two tensors `[batch, 8]`."""
        center, log_variance = self.layers(image).chunk(2, -1)
        return center, log_variance


def draw_code(center: Tensor, log_variance: Tensor) -> Tensor:
    """Draw one code, with gradients for both parameters."""
    return center + torch.randn_like(center) * (log_variance / 2).exp()


class Autoencoder(nn.Module):
    """Encoder, sampler and decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, image: Tensor) -> Batch:
        """Return the decoded image, and the parameters of the distribution that the loss needs."""
        center, log_variance = self.encoder(image)
        logits = self.decoder(draw_code(center, log_variance))
        return {"logits": logits, "center": center, "log_variance": log_variance}


def loss_of(drawn: Batch, images: Tensor) -> Tensor:
    """Return the negative evidence lower bound in nats per image."""
    image = nn.functional.binary_cross_entropy_with_logits(drawn["logits"], images, reduction="none").sum(-1)
    log_variance = drawn["log_variance"]
    code = (drawn["center"].square() + log_variance.exp() - log_variance - 1).sum(-1) / 2
    return (image + code).mean()


def train(model: Autoencoder, training: Tensor, test: Tensor) -> tuple[Batch, list[tuple[float, float]]]:
    """Train; return the averaged weights, and the test losses of the current and the averaged weights."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    average = {name: value.clone() for name, value in weights.items()}
    losses = list[tuple[float, float]]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(training)).split(64):
            batch = training[index]
            loss = loss_of(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for name, value in weights.items():
                average[name].lerp_(value, 0.01)
        with torch.no_grad():
            plain = loss_of(model(test), test).item()
            losses.append((plain, loss_of(functional_call(model, average, test), test).item()))
    return average, losses


def draw(images: Tensor, drawn: Batch, new: Tensor, losses: list[tuple[float, float]]) -> None:
    """Draw the loss curve, and three rows of digits: given, decoded from their codes, and new."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    curve, pictures = figure.subplots(1, 2)
    curve.plot(losses, label=["weights of the step", "averaged weights"])
    curve.set(xlabel="epoch", ylabel="nats for an image", ylim=(None, losses[2][0]))
    curve.legend()
    rows = torch.stack([images[:10], drawn["logits"][:10].sigmoid(), new[:10]])
    pictures.imshow(rows.reshape(3, 10, 8, 8).permute(0, 2, 1, 3).reshape(24, 80), cmap="gray_r")
    pictures.set(xticks=[], yticks=[4, 12, 20], yticklabels=["given", "decoded", "new"])
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Train, then draw given and new digits with the averaged weights."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = torch.tensor(load_digits(return_X_y=True)[0], dtype=torch.float32) / 16
    images = images[torch.randperm(len(images))]
    test, training = images[:300], images[300:]
    model = Autoencoder()
    average, losses = train(model, training, test)
    model.load_state_dict(average)
    with torch.no_grad():
        drawn = model(test)
        new = model.decoder(torch.randn(10, WIDTH)).sigmoid()
    draw(test, drawn, new, losses)
    plain, averaged = (sum(loss) / 10 for loss in zip(*losses[-10:], strict=True))
    print(
        f"last ten epochs: loss {plain:.2f} nats, {averaged:.2f} with averaged weights; digits are drawn in {PICTURE}"
    )
    assert averaged < 25
    assert averaged < plain


if __name__ == "__main__":
    main()
