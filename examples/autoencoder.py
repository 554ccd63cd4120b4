"""A variational autoencoder of scanned digits; an exponential moving average of its weights generates new digits.

All weights are in one `TensorDict`, so the average takes one line: `average.lerp_(weights, 0.01)`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tensorclass import TensorDict, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32

EPOCHS, WIDTH = 50, 8
PICTURE = Path("build", "autoencoder.png")


@tensorclass
class Digits:
    """Scanned digits, with ink between 0 and 1."""

    image: Float32[Tensor, "64"]


@tensorclass
class Drawn:
    """The image decoded from a code, and the parameters of the distribution that the loss needs."""

    logits: Float32[Tensor, "64"]
    center: Float32[Tensor, "8"]
    log_variance: Float32[Tensor, "8"]


Model = TensorClassSequential[Digits, Drawn]


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


def build() -> Model:
    """Build encoder, sampler and decoder; call a part by index, such as `model[-1]`."""
    decoder = nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, 64))
    return TensorClassSequential(
        encoder=stage(Encoder(), Digits.image, out=(Drawn.center, Drawn.log_variance)),
        draw=draw_code,
        decoder=stage(decoder, out=Drawn.logits),
    )


def loss_of(drawn: Drawn, digits: Digits) -> Tensor:
    """Return the negative evidence lower bound in nats per image."""
    image = nn.functional.binary_cross_entropy_with_logits(drawn.logits, digits.image, reduction="none").sum(-1)
    code = (drawn.center.square() + drawn.log_variance.exp() - drawn.log_variance - 1).sum(-1) / 2
    return (image + code).mean()


def train(model: Model, training: Digits, test: Digits) -> tuple[TensorDict, list[tuple[float, float]]]:
    """Train; return the averaged weights, and the test losses of the current and the averaged weights."""
    weights = TensorDict.from_module(model).data
    average, losses = weights.clone(), list[tuple[float, float]]()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        for batch in training.iter(64, shuffle=True):
            loss = loss_of(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.lerp_(weights, 0.01)
        with torch.no_grad():
            plain = loss_of(model(test), test).item()
            with average.to_module(model):  # use the averaged weights inside this block
                losses.append((plain, loss_of(model(test), test).item()))
    return average, losses


def draw(digits: Digits, drawn: Drawn, new: Tensor, losses: list[tuple[float, float]]) -> None:
    """Draw the loss curve, and three rows of digits: given, decoded from their codes, and new."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    curve, pictures = figure.subplots(1, 2)
    curve.plot(losses, label=["weights of the step", "averaged weights"])
    curve.set(xlabel="epoch", ylabel="nats for an image", ylim=(None, losses[2][0]))
    curve.legend()
    rows = torch.stack([digits.image[:10], drawn.logits[:10].sigmoid(), new[:10]])
    pictures.imshow(rows.reshape(3, 10, 8, 8).permute(0, 2, 1, 3).reshape(24, 80), cmap="gray_r")
    pictures.set(xticks=[], yticks=[4, 12, 20], yticklabels=["given", "decoded", "new"])
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Train, then draw given and new digits with the averaged weights."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = torch.tensor(load_digits(return_X_y=True)[0], dtype=torch.float32) / 16
    digits = Digits(image=images).shuffle()
    test, training = digits[:300], digits[300:]
    model = build()
    average, losses = train(model, training, test)
    with torch.no_grad(), average.to_module(model):
        drawn = model(test)
        new = model.get_submodule("decoder")(torch.randn(10, WIDTH)).sigmoid()
    draw(test, drawn, new, losses)
    plain, averaged = (sum(loss) / 10 for loss in zip(*losses[-10:], strict=True))
    print(
        f"last ten epochs: loss {plain:.2f} nats, {averaged:.2f} with averaged weights; digits are drawn in {PICTURE}"
    )
    assert averaged < 25
    assert averaged < plain


if __name__ == "__main__":
    main()
