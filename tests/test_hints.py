"""Code in the messages of classes, rows, files and containers is applied unchanged, and the program then works.

Those of pipelines are in `nn/test_hints.py`, extras in `test_release.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tensorclass.errors import TensorClassError

HEAD = """
import torch
from torch import Tensor
from tensorclass import *
from tensorclass.typing import *

@tensorclass
class Point:
    x: Float32[Tensor, "3"]
    name: str = "a"

@tensorclass
class Line:
    begin: Point
    weight: Float32[Tensor, ""] | None = None

@tensorclass
class Free:
    x: Float[Tensor, "3"]

@tensorclass
class Words:
    x: Float32[Tensor, "3"]
    n: Ragged[Tensor, "n"]

@tensorclass
class Number:
    n: Int64[Tensor, ""]

@tensorclass
class Values:
    count: int = 0
    sizes: list[int] | None = None

@tensorclass
class Holder:
    held: TensorDict
    x: Float32[Tensor, "3"]

x = torch.ones(2, 3)
batch = Point(x=x)
"""

HINTS: dict[str, tuple[str, str, str]] = {
    # what the message shows: the wrong program, the code, the program that follows it
    "dtype": ("Point(x=x.long())", ".to(torch.float32)", "Point(x=x.long().to(torch.float32))"),
    "list": (
        "value = [[1, 2, 3]]; Point(x=value)",
        "torch.tensor(value, dtype=torch.float32)",
        "Point(x=torch.tensor(value, dtype=torch.float32))",
    ),
    "tensors": (
        "value = [torch.ones(3), torch.ones(3)]; Point(x=value)",
        "torch.stack(value)",
        "Point(x=torch.stack(value))",
    ),
    "rows": ("rows = [{'x': [1., 2., 3.]}]; Point(x=rows)", "Cls.from_rows(rows)", "Cls = Point; Cls.from_rows(rows)"),
    "fields in a mapping": (
        "value = {'x': torch.ones(2, 3)}; Point(value)",
        "Cls.from_dict(value)",
        "Cls = Point; Cls.from_dict(value)",
    ),
    "one value": (
        "Holder(held=TensorDict(batch_size=[2]), x=torch.ones(3), batch_size=[2])",
        "Shared[...]",
        "make('A', held=TensorDict, x=Shared[Tensor])(held=TensorDict(batch_size=[2]), x=torch.ones(3))",
    ),
    "expand": (
        "Holder(held=TensorDict(batch_size=[2]), x=torch.ones(3), batch_size=[2])",
        ".expand(2, 3)",
        "Holder(held=TensorDict(batch_size=[2]), x=torch.ones(3).expand(2, 3), batch_size=[2])",
    ),
    "squeeze": (
        "Point(x=torch.ones(2, 1, 3), batch_size=[2])",
        ".squeeze(1)",
        "Point(x=torch.ones(2, 1, 3).squeeze(1))",
    ),
    "nested dict": ("value = {'x': x}; Line(begin=value)", "Point(**value)", "Line(begin=Point(**value))"),
    "nested container": (
        "value = TensorDict(x=x, name='a', batch_size=[2]); Line(begin=value)",
        "Point.from_tensordict(value)",
        "Line(begin=Point.from_tensordict(value))",
    ),
    "container": (
        "value = {'x': x}; Holder(held=value, x=x)",
        "TensorDict(value, batch_size=[2])",
        "Holder(held=TensorDict(value, batch_size=[2]), x=x)",
    ),
    "typed container": (
        "Holder(held=batch, x=x)",
        ".to_tensordict()",
        "Holder(held=batch.to_tensordict(), x=x)",
    ),
    "item": ("value = torch.tensor(3); Values(count=value)", ".item()", "Values(count=value.item())"),
    "tolist": (
        "value = torch.tensor([3, 4]); Values(sizes=value)",
        'Int64[Tensor, "..."]',
        "make('A', sizes=Int64[Tensor, \"...\"])(sizes=value)",
    ),
    "padded": (
        "value, lengths = torch.ones(2, 3), torch.tensor([1, 3]); Words(x=x, n=value)",
        "RaggedTensor.unpad(value, lengths)",
        "Words(x=x, n=RaggedTensor.unpad(value, lengths))",
    ),
    "padded alone": (
        "value, lengths = torch.ones(2, 3), torch.tensor([1, 3]); make('A', n=Ragged[Tensor, 'n'])(n=value)",
        "RaggedTensor.unpad(value, lengths)",
        "made = make('A', n=Ragged[Tensor, 'n'])(n=RaggedTensor.unpad(value, lengths)); assert made.batch_size == (2,)",
    ),
    "elements as lists": (
        "make('A', n=Ragged[Tensor, 'n'])(n=[[1.0, 2.0], [1.0]])",
        "autocast=True",
        "made = make('A', autocast=True, n=Ragged[Tensor, 'n'])(n=[[1.0, 2.0], [1.0]]); assert made.batch_size == (2,)",
    ),
    "cast": ("batch.to(torch.float64)", "Float[...]", "Free(x=x).to(torch.float64)"),
    "cast of all": ("batch.to(torch.float64)", "batch.to_tensordict()", "batch.to_tensordict().to(torch.float64)"),
    "merge": (
        "A = make('A', x=Float32[Tensor, '3']); B = make('B', x=Float64[Tensor, '3'], y=Tensor); merge(A, B)",
        'omit(B, "x")',
        'merge(A, omit(B, "x"))',
    ),
    "default": (
        "make('A', tags=(list[int], []))",
        "field(default_factory=list)",
        "make('A', tags=(list[int], field(default_factory=list)))",
    ),
    "None": ("Point(x=None)", "| None", "make('A', x=Float32[Tensor, '3'] | None)(x=None, batch_size=[2])"),
    "default None": (
        "make('A', x=(Float32[Tensor, '3'], None))",
        "| None",
        "make('A', x=(Float32[Tensor, '3'] | None, None))",
    ),
    "hidden name": (
        "make('A', split=Float32[Tensor, ''])",
        "field(shadow=True)",
        "make('A', split=(Tensor, field(shadow=True)))",
    ),
    "no fields": (
        "TensorClass(x=x)",
        "class Batch(TensorClass):",
        "class Batch(TensorClass):\n    x: Tensor\nBatch(x=x, batch_size=[2])",
    ),
    "mean of booleans": (
        "TensorDict(x=x.bool(), batch_size=[2]).mean()",
        "mean(dtype=torch.float32)",
        "TensorDict(x=x.bool(), batch_size=[2]).mean(dtype=torch.float32)",
    ),
    # ---- rows and tables
    "two batch dims": (
        "batch = Point(x=torch.ones(2, 2, 3)); batch.to_csv('a.csv')",
        "batch.reshape(-1)",
        "batch.reshape(-1).to_csv('a.csv')",
    ),
    "no batch dims": (
        "batch = Point(x=torch.ones(3)); batch.to_csv('a.csv')",
        "batch.unsqueeze(0)",
        "batch.unsqueeze(0).to_csv('a.csv')",
    ),
    "nan": (
        "Number.from_rows([{'n': 1}, {'n': float('nan')}])",
        "from_rows(rows, nan_as_none=True)",
        "make('A', n=(Int64[Tensor, ''] | None, None)).from_rows([{'n': float('nan')}], nan_as_none=True)",
    ),
    "generator": (
        "batch.sample(1, generator=3)",
        "torch.Generator().manual_seed(0)",
        "batch.sample(1, generator=torch.Generator().manual_seed(0))",
    ),
    # ---- files
    "without checksums": (
        "batch.save('a.safetensors'); load('a.safetensors', verify=True)",
        "save(..., checksums=True)",
        "batch.save('b.safetensors', checksums=True); load('b.safetensors', verify=True)",
    ),
    "another class": (
        "path = 'a.safetensors'; batch.save(path); Number.load(path)",
        "TensorDict.load(path)",
        "TensorDict.load(path)",
    ),
    "a file of torch": (
        "torch.save(TensorDict(x=x), 'a.pt'); load('a.pt')",
        "torch.load",
        "assert type(torch.load('a.pt')) is TensorDict",
    ),
    "a file of lines": (
        "TensorDict(a=x[:, 0], batch_size=[2]).to_json('a.jsonl', lines=True); load('a.jsonl')",
        "from_json(path=..., lines=True)",
        "from_json(path='a.jsonl', lines=True)",
    ),
    "a dataset twice": (
        "TensorClassDataset.create('d', Point).close(); TensorClassDataset.create('d', Point)",
        "create(..., resume=True)",
        "TensorClassDataset.create('d', Point, resume=True)",
    ),
    "append of two dims": (
        "batch = Point(x=torch.ones(2, 2, 3)); writer = TensorClassDataset.create('d', Point); writer.append(batch)",
        "batch.reshape(-1)",
        "writer.append(batch.reshape(-1))",
    ),
    # ---- containers
    "locked": (
        "batch.lock_(); batch.x = x",
        "with batch.unlock_():",
        "with batch.unlock_():\n    batch.x = x",
    ),
    "truth": ("bool(batch)", "(a == b).all()", "a = b = batch; assert (a == b).all()"),
    "frozen": (
        "Fixed = tensorclass(frozen=True)(type('Fixed', (), {'__annotations__': {'x': Float32[Tensor, '3']}, "
        "'__module__': __name__})); batch = Fixed(x=x); batch.x = x",
        "batch.replace(...)",
        "batch.replace(x=x)",
    ),
}
BY_MEANING = {"a file of lines", "one value", "cast", "hidden name", "nan", "a file of torch", "frozen"}
"""Hints that show a declaration, or leave dots for the program to fill in."""
DECLARE = """
def make(name, autocast=False, **fields):
    space = {"__annotations__": {}, "__module__": __name__}
    for key, kind in fields.items():
        space["__annotations__"][key], *default = kind if isinstance(kind, tuple) else (kind,)
        space.update({key: one for one in default})
    return tensorclass(autocast=autocast)(type(name, (), space))
"""


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_that_is_followed_mends_the_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The wrong program raises a message with the code; the program with the code runs."""
    monkeypatch.chdir(tmp_path)
    wrong, hint, right = HINTS[name]
    scope: dict[str, Any] = {"__name__": __name__}
    exec(HEAD + DECLARE, scope)
    with pytest.raises((TensorClassError, TypeError, ValueError, FileExistsError, RuntimeError)) as info:
        exec(wrong, scope)
    assert hint in str(info.value), str(info.value)
    assert name in BY_MEANING or hint.partition("(...")[0] in right
    exec(right, scope)
