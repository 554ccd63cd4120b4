"""A web service for a pipeline: FastAPI reads and writes typed batches, and names the field of invalid ones.

Each request is a batch of scanned digits as JSON. Data that violates the declaration (another shape, ink below 0)
never reaches the model: FastAPI answers 422 with the path of the value. `uvicorn --factory service:create` starts it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Interval
from fastapi import FastAPI
from fastapi.testclient import TestClient
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

PICTURE = Path("build", "service.svg")


@tensorclass(validate="values")
class Scan:
    """The request of a client: images with ink between 0 and 1."""

    image: Annotated[Float32[Tensor, "8 8"], Interval(ge=0, le=1)]


@tensorclass
class Answer:
    """The response to a client: the digit, and the confidence of the network."""

    digit: Int64[Tensor, ""]
    confidence: Float32[Tensor, ""]


def decide(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most likely digit and its probability."""
    confidence, digit = logits.softmax(-1).max(-1)
    return digit, confidence


def load() -> tuple[Scan, Tensor]:
    """Load all images and their labels."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 8, 8) / 16
    return Scan(image=images), torch.tensor(labels, dtype=torch.int64)


def trained(scans: Scan, labels: Tensor) -> TensorClassSequential[Scan, Answer]:
    """Train a small network on all given images."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(100):
        loss = nn.functional.cross_entropy(network(scans.image), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    decided = stage(decide, out=(Answer.digit, Answer.confidence))
    return TensorClassSequential(network=stage(network.eval(), Scan.image), decide=decided)


def create(classifier: TensorClassSequential[Scan, Answer] | None = None) -> FastAPI:
    """Create the service; request body, response and OpenAPI page come from the declarations."""
    answers = classifier if classifier is not None else trained(*load())
    app = FastAPI(title="digits")

    @app.post("/classify")
    @torch.inference_mode()
    def classify(scans: Scan) -> Answer:
        return answers(scans)

    return app


def draw(answer: Answer, right: Tensor) -> None:
    """Draw the confidence of right and of wrong answers."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    shown = [answer.confidence[right].tolist(), answer.confidence[~right].tolist()]
    axes.hist(shown, bins=20, range=(0, 1), label=["right", "wrong"], log=True)
    axes.set(xlabel="confidence", ylabel="answers")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Train, serve, and send valid and invalid requests."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    scans, labels = load()
    client = TestClient(create(trained(scans[:1400], labels[:1400])))

    reply = client.post("/classify", content=scans[1400:].to_json(), headers={"content-type": "application/json"})
    answer = Answer.from_json(reply.text)
    right = answer.digit == labels[1400:]
    print(f"{len(answer)} answers, {right.float().mean():.1%} right, the first: {answer[0].to_json(mode='lists')}")
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
