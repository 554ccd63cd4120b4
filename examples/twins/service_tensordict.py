"""`../service.py` with pydantic models and tensordict: the models say what is valid, and are converted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
from fastapi import FastAPI
from fastapi.testclient import TestClient
from matplotlib.figure import Figure
from pydantic import BaseModel, Field
from sklearn.datasets import load_digits
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

PICTURE = Path("build", "service.svg")

Row = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=8, max_length=8)]


class Scan(BaseModel):
    """The request of a client: images with ink between 0 and 1."""

    image: list[Annotated[list[Row], Field(min_length=8, max_length=8)]]


class Answer(BaseModel):
    """The response to a client: the digit, and the confidence of the network."""

    digit: list[int]
    confidence: list[float]


def decide(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most likely digit and its probability."""
    confidence, digit = logits.softmax(-1).max(-1)
    return digit, confidence


def build(network: nn.Module) -> TensorDictSequential:
    """Build the pipeline of the service; FastAPI never sees its inner entries."""
    return TensorDictSequential(
        TensorDictModule(network, in_keys=["image"], out_keys=["logits"]),
        TensorDictModule(decide, in_keys=["logits"], out_keys=["digit", "confidence"]),
    )


def load() -> tuple[Tensor, Tensor]:
    """Load all images and their labels."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 8, 8) / 16
    return images, torch.tensor(labels, dtype=torch.int64)


def trained(images: Tensor, labels: Tensor) -> TensorDictSequential:
    """Train a small network on all given images."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(100):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return build(network.eval())


def create(classifier: TensorDictSequential | None = None) -> FastAPI:
    """Create the service; request body, response and OpenAPI page come from the pydantic models."""
    answers = classifier if classifier is not None else trained(*load())
    app = FastAPI(title="digits")

    @app.post("/classify")
    @torch.inference_mode()
    def classify(scans: Scan) -> Answer:
        answer = answers(TensorDict({"image": torch.tensor(scans.image)}, [len(scans.image)]))
        return Answer(digit=answer["digit"].tolist(), confidence=answer["confidence"].tolist())

    return app


def draw(answer: Answer, right: Tensor) -> None:
    """Draw the confidence of right and of wrong answers."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    confidence = torch.tensor(answer.confidence)
    shown = [confidence[right].tolist(), confidence[~right].tolist()]
    axes.hist(shown, bins=20, range=(0, 1), label=["right", "wrong"], log=True)
    axes.set(xlabel="confidence", ylabel="answers")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Train, serve, and send valid and invalid requests."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, labels = load()
    client = TestClient(create(trained(images[:1400], labels[:1400])))

    reply = client.post("/classify", json={"image": images[1400:].tolist()})
    answer = Answer.model_validate_json(reply.text)
    right = torch.tensor(answer.digit) == labels[1400:]
    first = Answer(digit=answer.digit[:1], confidence=answer.confidence[:1])
    print(f"{len(right)} answers, {right.float().mean():.1%} right, the first: {first.model_dump_json()}")
    assert right.float().mean() > 0.88

    rows = [[0.5] * 8] * 7
    wrongs: list[dict[str, object]] = [{"image": [rows]}, {"image": [[*rows, [9.0] * 8]]}, {"picture": []}]
    for wrong in wrongs:
        refused = client.post("/classify", json=wrong)
        assert refused.status_code == 422
        for problem in refused.json()["detail"]:
            print(f"422 {'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    draw(answer, right)
    print(f"the confidence of the answers is drawn in {PICTURE}")


if __name__ == "__main__":
    main()
