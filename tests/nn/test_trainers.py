"""Training loops around typed batches: DataLoader, Lightning, accelerate, AMP, accumulation, checkpoints."""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float, Float32, Int64
from tests.nn._deployed import FORMS, tensors


class Sample(TensorClass):
    """An input and its class."""

    x: Float32[Tensor, "4"]
    label: Int64[Tensor, ""]
    source: str = "made"


class Scores(TensorClass):
    """Scores of any floating dtype."""

    scores: Float[Tensor, "3"]


class Exact(TensorClass):
    """Scores of one dtype."""

    scores: Float32[Tensor, "3"]


class Samples(Dataset):
    """Rows of one batch, one by one or many at once."""

    def __init__(self, count: int = 12) -> None:
        x = torch.arange(4.0 * count).reshape(count, 4) / count
        self.rows = Sample(x=x, label=torch.arange(count) % 3)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        return self.rows[index]


class Many(Samples):
    """Takes the indices of a batch at once."""

    def __getitems__(self, index: list[int]) -> Sample:
        return self.rows[index]


def same(batch: Any) -> Any:
    """A collate function for batches that are batches already."""
    return batch


def network(output: Any = Scores) -> Any:
    """Two layers over fields."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    step = TensorClassModule(layers, in_fields=Sample.x, out_fields=output.scores, name="layers")
    return TensorClassSequential(step, input=Sample, output=output)


def loss_of(scores: Tensor, batch: Sample) -> Tensor:
    """What every loop here minimises."""
    return nn.functional.cross_entropy(scores, batch.label)


# ---- DataLoader --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("dataset", [Samples(), Many()], ids=["items", "batches"])
def test_workers(dataset, context):
    """Batches of worker processes are those of the loop, with class, batch size and Python values."""
    options: dict[str, Any] = {"batch_size": 5, "num_workers": 2, "multiprocessing_context": context}
    collate = same if isinstance(dataset, Many) else None
    found = list(DataLoader(dataset, collate_fn=collate, **options))
    assert [batch.batch_size for batch in found] == [(5,), (5,), (2,)]
    assert all(type(batch) is Sample and batch.source == "made" for batch in found)
    assert torch.equal(torch.cat([batch.x for batch in found]), dataset.rows.x)
    assert torch.equal(torch.cat(found).label, dataset.rows.label)


def test_pinning_walks_batches():
    """What `DataLoader(pin_memory=True)` calls is the method of the batch."""
    calls: list[str] = []

    class Watched(Sample):
        def pin_memory(self, *_: Any, **__: Any) -> Any:
            calls.append(type(self).__name__)
            return self

    batch = Watched(x=torch.ones(2, 4), label=torch.zeros(2, dtype=torch.int64))
    pin = importlib.import_module("torch.utils.data._utils.pin_memory").pin_memory
    assert pin([batch, {"b": batch}])[0] is batch
    assert calls == ["Watched", "Watched"]


# ---- trainers ----------------------------------------------------------------------------------------------------


def trained(steps: int = 3) -> list[Tensor]:
    """The parameters after a loop by hand over the raw layers."""
    layers = network().layers
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for _, batch in zip(range(steps), DataLoader(Samples(), batch_size=4), strict=False):
        optimizer.zero_grad()
        loss_of(layers(batch.x), batch).backward()
        optimizer.step()
    return [parameter.detach() for parameter in layers.parameters()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
def test_lightning(tmp_path):
    """A Trainer moves typed batches, and trains as a loop by hand."""
    lightning = importlib.import_module("lightning")
    seen: list[Any] = []

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Sample, _: int) -> Tensor:
            seen.append((type(batch), batch.batch_size, batch.source))
            return loss_of(self.network(batch).scores, batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        fast_dev_run=3,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(model, DataLoader(Samples(), batch_size=4))
    assert seen == [(Sample, (4,), "made")] * 3
    for found, expected in zip(model.parameters(), trained(), strict=True):
        torch.testing.assert_close(found.detach(), expected)
    moved = trainer.strategy.batch_to_device(Samples().rows, torch.device("meta"))
    assert type(moved) is Sample
    assert moved.x.device.type == "meta"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
@pytest.mark.parametrize("batch", [Samples().rows, Samples().rows.select("x"), [Samples().rows], {"b": Samples().rows}])
def test_lightning_reads_the_batch_size(batch):
    """`self.log` without `batch_size=` weighs by the rows of a typed batch, nested in lists and dicts too."""
    data = importlib.import_module("lightning.pytorch.utilities.data")
    if type(batch) is not TensorDict:
        assert data.extract_batch_size(batch) == 12
    else:  # no dataclass: an error that says to give `batch_size=`
        with pytest.raises(TypeError, match="without batch dims"):
            data.extract_batch_size(batch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
def test_lightning_means(tmp_path):
    """The mean over an epoch is that over the rows, where batches differ in size."""
    lightning = importlib.import_module("lightning")

    class Model(lightning.LightningModule):
        def validation_step(self, batch: Sample, _: int) -> None:
            self.log("mean", batch.x.mean())

    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    [found] = trainer.validate(Model(), DataLoader(Samples(), batch_size=5), verbose=False)
    assert found["mean"] == pytest.approx(Samples().rows.x.mean().item())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
def test_accelerate():
    """`prepare` of model, optimizer and loader; gradients are accumulated over two batches."""
    accelerate = importlib.import_module("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Samples(), batch_size=6))
    for batch in loader:
        assert type(batch) is Sample
        assert batch.source == "made"
        with accelerator.accumulate(model):
            accelerator.backward(loss_of(model(batch).scores, batch))
            optimizer.step()
            optimizer.zero_grad()
    for found, expected in zip(model.parameters(), accumulated(network().layers), strict=True):
        torch.testing.assert_close(found.detach(), expected)
    moved = accelerate.utils.send_to_device({"b": [Samples().rows]}, torch.device("meta"))["b"][0]
    assert type(moved) is Sample
    assert moved.label.device.type == "meta"


def accumulated(layers: Any, parts: int = 2) -> list[Tensor]:
    """The parameters after one step on the mean of the losses of the parts."""
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for batch in Samples().rows.chunk(parts):
        (loss_of(layers(batch.x), batch) / parts).backward()
    optimizer.step()
    return [parameter.detach() for parameter in layers.parameters()]


def test_gradient_accumulation():
    """Parts of a batch, one step: the gradient of the whole batch."""
    model, plain, whole = network(), network().layers, Samples().rows
    for part in whole.split(4):
        (loss_of(model(part).scores, part) / 3).backward()
    loss_of(plain(whole.x), whole).backward()
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


# ---- precision ---------------------------------------------------------------------------------------------------


def test_autocast():
    """A family takes what autocast gives; a field of one dtype says what to do. The build is outside of it."""
    batch = Samples().rows
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model, strict = network(), network(Exact)
        found = model(batch)
        assert found.scores.dtype == torch.bfloat16
        loss_of(found.scores.float(), batch).backward()
        with pytest.raises(SchemaError, match="scores") as caught:
            strict(batch)
    assert "bfloat16" in str(caught.value)
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    assert strict(batch).scores.dtype == torch.float32


# ---- checkpoints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["typed sequence", "keyed sequence", "policy", "class to class"])
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_checkpoints(name, optimizer):
    """Module and optimizer go to a file and back with `weights_only=True`, and training goes on as if it had not."""
    form = FORMS[name]

    def made() -> tuple[Any, Any]:
        torch.manual_seed(0)
        module = form.build(form.raw()).eval()
        return module, optimizer(module.parameters(), lr=0.1)

    def step(module: Any, chosen: Any, number: int) -> None:
        chosen.zero_grad()
        module(form.batch(*tensors(number)))[form.outputs[0]].square().mean().backward()
        chosen.step()

    module, chosen = made()
    step(module, chosen, 4)
    file = io.BytesIO()
    torch.save({"module": module.state_dict(), "optimizer": chosen.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, other = made()
    again.load_state_dict(saved["module"])
    other.load_state_dict(saved["optimizer"])
    step(module, chosen, 5)
    step(again, other, 5)
    for found, expected in zip(again.parameters(), module.parameters(), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["typed sequence", "keyed sequence", "class to class", "policy"])
def test_activation_checkpointing(name):
    """`torch.utils.checkpoint` around a module that takes and returns containers: the same gradients."""
    form = FORMS[name]
    layers = form.raw().eval()
    module = form.build(layers).eval()
    gradients = []
    for call in (module, lambda batch: checkpoint(module, batch, use_reentrant=False)):
        result = call(form.batch(*tensors(4)))
        loss = sum(result[key].square().sum() for key in form.outputs)
        gradients.append(torch.autograd.grad(loss, list(layers.parameters())))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)
