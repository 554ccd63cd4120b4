"""Code in the messages of classes, rows, files and containers is applied unchanged, and the program then works.

Those of pipelines are in `nn/test_hints.py`, extras in `test_release.py`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.errors import TensorClassError
from tests import _hints
from tests._sources import PACKAGE

HEAD = """
import torch
from torch import Tensor
from pathlib import Path
from torch import nn
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
class Many:
    x: Float32[Tensor, "3"]
    name: PerElement[str]

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

HINTS: dict[str, tuple[str, str, str]] = _hints.PROGRAMS | {
    # what the message shows: the wrong program, the code, the program that follows it
    "a number": (
        "Number(n=3, batch_size=[2])",
        "torch.full((2,), value)",
        "value = 3; Number(n=torch.full((2,), value))",
    ),
    "a dict to save": (
        "value = {'a': x}; save(value, 'a.safetensors')",
        "TensorDict(value)",
        "save(TensorDict(value), 'a.safetensors')",
    ),
    "a ragged dtype": (
        "class A(TensorClass):\n    x: Int64[Ragged, 't']",
        "Int64[RaggedTensor, 't']",
        "class A(TensorClass):\n    x: Int64[RaggedTensor, 't']",
    ),
    "a limit": (
        "class A(TensorClass):\n    x: Float32[Tensor, ''] = field(ge=0)",
        'Annotated[Float32[Tensor, ""], annotated_types.Ge',
        "from typing import Annotated\nimport annotated_types\nclass A(TensorClass):\n"
        '    x: Annotated[Float32[Tensor, ""], annotated_types.Ge(0)]\nA(torch.ones(2))',
    ),
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
    # ---- operations
    "almost equal": (
        "torch.isclose(batch, batch)",
        "(a - b).abs() < tolerance",
        "a = b = TensorDict(x=x, batch_size=[2]); tolerance = 0.1; (a - b).abs() < tolerance",
    ),
    "the position of a maximum": (
        "TensorDict(x=x, batch_size=[2]).max(dim='feature')",
        'amax(dim="feature")',
        'TensorDict(x=x, batch_size=[2]).amax(dim="feature")',
    ),
    "objects in a mean": (
        "batch = Many(x=x, name=['a', 'b']); batch.mean()",
        "batch.exclude('name')",
        "batch = Many(x=x, name=['a', 'b']); batch.exclude('name').mean()",
    ),
    "backward of several numbers": (
        "TensorDict(x=x.requires_grad_(), batch_size=[2]).backward()",
        "batch.sum().backward()",
        "batch = TensorDict(x=x.requires_grad_(), batch_size=[2]); batch.sum().sum(dim='feature').backward()",
    ),
    "a value in a batch": (
        "1.0 in TensorDict(x=x, batch_size=[2])",
        "(batch == value).any()",
        "batch = TensorDict(x=x, batch_size=[2]); value = 1.0; assert (batch == value).any()",
    ),
    "rows of one element": (
        "TensorDict(x=x).shuffle()",
        "batch.unsqueeze(0)",
        "batch = TensorDict(x=x); batch.unsqueeze(0).shuffle()",
    ),
    "more samples than rows": ("batch.sample(3)", "replacement=True", "batch.sample(3, replacement=True)"),
    "a lossy write": (
        "Number(n=torch.zeros(2).long()).set_('n', torch.full((2,), 0.5))",
        ".to(torch.int64)",
        "Number(n=torch.zeros(2).long()).set_('n', torch.full((2,), 0.5).to(torch.int64))",
    ),
    "a write out of range": (
        "TensorDict(n=x.to(torch.uint8), batch_size=[2]).set_('n', torch.full((2, 3), 300))",
        ".clamp(0, 255)",
        "TensorDict(n=x.to(torch.uint8), batch_size=[2]).set_('n', torch.full((2, 3), 300).clamp(0, 255))",
    ),
    "a write to a leaf of autograd": (
        "TensorDict(x=x.requires_grad_(), batch_size=[2]).set_('x', torch.zeros(2, 3))",
        "torch.no_grad()",
        "with torch.no_grad(): TensorDict(x=x.requires_grad_(), batch_size=[2]).set_('x', torch.zeros(2, 3))",
    ),
    "a write to expanded memory": (
        "TensorDict(x=torch.ones(3).expand(2, 3), batch_size=[2]).set_('x', torch.zeros(2, 3))",
        "clone()",
        "TensorDict(x=torch.ones(3).expand(2, 3), batch_size=[2]).clone().set_('x', torch.zeros(2, 3))",
    ),
    "sizes that differ": (
        "torch.stack([TensorDict(x=x[0]), TensorDict(x=x[0, :2])])",
        "lazy_stack",
        "lazy_stack([TensorDict(x=x[0]), TensorDict(x=x[0, :2])])",
    ),
    "shared values that differ": (
        "torch.stack([Point(x=x, name='a'), Point(x=x, name='b')])",
        "PerElement[...]",
        "torch.stack([Many(x=x[0], name='a'), Many(x=x[0], name='b')])",
    ),
    "a function of torch": (
        "nn.functional.linear(batch, x)",
        "batch.apply(lambda t: torch.nn.functional.linear(t, ...))",
        "batch.apply(lambda t: torch.nn.functional.linear(t, torch.ones(3, 3)))",
    ),
    "one array of a batch": ("torch.tensor(batch)", "batch.numpy()", "batch.numpy()"),
    # ---- lazy stacks
    "one tensor of uneven members": (
        "lazy_stack([TensorDict(x=x), TensorDict(x=x[:1])])['x']",
        "get('x', as_padded_tensor=True)",
        "lazy_stack([TensorDict(x=x), TensorDict(x=x[:1])]).get('x', as_padded_tensor=True)",
    ),
    "vmap over a lazy stack": (
        "stack = lazy_stack([TensorDict(x=x), TensorDict(x=x, y=x)]); torch.vmap(lambda one: one)(stack)",
        "stack.densify()",
        "stack = lazy_stack([TensorDict(x=x), TensorDict(x=x)]); torch.vmap(lambda one: one)(stack.densify())",
    ),
    # ---- memory maps, JSON, chunks, the command line
    "a mapped tensor without a shape": ("MemoryMappedTensor.zeros()", "zeros(2, 3)", "MemoryMappedTensor.zeros(2, 3)"),
    "a mapped tensor with gradients": (
        "tensor = x.requires_grad_(); MemoryMappedTensor.from_tensor(tensor)",
        "tensor.detach()",
        "tensor = x.requires_grad_(); MemoryMappedTensor.from_tensor(tensor.detach())",
    ),
    "no text and no file": ("Point.from_json()", "path=", "batch.to_json('a.json'); Point.from_json(path='a.json')"),
    "rows for from_any": (
        "rows = [{'x': [1., 2., 3.]}]; Point.from_any(rows)",
        "Point.from_rows(rows)",
        "rows = [{'x': [1., 2., 3.]}]; Point.from_rows(rows)",
    ),
    "a dtype as a declaration": (
        "make('A', x=torch.float32)",
        'Float32[Tensor, "3 h w"]',
        "make('A', x=Float32[Tensor, \"3 h w\"])",
    ),
    "a default in front": (
        "make('A', a=(int, 1), b=Tensor)",
        "field(kw_only=True)",
        "make('A', a=(int, 1), b=(Tensor, field(kw_only=True)))",
    ),
    "a write to a chunk": (
        "def write(chunk):\n    chunk.x.zero_()\n    return chunk\nbatch.map(write, engine='threads')",
        "chunk.clone()",
        "def write(chunk):\n    return chunk.clone().zero_()\nbatch.map(write, engine='threads')",
    ),
    "a name of a file of torch": (
        "batch.save('b.pt')",
        "`b.safetensors`",
        "batch.save('b.safetensors')",
    ),
    "a file of another kind as a folder": (
        "batch.save('b.zarr')",
        "archive=False",
        "batch.save('b.zarr', archive=False)",
    ),
    "absent keys of apply": (
        "d = TensorDict(a=torch.ones(2)); d.apply(torch.add, TensorDict())",
        "default=",
        "d = TensorDict(a=torch.ones(2)); d.apply(lambda a, b: a, TensorDict(), default=None)",
    ),
    "gradients off": (
        "(TensorDict(a=torch.ones(2, requires_grad=True)) * 2).requires_grad_(False)",
        "detach()",
        "(TensorDict(a=torch.ones(2, requires_grad=True)) * 2).detach()",
    ),
    "a view detached": (
        "TensorDict(a=x.clone().requires_grad_()[0]).detach_()",
        "detach()",
        "TensorDict(a=x.clone().requires_grad_()[0]).detach()",
    ),
    "keys of a namedtuple": ("TensorDict({'a b': x}).to_namedtuple()", "to_dict()", "TensorDict({'a b': x}).to_dict()"),
    "many indices": ("batch[0, 0, 0]", "along(name)", "batch.x[0, 0]"),
    "a list of keys": (
        "keys = ['x', 'name']; batch[keys]",
        "batch.select(*keys)",
        "keys = ['x', 'name']; batch.select(*keys)",
    ),
    "several positions": (
        "a = TensorDict(a=x, batch_size=[2, 3]); a.max(dim=(0, 1))",
        "amax((0, 1))",
        "a = TensorDict(a=x, batch_size=[2, 3]); a.amax((0, 1))",
    ),
    "norm of torch": (
        "torch.norm(batch, p=1)",
        "batch.apply(lambda t: torch.linalg.vector_norm(t, ord, dim))",
        "ord, dim = 1, -1; batch = TensorDict(x=x); batch.apply(lambda t: torch.linalg.vector_norm(t, ord, dim))",
    ),
    "keys of a state": (
        "TensorDict({'a.b': x, 'a': {'b': x}}).state_dict()",
        "flatten=False",
        "TensorDict({'a.b': x, 'a': {'b': x}}).state_dict(flatten=False)",
    ),
    "a tensor of inference": (
        "with torch.inference_mode():\n    d = TensorDict(a=torch.ones(2))\nd.add_(1)",
        "clone()",
        "with torch.inference_mode():\n    d = TensorDict(a=torch.ones(2))\nd.clone().add_(1)",
    ),
    "a view of a leaf": (
        "TensorDict(a=x.clone().requires_grad_()[0]).zero_()",
        "torch.no_grad()",
        "with torch.no_grad():\n    TensorDict(a=x.clone().requires_grad_()[0]).zero_()",
    ),
    "one of several views": (
        "TensorDict(a=(x.clone().requires_grad_() * 2).unbind(0)[0]).zero_()",
        "clone()",
        "TensorDict(a=(x.clone().requires_grad_() * 2).unbind(0)[0]).clone().zero_()",
    ),
    "leading dims": (
        "value = torch.ones(3); TensorDict(a=x, batch_size=[2]).set('b', value)",
        "value.expand(...)",
        "value = torch.ones(3); TensorDict(a=x, batch_size=[2]).set('b', value.expand(2, 3))",
    ),
    "parameters of a stack": (
        "stack = lazy_stack([TensorDict(a=x)]); TensorDictParams(stack)",
        "stack.densify()",
        "stack = lazy_stack([TensorDict(a=x)]); TensorDictParams(stack.densify())",
    ),
    "masks of a class": (
        "pad_sequence([batch, batch[:1]], return_mask=True)",
        "to_tensordict()",
        "pad_sequence([one.to_tensordict() for one in (batch, batch[:1])], return_mask=True)",
    ),
    "objects as an array": (
        "Many(x=x, name=['a', 'b']).get('name').numpy()",
        ".tolist()",
        "Many(x=x, name=['a', 'b']).get('name').tolist()",
    ),
    "shapes of members": (
        "lazy_stack([TensorDict(a=x), TensorDict(a=x[:1])]).get('a')",
        "get('a', as_list=True)",
        "lazy_stack([TensorDict(a=x), TensorDict(a=x[:1])]).get('a', as_list=True)",
    ),
    "a tensor as a member": ("lazy_stack([TensorDict(a=x), x])", "torch.stack", "torch.stack([x, x])"),
    "rows of ints": (
        "ragged = Words(x=x, n=[torch.ones(1).long(), torch.ones(2).long()]).n; ragged.mean()",
        "ragged.apply(Tensor.float)",
        "ragged = Words(x=x, n=[torch.ones(1).long(), torch.ones(2).long()]).n; ragged.apply(Tensor.float).mean()",
    ),
    "a part along a dim": (
        "steps = make('Steps', v=Float32[Tensor, 't'])(v=torch.ones(2, 5)); value = steps.along('t')[:2] * 3; "
        "steps.along('t')[2:4] = value",
        "part.update_(value)",
        "part = steps.along('t')[2:4]; part.update_(value); assert steps.v[0].tolist() == [1, 1, 3, 3, 1]",
    ),
    "a link": (
        "import os; batch.save('a.safetensors'); os.symlink('a.safetensors', 'b.safetensors'); path = 'b.safetensors'; "
        "load(path)",
        "os.path.realpath(path)",
        "assert len(load(os.path.realpath(path))) == len(batch)",
    ),
    "no path": ("batch.save()", 'batch.save("batch.safetensors")', 'batch.save("batch.safetensors")'),
    "a compressed folder": (
        "batch.save('f', compression='deflate')",
        "archive=True",
        "batch.save('f', compression='deflate', archive=True)",
    ),
    "no checksums": (
        "batch.save('a.tdz'); load('a.tdz', verify=True)",
        "checksums=True",
        "batch.save('a.tdz', checksums=True); load('a.tdz', verify=True)",
    ),
    "an object in a file": (
        "TensorDict(f=NonTensorData(object())).save('a.tdz')",
        "allow_pickle=True",
        "TensorDict(f=NonTensorData(object())).save('a.tdz', allow_pickle=True)",
    ),
    "an example of a module": (
        "make('A', x=Tensor, f=nn.Module).example(2)",
        "fields={'f'",
        "make('A', x=Tensor, f=nn.Module).example(2, fields={'f': nn.Linear(1, 1)})",
    ),
    "a required field": ("batch.del_('x')", "batch.select(...)", "batch.select('x')"),
    "a field of no module": (
        "make('A', x=(Float32[Tensor, '3'], produced()))(batch_size=[2]).x",
        "batch.x = ...",
        "batch = make('A', x=(Float32[Tensor, '3'], produced()))(batch_size=[2]); batch.x = x; batch.x",
    ),
    "a module that is not there": (
        "command('check', 'nothing')",
        "(`train.py:name`)",
        "Path('train.py').write_text(PIPELINE); command('check', 'train.py:model')",
    ),
    "a file that is there": (
        "batch.save('a.safetensors'); Path('a.csv').touch(); command('convert', 'a.safetensors', 'a.csv')",
        "--force",
        "batch.save('a.safetensors'); Path('a.csv').touch(); command('convert', 'a.safetensors', 'a.csv', '--force')",
    ),
}
BY_MEANING = _hints.BY_MEANING | {
    "a file of lines", "one value", "cast", "hidden name", "nan", "a file of torch", "frozen", "a function of torch",
    "a module that is not there", "many indices", "a required field", "a field of no module",
    "backward of several numbers", "shared values that differ",
}  # fmt: skip
"""Hints that show a declaration, or leave dots for the program to fill in."""
DECLARE = '''
PIPELINE = """
from torch import Tensor, nn
from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32
@tensorclass
class A:
    x: Float32[Tensor, "3"]
@tensorclass
class B:
    y: Float32[Tensor, "3"]
model = TensorClassSequential[A, B](stage(nn.Linear(3, 3), A.x, out=B.y))
"""
def make(name, autocast=False, **fields):
    space = {"__annotations__": {}, "__module__": __name__}
    for key, kind in fields.items():
        space["__annotations__"][key], *default = kind if isinstance(kind, tuple) else (kind,)
        space.update({key: one for one in default})
    return tensorclass(autocast=autocast)(type(name, (), space))
'''


