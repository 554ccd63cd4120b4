"""The table covers what is promised, and the generated file is what it makes."""

from __future__ import annotations

import subprocess
import sys
from functools import reduce

import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict
from tensorclass._operations import (
    COMBINING,
    FLOATING,
    IN_PLACE,
    POINTWISE,
    REDUCTIONS,
    ROWS,
    SCALED,
    TORCH_FUNCTIONS,
    UNSUPPORTED,
    Reduction,
    Row,
)
from tensorclass.ops import _generate
from tensorclass.ops._kernels import KERNELS, REFLECTED
from tests._sources import ROOT

NAMES = """
__abs__ __add__ __and__ __eq__ __iadd__ __imul__ __invert__ __ipow__ __isub__ __itruediv__ __mod__ __mul__ __ne__
__neg__ __or__ __pow__ __radd__ __rand__ __rmul__ __ror__ __rpow__ __rsub__ __rtruediv__ __rxor__ __sub__ __truediv__
__xor__ abs abs_ acos acos_ add add_ addcdiv addcdiv_ addcmul addcmul_ asin asin_ atan atan_ bitwise_and ceil ceil_
clamp clamp_max clamp_max_ clamp_min clamp_min_ cos cos_ cosh cosh_ div div_ erf erf_ erfc erfc_ exp exp_ expm1 expm1_
floor floor_ frac frac_ isfinite isnan isneginf isposinf isreal lerp lerp_ lgamma lgamma_ log log10 log10_ log1p log1p_
log2 log2_ log_ logical_and maximum maximum_ minimum minimum_ mod mul mul_ neg neg_ pow pow_ reciprocal reciprocal_
round round_ rsub sigmoid sigmoid_ sign sign_ sin sin_ sinh sinh_ sqrt sqrt_ sub sub_ tan tan_ tanh tanh_ trunc trunc_
"""
PROMISED = NAMES.split()
COMPARISONS = ["__lt__", "__le__", "__gt__", "__ge__", "eq", "ne", "lt", "le", "gt", "ge"]

EXTRA = {"quantile": (0.5,), **dict.fromkeys(("logsumexp", "softmax", "cummin", "cummax"), (0,))}
"""The arguments that a reduction of torch needs."""
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def table_names() -> set[str]:
    """Every method that the table asks for."""
    names = {name for row in ROWS for name in (row.name, row.forward, row.reflected, row.augmented) if name}
    return names | {f"{row.name}_" for row in ROWS if row.in_place}


def test_promised_names():
    """Every pointwise method that migrating programs use is in the table, and on the container as its own method."""
    assert len(PROMISED) == 119
    assert set(PROMISED) | set(COMPARISONS) <= table_names()


@pytest.mark.parametrize("name", sorted(table_names()))
def test_methods_exist(name):
    """The generated class has each method itself: nothing falls through to `object` or to another mixin."""
    assert name in _generated().__dict__
    assert getattr(TensorDict, name) is _generated().__dict__[name]


def test_no_method_without_row():
    """The generated class has nothing that the table does not know."""
    own = {name for name in _generated().__dict__ if callable(getattr(_generated(), name))}
    assert own - table_names() == {"__hash__"}


def test_names_are_distinct():
    """One row for each name, one name for each operator."""
    names = [name for row in ROWS for name in (row.name, row.forward, row.reflected, row.augmented) if name]
    assert len(names) == len(set(names))


@each_row
def test_row_is_consistent(row: Row):
    """Names that a row gives exist in torch, and its operators match its family."""
    assert callable(getattr(torch, row.torch_name))
    assert all(hasattr(torch, alias) for alias in row.aliases)
    if row.foreach:
        assert hasattr(torch, f"_foreach_{row.foreach}")
    assert not (row.in_place and row.result == "bool")
    assert not row.augmented or row.in_place
    assert not row.swapped or row.reflected
    assert row.doc.endswith(".")


@pytest.mark.parametrize("row", [*ROWS, *REDUCTIONS], ids=lambda row: row.name)
def test_what_integers_give(row: Row | Reduction):
    """Of integers torch gives floats, or nothing, where the table says so and nowhere else."""
    whole = torch.ones(2, 3, dtype=torch.int64)
    operands = [whole] * row.arity if isinstance(row, Row) else EXTRA.get(row.name, ())
    function = getattr(torch, row.torch_name if isinstance(row, Row) else row.name)
    try:
        found = function(whole, *operands)
    except RuntimeError:
        found = None  # torch refuses integers
    result = found[0] if isinstance(found, tuple) else found
    floating = row.result == "floating" if isinstance(row, Row) else row.floating
    assert floating == (result is None or result.is_floating_point()) or row.name == "lerp"  # has a kernel of its own


