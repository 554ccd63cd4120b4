"""Reports of what differs, and the pytest plugin that prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tensorclass import RaggedTensor, TensorDict, lazy_stack
from tensorclass.testing import assert_close, same
from tensorclass.testing._pytest import pytest_assertrepr_compare
from tests.testing._classes import EVERY, Kinds, Meta, Numbers

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_equal_batches_have_no_report(cls):
    """Every kind of field against a copy of itself."""
    batch = cls.example(3, fields={"meta": Meta()} if cls is Kinds else None)
    assert_close(batch, batch.clone())
    assert batch == same(batch.clone())
    assert same(batch.clone()) == batch


def text_of(actual: object, expected: object, **options: object) -> str:
    """The message of the assertion."""
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    return str(caught.value)


def test_all_fields_are_reported():
    """Each with what differs; the head counts them, the end names the first element of the batch."""
    x = torch.zeros(4, 2)
    a = TensorDict(
        x=x, y=torch.ones(4), n=TensorDict(z=torch.zeros(4, dtype=torch.int64), batch_size=4), s="scan", batch_size=4
    )
    b = a.clone()
    b["x"] = x.clone()
    b["x"][3, 1], b["x"][2, 0] = 2.0, -0.5
    b["n", "z"] = torch.zeros(4)
    b["s"] = "web"
    assert text_of(b, a).splitlines() == [
        "TensorDict: 3 of 4 fields differ",
        "  x: float32 [4, 2], 2 of 8 elements differ, first [2, 0]: -0.5, expected 0; "
        "largest error 2 at [3, 1], relative inf",
        "  n.z: float32 [4], expected int64 [4]",
        "  s: 'web', expected 'scan'",
        "  first element that differs: [2]",
    ]


def test_tolerances():
    """By dtype as torch has them, or as given; integers are exact; nan equals nan on request."""
    a, b = TensorDict(x=torch.ones(3)), TensorDict(x=torch.ones(3) + 1e-6)
    assert_close(a, b)
    assert "3 of 3 elements differ" in text_of(a, b, rtol=0, atol=0)
    assert_close(a, TensorDict(x=torch.ones(3) + 0.5), atol=0.5, rtol=0)
    big = TensorDict(x=torch.tensor([2**62]))
    assert "1 of 1 elements differs" in text_of(big, TensorDict(x=torch.tensor([2**62 + 1])))
    nan = TensorDict(x=torch.tensor([float("nan")]))
    assert_close(nan, nan.clone())
    assert "largest error inf" in text_of(nan, nan.clone(), equal_nan=False)
    assert_close(torch.ones(2), torch.ones(2))
    assert "value: float32 [2]" in text_of(torch.ones(2), torch.zeros(2))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.uint64, torch.bool, torch.complex64]
)
def test_every_dtype_is_compared(dtype):
    """Also those that torch does not subtract."""
    a, b = torch.zeros(2, 3).to(dtype), torch.zeros(2, 3).to(dtype)
    b[1, 2] = 1
    assert_close(TensorDict(x=a), TensorDict(x=a.clone()))
    assert "first [1, 2]" in text_of(TensorDict(x=a), TensorDict(x=b))


def test_structure():
    """Keys, classes, batch sizes and names."""
    a = TensorDict(x=torch.zeros(2), batch_size=[2])
    assert "y: absent, expected float32 [2]" in text_of(
        a, TensorDict(x=torch.zeros(2), y=torch.zeros(2), batch_size=[2])
    )
    more = TensorDict(x=torch.zeros(2), y=torch.zeros(2), batch_size=[2])
    assert "y: float32 [2], expected to be absent" in text_of(more, a)
    assert "batch size [2], expected []" in text_of(a, TensorDict(x=torch.zeros(2)))
    assert "names ('time',), expected None" in text_of(TensorDict(x=torch.zeros(2), batch_size=[2], names=["time"]), a)
    assert "class Numbers, expected TensorDict" in text_of(Numbers.example(2), Numbers.example(2).to_tensordict())
    assert_close(lazy_stack([a, a])[0], a)


def test_nodes():
    """Ragged fields by length and value, per-element ones by place."""
    a = TensorDict(t=RaggedTensor([torch.zeros(2), torch.zeros(1)]), batch_size=[2])
    assert "t (lengths)" in text_of(a, TensorDict(t=RaggedTensor([torch.zeros(1), torch.zeros(2)]), batch_size=[2]))
    assert "t (values)" in text_of(a, TensorDict(t=RaggedTensor([torch.zeros(2), torch.ones(1)]), batch_size=[2]))
    batch = Kinds.example(2, fields={"meta": Meta(), "who": ["a", "b"]})
    other = batch.replace(who=["a", "c"])
    assert "who: first at [1]: 'b', expected 'c'" in text_of(batch, other)
    assert text_of(batch, other).endswith("first element that differs: [1]")


def test_hook():
    """The lines of the plugin; nothing for what it does not know."""
    a, b = TensorDict(x=torch.zeros(2)), TensorDict(x=torch.ones(2))
    lines = pytest_assertrepr_compare("==", a, same(b))
    assert lines is not None
    assert lines[0] == "TensorDict == same(TensorDict)"
    assert "x: float32 [2], 2 of 2 elements differ" in lines[2]
    assert pytest_assertrepr_compare("==", same(b), a) is not None
    assert pytest_assertrepr_compare("is", a, a.clone()) == [
        "TensorDict is TensorDict",
        "they hold the same values, and are two objects",
    ]
    assert pytest_assertrepr_compare("==", 1, 2) is None
    assert pytest_assertrepr_compare("<", a, b) is None


@pytest.mark.slow
def test_plugin_in_pytest(tmp_path):
    """A failing assertion prints the report."""
    (tmp_path / "test_it.py").write_text(
        "import torch\nfrom tensorclass import TensorDict\nfrom tensorclass.testing import same\n\n"
        "def test():\n    assert TensorDict(x=torch.zeros(2)) == same(TensorDict(x=torch.ones(2)))\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "tensorclass.testing._pytest",
        ".",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "TensorDict == same(TensorDict)" in done.stdout
    assert "first [0]: 0, expected 1" in done.stdout