def command(*arguments: str) -> None:
    """Run a command; what it prints as an error is raised."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        status = main(arguments)
    if status:
        raise RuntimeError(printed.getvalue())


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_that_is_followed_mends_the_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The wrong program raises a message with the code; the program with the code runs."""
    monkeypatch.chdir(tmp_path)
    wrong, hint, right = HINTS[name]
    scope: dict[str, Any] = {"__name__": __name__}
    exec(HEAD + DECLARE, scope)
    scope["command"] = command
    with pytest.raises((TensorClassError, TypeError, ValueError, OSError, RuntimeError, AttributeError)) as info:
        exec(wrong, scope)
    assert hint in str(info.value), str(info.value)
    assert name in BY_MEANING or hint.partition("(...")[0].strip("`") in right
    exec(right, scope)


SAYS = re.compile(
    r"\b(?:use|write|pass|call|give|set|declare|run|make|try|convert|or)\b[^`]{0,40}`([^`]*[(.=\[][^`]*)`"
)
"""A text that tells the reader to write some code."""


def texts_with_code(room: str) -> list[str]:
    """The texts of a room that show code, as patterns of the messages that they become."""
    found = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            given = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            if id(node) in inner or not any(given) or not all(isinstance(one, str | None) for one in given):
                continue
            if SAYS.search("".join(one or "x" for one in given)):
                found.append("".join(".*" if one is None else re.escape(one) for one in given))
    return found


@pytest.mark.slow
def test_texts_with_code_are_shown_by_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No more of them than are known lack a program that shows them and follows them."""
    shown = []
    for at, (wrong, _, _) in enumerate(HINTS.values()):
        (tmp_path / str(at)).mkdir()
        monkeypatch.chdir(tmp_path / str(at))
        scope: dict[str, Any] = {"__name__": __name__, "command": command}
        with pytest.raises(Exception) as info:  # the test above says which
            exec(HEAD + DECLARE + wrong, scope)
        shown.append(re.sub(r"\n +", " ", str(info.value)) + str(info.value))
    left = {
        (room, text): [one for one in _hints.NOT_APPLIED[room] if re.sub(r"\\(.)", r"\1", text).find(one) >= 0]
        for room in _hints.NOT_APPLIED
        for text in texts_with_code(room)
        if not any(re.search(text, one, re.S) for one in shown)
    }
    assert [name for name, found in left.items() if not found] == []
    used = {(room, one) for (room, _), found in left.items() for one in found}
    assert {(room, one) for room, texts in _hints.NOT_APPLIED.items() for one in texts} - used == set()