def test_groups_of_methods():
    """Each method of a group is one of every container, and each torch function there is."""
    for name in (*IN_PLACE, *FLOATING, *SCALED, *COMBINING):
        assert callable(getattr(TensorDict, name))
    assert {name for name in TORCH_FUNCTIONS if not hasattr(torch, name)} == set()
    data = TensorDict(a=torch.rand(2, 3), batch_size=[2])
    for name, method in POINTWISE.items():
        row = next(row for row in ROWS if row.name == method)
        if row.domain not in ("int", "bool"):
            operands = [data] * row.arity if row.family != "clamp" else [0, 1]
            assert type(getattr(torch, name)(data, *operands)) is TensorDict, name


@each_row
def test_kernels(row: Row):
    """A row's kernel calls torch's function of its name, and writes in place where the row says so and torch can."""
    kernel = KERNELS[row.name]
    if row.name != "lerp":  # takes integers too: tests/ops/test_lerp.py
        assert kernel.function in (getattr(torch, row.torch_name), getattr(Tensor, row.torch_name, None))
    assert (kernel.write is not None) == (row.in_place and row.name not in ("maximum", "minimum", "lerp"))
    assert (row.name in REFLECTED) == bool(row.swapped)


@pytest.mark.parametrize("item", UNSUPPORTED, ids=lambda item: item.name)
def test_unsupported_names(item):
    """What is left out is absent, and says what to write instead when torch is asked."""
    assert item.name not in table_names()
    function = reduce(lambda owner, part: getattr(owner, part, None), item.name.split("."), torch)
    if function is not None and item.name != "einsum":
        data = TensorDict(a=torch.ones(2), batch_size=[2])
        one, many = ("sort", "argsort", "numel", "detach"), ("hstack", "vstack", "dstack")
        third = {"index_select": [0, torch.tensor([0])], "nn.functional.pad": [[0, 1]]}.get(item.name, [data])
        with pytest.raises(TypeError, match=f"torch.{item.name} is not defined on containers: ") as caught:
            function(data) if item.name in one else function([data]) if item.name in many else function(data, *third)
        assert item.instead in str(caught.value)


def test_generated_file_is_fresh():
    """The checked-in methods are what the table and the generator make."""
    command = [sys.executable, "-m", "tensorclass.ops._generate", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stdout


def test_stale_file_is_found(tmp_path, monkeypatch, capsys):
    """`--check` fails with the way out and the difference, and writes nothing; without it the file is written."""
    target = tmp_path / "_pointwise.py"
    monkeypatch.setattr(_generate, "TARGET", target)
    assert _generate.main(["--check"]) == 1
    assert not target.exists()
    assert _generate.main([]) == 0
    assert _generate.main(["--check"]) == 0
    target.write_text(target.read_text().replace("Sine of every leaf", "Sinus of every leaf"))
    capsys.readouterr()
    assert _generate.main(["--check"]) == 1
    printed = capsys.readouterr().out
    assert "run `python -m tensorclass.ops._generate`" in printed
    assert "Sinus" in printed


def test_hash_is_identity():
    """Equality makes a container, so a container hashes by identity."""
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    assert hash(data) == object.__hash__(data)
    assert len({data, data, data.clone()}) == 2


def test_methods_have_the_tables_docs():
    """Each method's first line is the row's sentence."""
    for row in ROWS:
        assert (getattr(TensorDict, row.name).__doc__ or "").startswith(row.doc)


def _generated() -> type:
    return next(cls for cls in TensorDict.__mro__ if cls.__name__ == "PointwiseOps")


def test_tensor_has_the_operators():
    """An operator of a container is one that tensors have too."""
    assert [row.forward for row in ROWS if row.forward and not hasattr(Tensor, row.forward)] == []


def test_unsupported_functions_have_their_full_name():
    """The way out can be copied as it is printed."""
    with pytest.raises(TypeError, match=r"batch\.apply\(lambda t: torch\.linalg\.inv\(t"):
        torch.linalg.inv(TensorDict(a=torch.eye(2)))
