"""Other libraries over typed classes: what `docs/ecosystem.md` promises besides the programs that it shows."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, field
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Optimizer(TensorClass):
    """What an optimizer is made of."""

    name: str = "adam"
    betas: list[float] = field(default_factory=lambda: [0.9, 0.99])


class Settings(TensorClass):
    """A nested config with a value that must be given."""

    seed: int
    optimizer: Optimizer = field(default_factory=Optimizer)
    steps: int | None = None


class Data(TensorClass):
    """Tensors and a value."""

    x: Float32[Tensor, "3"]
    name: str = "a"


def test_structured_configs_come_back_validated():
    """Overrides as the command line gives them are checked by OmegaConf; the object is one of the class."""
    omegaconf = pytest.importorskip("omegaconf")
    config = omegaconf.OmegaConf.structured(Settings)
    assert omegaconf.OmegaConf.is_missing(config, "seed")
    merged = omegaconf.OmegaConf.merge(config, omegaconf.OmegaConf.from_dotlist(["seed=3", "optimizer.name=sgd"]))
    settings = omegaconf.OmegaConf.to_object(merged)
    assert isinstance(settings, Settings)
    assert (settings.seed, settings.optimizer.name, settings.steps) == (3, "sgd", None)
    with pytest.raises(omegaconf.errors.ValidationError, match="Integer"):
        config.seed = "many"
    with pytest.raises(omegaconf.errors.ConfigKeyError, match="sede"):
        omegaconf.OmegaConf.merge(config, {"sede": 3})


@pytest.mark.parametrize(
    "config",
    [
        {"_target_": f"{__name__}.Data", "x": {"_target_": "torch.ones", "_args_": [2, 3]}},
        {"_target_": f"{__name__}.Data.from_rows", "_convert_": "all", "rows": [{"x": [1.0] * 3, "name": "a"}] * 2},
        {"_target_": f"{__name__}.Data.example", "_args_": [2]},
    ],
)
def test_instantiate(config: dict[str, Any]):
    """Hydra builds a batch from tensors that it made, and calls the constructors of a class."""
    utils = pytest.importorskip("hydra.utils")
    batch = utils.instantiate(config)
    assert isinstance(batch, Data)
    assert batch.batch_size == (2,)


def test_instantiate_shows_the_error_of_the_class():
    """A value that does not fit is reported with the field, also when Hydra calls the class."""
    hydra = pytest.importorskip("hydra")
    with pytest.raises(hydra.errors.InstantiationException) as info:
        hydra.utils.instantiate({"_target_": f"{__name__}.Data", "x": [[1.0] * 3]})
    assert isinstance(info.value.__cause__, SchemaError)
    assert "declared: Float32" in str(info.value.__cause__)


def test_einops_keeps_the_class():
    """A rearranged field is assigned, and a wrong one is refused by its declaration."""
    rearrange = pytest.importorskip("einops").rearrange
    batch = Data(x=torch.arange(6.0).reshape(2, 3))
    assert type(batch.replace(x=rearrange(batch.x, "b (k one) -> b (one k)", one=1))) is Data
    with pytest.raises(SchemaError, match=r'declared: Float32\["3"\]'):
        batch.x = rearrange(batch.x, "b k -> b k 1")


HOOKED = """
import torch
from torch import Tensor
from tensorclass import TensorClass, tensorclass
from tensorclass.typing import Float32


@tensorclass
class Decorated:
    x: Float32[Tensor, "3"]

    def times(self, k: int) -> Tensor:
        return self.x * k


class Derived(TensorClass):
    x: Float32[Tensor, "3"]

    def times(self, k: int) -> Tensor:
        return self.x * k


def total(batch: Decorated, weight: Float32[Tensor, "3"]) -> Tensor:
    return (batch.x * weight).sum()
"""


@pytest.mark.filterwarnings("ignore:.*not decoratable by @beartype")
def test_import_hooks_of_beartype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package under the hook has checked methods and functions, and classes that work."""
    roar = pytest.importorskip("beartype.roar")
    (tmp_path / "hooked").mkdir()
    hook = "from beartype.claw import beartype_this_package\nbeartype_this_package()\n"
    (tmp_path / "hooked" / "__init__.py").write_text(hook)
    (tmp_path / "hooked" / "classes.py").write_text(HOOKED)
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("hooked.classes")
    for cls in (module.Decorated, module.Derived):
        batch = torch.stack([cls(x=torch.ones(2, 3))] * 2)
        assert batch.times(2).sum() == 24
        with pytest.raises(roar.BeartypeCallHintViolation):
            batch.times("2")
    with pytest.raises(roar.BeartypeCallHintViolation):
        module.total(module.Decorated(x=torch.ones(2, 3)), torch.ones(4))
