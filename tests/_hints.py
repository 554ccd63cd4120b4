"""Wrong programs, the code that their messages show, and the programs that follow it: declarations, tables, containers.

More of them are in `test_hints.py`, which runs them all.
"""

from __future__ import annotations

PROGRAMS: dict[str, tuple[str, str, str]] = {
    # what the message shows: the wrong program, the code, the program that follows it
    "two tensors": (
        "make('A', x=Float32[Tensor, '3'] | Int64[Tensor, '3'])",
        "two optional fields",
        "make('A', x=(Float32[Tensor, '3'] | None, None), y=(Int64[Tensor, '3'] | None, None))(x=x)",
    ),
    "a marker on objects": (
        "from annotated_types import Ge\nfrom typing import Annotated\nmake('A', x=Annotated[PerElement[int], Ge(0)])",
        "PerElement[Annotated[int, ",
        "from annotated_types import Ge\nfrom typing import Annotated\nmake('A', x=PerElement[Annotated[int, Ge(0)]])",
    ),
    "a field of pydantic": (
        "import pydantic\nmake('A', n=(int, pydantic.Field(ge=0)))",
        "Annotated[int, Field(...)]",
        "import pydantic\nfrom typing import Annotated\nmake('A', n=Annotated[int, pydantic.Field(ge=0)])",
    ),
    "join of one value": (
        "make('A', n=(int, field(join='stack')))",
        "PerElement[...]",
        "make('A', n=PerElement[int])",
    ),
    "fill of a tensor": (
        "make('A', x=(Float32[Tensor, '3'], field(join='fill', fill=0)))",
        "| None",
        "make('A', x=(Float32[Tensor, '3'] | None, field(default=None, join='fill', fill=0)))",
    ),
    "ragged join": (
        "make('A', x=(Float32[Tensor, '3'], field(join='ragged')))",
        'Ragged[Tensor, "t d"]',
        "make('A', x=Ragged[Tensor, \"t d\"])",
    ),
    "sizes of an example": (
        "make('A', x=Float32[Tensor, 'n*n-1000003']).example(2)",
        "sizes={",
        "make('A', x=Float32[Tensor, 'n-5']).example(2, sizes={'n': 6})",
    ),
    "a hidden field": (
        "class A(TensorClass):\n    x: Float32[Tensor, '3']\nclass B(A):\n    x = 3",
        "`x: ... = ...`",
        "class A(TensorClass):\n    n: int = 1\nclass B(A):\n    n: int = 3",
    ),
    "a field without a type": (
        "class A(TensorClass):\n    x = field(join='pad')",
        "<type>",
        "class A(TensorClass):\n    x: Float32[Tensor, 'n'] = field(join='pad')",
    ),
    "a field by number": (
        "pick(Point, 3)",
        "Digits.image",
        "pick(Point, Point.x)",
    ),
    "checked nothing": (
        "@checked\ndef f(a):\n    return a",
        'Float32[Tensor, "b 4"]',
        '@checked\ndef f(a: Float32[Tensor, "b 4"]):\n    return a',
    ),
    "set in one": (
        "torch.stack([Line(begin=batch[0]), Line(begin=batch[0], weight=torch.tensor(1.))])",
        'field(join="fill")',
        "A = make('A', x=Float32[Tensor, '3'], w=(Float32[Tensor, ''] | None, field(default=None, join"
        '="fill", fill=0.)))\ntorch.stack([A(x=x[0]), A(x=x[0], w=torch.tensor(1.))])',
    ),
    "a private attribute": (
        "class A(TensorClass):\n    x: Float32[Tensor, '3']\n    _n: int\nA(x=x)[0]._n",
        "field(default_factory=",
        "class A(TensorClass):\n    x: Float32[Tensor, '3']\n    _n: list = field(default_factory=list)\nA(x=x)[0]._n",
    ),
    "a validator of pydantic": (
        "import pydantic\nclass A(TensorClass):\n    n: int\n    @pydantic.field_validator('n')\n    def "
        "check(cls, n): return n",
        "tensorclass.field_validator",
        "import tensorclass as t\nclass A(TensorClass):\n    n: int\n    @t.field_validator('n')\n    def "
        "check(cls, n): return n\nA(n=1)",
    ),
    "two classes": (
        "batch + Free(x=x)",
        ".from_tensordict(other)",
        "other = Free(x=x); batch + Point.from_tensordict(other)",
    ),
    "a new shape from apply": (
        "TensorDict(a=x, batch_size=[2]).apply(lambda t: t[0])",
        "batch_size=",
        "TensorDict(a=x, batch_size=[2]).apply(lambda t: t[0], batch_size=[])",
    ),
    "objects on one side": (
        "TensorDict(a=x[:, 0], n=NonTensorData('s', batch_size=[2]), batch_size=[2]).where(torch.ten"
        "sor([True, False]), TensorDict(a=x[:, 0], batch_size=[2]))",
        "pad=",
        "TensorDict(a=x[:, 0], n=NonTensorData('s', batch_size=[2]), batch_size=[2]).where(torch.ten"
        "sor([True, False]), TensorDict(a=x[:, 0], batch_size=[2]), pad=0)",
    ),
    "a pack of objects": (
        "TensorDict(a=x, n='s', batch_size=[2]).pack()",
        "filter_non_tensor_data()",
        "TensorDict(a=x, n='s', batch_size=[2]).filter_non_tensor_data().pack()",
    ),
    "no masks": (
        "unpad_sequence(TensorDict(a=x, batch_size=[2]))",
        "mask=",
        "unpad_sequence(TensorDict(a=x, batch_size=[2, 3]), mask=torch.ones(2, 3).bool())",
    ),
    "a dict as a container": (
        "class S(TypedTensorDict):\n    x: Tensor\nS.from_tensordict(batch)",
        "to_tensordict()",
        "class S(TypedTensorDict):\n    x: Tensor\nS.from_tensordict(batch.select('x').to_tensordict())",
    ),
    "an undeclared entry": (
        "class S(TypedTensorDict):\n    x: Tensor\nstate = S(x=x, batch_size=[2]); state.y = x",
        "state['y'] = ...",
        "class S(TypedTensorDict):\n    x: Tensor\nstate = S(x=x, batch_size=[2]); state['y'] = x",
    ),
    "a hidden attribute": (
        "class S(TypedTensorDict):\n    split: Tensor",
        "shadow=True",
        "class S(TypedTensorDict, shadow=True):\n    split: Tensor",
    ),
    "a map of objects": (
        "import torch.utils._pytree as p\np.tree_map(lambda t: t.float(), Many(x=x, name=['a', 'b']))",
        "batch.apply(fn)",
        "batch = Many(x=x, name=['a', 'b']); fn = Tensor.float; batch.apply(fn)",
    ),
    "shared lengths": (
        "b = Words(x=x, n=[torch.ones(1), torch.ones(2)]).share_memory_(); b[0] = Words(x=x[0], n=torch.ones(3))",
        "clone()",
        "b = Words(x=x, n=[torch.ones(1), torch.ones(2)]).share_memory_().clone(); b[0] = Words(x=x[0], n"
        "=torch.ones(3))",
    ),
    "objects of uneven members": (
        "lazy_stack([Many(x=x, name=['a', 'b']), Many(x=x[:1], name=['c'])]).get('name')",
        "as_list=True",
        "lazy_stack([Many(x=x, name=['a', 'b']), Many(x=x[:1], name=['c'])]).get('name', as_list=True)",
    ),
    "lazy views": (
        "set_lazy_legacy(True)",
        "lazy_stack",
        "lazy_stack([batch, batch])",
    ),
    "nested along another dim": (
        "lazy_stack([TensorDict(a=x, batch_size=[2]), TensorDict(a=x[:, :1], batch_size=[2])], 1).get_n"
        "estedtensor('a')",
        "as_nested_tensor=True",
        "lazy_stack([TensorDict(a=x, batch_size=[2]), TensorDict(a=x[:, :1], batch_size=[2])], 1).get('a', "
        "as_nested_tensor=True)",
    ),
    "no one nested tensor": (
        "lazy_stack([TensorDict(a=x), TensorDict(a=torch.ones(1, 2, 2))]).get('a', as_nested_tensor=True)",
        "as_list=True",
        "lazy_stack([TensorDict(a=x), TensorDict(a=torch.ones(1, 2, 2))]).get('a', as_list=True)",
    ),
    "a pickled object": (
        "TensorDict(f=NonTensorData(object())).save('a.tdz', allow_pickle=True); load('a.tdz')",
        "allow_pickle=True",
        "TensorDict(f=NonTensorData(object())).save('a.tdz', allow_pickle=True); load('a.tdz', allow_pickle=True)",
    ),
    "rows of other lengths": (
        "make('A', n=Int64[Tensor, 'n']).from_rows([{'n': [1]}, {'n': [1, 2]}])",
        "Ragged[...]",
        "make('A', n=Ragged[Tensor, 'n']).from_rows([{'n': [1]}, {'n': [1, 2]}])",
    ),
    "rows of other values": (
        "Point.from_rows([{'x': [1., 2., 3.], 'name': 'a'}, {'x': [1., 2., 3.], 'name': 'b'}])",
        "PerElement[...]",
        "Many.from_rows([{'x': [1., 2., 3.], 'name': 'a'}, {'x': [1., 2., 3.], 'name': 'b'}])",
    ),
    "an index along a dim": (
        "class A(TensorClass):\n    x: Float32[Tensor, 't 3']\n    y: Float32[Tensor, 't']\nA(x=torch.on"
        "es(2, 4, 3), y=torch.ones(2, 4)).along('t')[0]",
        "[0:1]",
        "class A(TensorClass):\n    x: Float32[Tensor, 't 3']\n    y: Float32[Tensor, 't']\nA(x=torch.on"
        "es(2, 4, 3), y=torch.ones(2, 4)).along('t')[0:1]",
    ),
    "a part that is assigned": (
        "class A(TensorClass):\n    x: Float32[Tensor, 't']\nA(torch.ones(2, 4)).along('t')[0:2] = 0",
        'part = batch.along("t")[2:4]',
        "class A(TensorClass):\n    x: Float32[Tensor, 't']\nbatch = A(torch.ones(2, 4))\n"
        "value = batch.along('t')[:2]\n"
        'part = batch.along("t")[2:4]\npart.update_(value)',
    ),
    "a link to a file": (
        "import os\npath = 'link.safetensors'\nTensorDict(a=x).save('a.safetensors')\n"
        "os.symlink('a.safetensors', path)\nload(path)",
        "os.path.realpath(path)",
        "load(os.path.realpath(path))",
    ),
    "a result no field holds": (
        "batch.mean(dim=0, dtype=torch.float64)",
        "batch.to_tensordict()",
        "batch.to_tensordict().mean(dim=0, dtype=torch.float64)",
    ),
    "two types": (
        "make('A', x=Float32[Tensor, '3'] | Float64[Tensor, '3'])",
        'Float[Tensor, "..."]',
        "make('A', x=Float[Tensor, \"...\"])(x=x)",
    ),
    "a call of a marker": (
        "PerElement()",
        "name: PerElement[str]",
        "class A(TensorClass):\n    x: Float32[Tensor, '3']\n    name: PerElement[str]\nA(x=x, name=['a', 'b'])",
    ),
    "batch dims of a nested class": (
        "make('A', b=Point, w=Tensor)(b=Point(x=torch.ones(2, 4, 3)), w=torch.ones(2))",
        "batch_size=",
        "make('A', b=Point, w=Tensor)(b=Point(x=torch.ones(2, 4, 3)), w=torch.ones(2), batch_size=[2])",
    ),
    "fields of a batch": (
        "batch.fields",
        "schema(cls).fields",
        "cls = Point; schema(cls).fields",
    ),
    "an instance of an abstract class": (
        "import abc\nclass Base(TensorClass, abc.ABC):\n    x: Tensor\n    @abc.abstractmethod\n    def "
        "f(self): ...\nmake('A', b=Base).example(2)",
        "fields={",
        "class Base(TensorClass):\n    x: Float32[Tensor, '3']\nmake('A', b=Base).example(2, fields={'b': Base(x=x)})",
    ),
    "a target without a name": (
        "Path('train.py').write_text(PIPELINE); command('check', 'train.py:a-b')",
        "FILE.py:name",
        "command('check', 'train.py:model')",
    ),
    "gradients of a result": (
        "d = TensorDict(a=x.clone().requires_grad_()) * 2; d.grad = TensorDict(a=x)",
        "detach()",
        "d = (TensorDict(a=x.clone().requires_grad_()) * 2).detach().requires_grad_(); d.grad = TensorDict(a=x)",
    ),
    "names of dims": (
        "TensorDict(a=x, batch_size=[2]).rename()",
        "old='new'",
        "TensorDict(a=x, batch_size=[2], names=['old']).rename(old='new')",
    ),
    "names that differ": (
        "torch.stack([TensorDict(a=x, batch_size=[2], names=['a']), TensorDict(a=x, batch_size=[2], names=['b'])])",
        "rename(None)",
        "torch.stack([TensorDict(a=x, batch_size=[2], names=[n]).rename(None) for n in 'ab'])",
    ),
    "several numbers to log": (
        "TensorDict(a=x).scalars()",
        'reduce="mean"',
        'TensorDict(a=x).scalars(reduce="mean")',
    ),
    "devices of members": (
        "lazy_stack([TensorDict(a=x, device='cpu'), TensorDict(a=x.to('meta'), device='meta')])",
        ".to(device)",
        "device = 'meta'; lazy_stack([TensorDict(a=x, device='cpu').to(device), TensorDict(a=x.to('meta'), "
        "device='meta')])",
    ),
    "a block over parameters": (
        "params = TensorDictParams(TensorDict(a=x))\nwith params:\n    pass",
        "a block over `params.data`",
        "params = TensorDictParams(TensorDict(a=x)); data = params.data\nwith data.flatten_keys() as flat:\n"
        "    flat['a'].zero_()",
    ),
    "two writers": (
        "w = TensorClassDataset.create('d', Point); TensorClassDataset.create('d', Point, resume=True)",
        "writer_id=",
        "w = [TensorClassDataset.create('e', Point, writer_id=one) for one in 'ab']",
    ),
    "texts for numbers": (
        "Number.from_rows([{'n': 'abc'}])",
        "PerElement[...]",
        "make('A', n=PerElement[str]).from_rows([{'n': 'abc'}])",
    ),
    "absent numbers": (
        "import pyarrow; from_arrow(pyarrow.table({'n': [1, None]}))",
        'nulls="fill"',
        "import pyarrow; from_arrow(pyarrow.table({'n': [1, None]}), nulls=\"fill\")",
    ),
    "an index into nothing": (
        "TensorDict(a=x)[0] = TensorDict(a=x[0])",
        "batch_size=",
        "TensorDict(a=x, batch_size=[2])[0] = TensorDict(a=x[0])",
    ),
    "a batch size twice": (
        "TensorDict.from_tuple((x,), batch_size=[2], auto_batch_size=True)",
        "auto_batch_size=True",
        "TensorDict.from_tuple((x,), auto_batch_size=True)",
    ),
    "a batch size twice, of a file": (
        "TensorDict(a=x).to_h5('a.h5'); from_h5('a.h5', batch_size=[2], auto_batch_size=True)",
        "auto_batch_size=True",
        "TensorDict(a=x).to_h5('a.h5'); from_h5('a.h5', auto_batch_size=True)",
    ),
    "a list for one value": (
        "Values(count=[1, 2])",
        "PerElement[int]",
        "make('A', x=Float32[Tensor, ''], count=PerElement[int])(x=x[:, 0], count=[1, 2])",
    ),
    "one tensor for all": (
        "make('A', x=(Tensor, field(join='same')))",
        "Shared[...]",
        "make('A', x=Shared[Tensor])",
    ),
    "another precision": (
        "Point(x=x.double())",
        "Float[...]",
        "Free(x=x.double())",
    ),
    "no process group": (
        "batch.all_reduce()",
        "torch.distributed.init_process_group",
        "torch.distributed.init_process_group('gloo', store=torch.distributed.HashStore(), rank=0, "
        "world_size=1)\ntry: TensorDict(x=x, batch_size=[2]).all_reduce()\nfinally: "
        "torch.distributed.destroy_process_group()",
    ),
}
BY_MEANING = {
    "two tensors",
    "a field of pydantic",
    "join of one value",
    "a hidden field",
    "a field without a type",
    "a field by number",
    "set in one",
    "a validator of pydantic",
    "an undeclared entry",
    "rows of other lengths",
    "rows of other values",
    "a target without a name",
    "a block over parameters",
    "texts for numbers",
    "one tensor for all",
    "another precision",
}
"""Hints that show a declaration, or leave dots for the program to fill in."""
RANKS = "it needs several processes; their tests are in tests/parallel"
SOURCES = "contributors read it: the head of a generated file, or the help of a command"
RARE = "a test of its own reaches it, with a state that takes more than one line to make"
NOT_APPLIED = {
    "_schema": {"pass nested lists": RARE, "` to another class": RARE},
    "classes": {},
    "cli": {"a class (`FILE.py:CLASS`)": SOURCES},
    "core": {"the leading dims of its holder": RARE, "vmap: in compiled code": RARE},
    "io": {
        "needs the class of the rows": RARE, "another writer has changed it": RARE, "the storage lies in": RARE,
        "it is a DTensor": RANKS, "name the class (`cls=`": RARE, "this batch is over a file": RARE,
    },
    "ops": {
        "distribute both": RANKS, "is a DTensor": RANKS, "an unfinished sum; make": RANKS,
        "# Generated by": SOURCES, "is stale: run": SOURCES,
        "has elements apart in memory": RARE,
    },
    "parallel": {
        "distribute: the ranks of": RANKS, "parallelise it over": RANKS, "return a DTensor": RANKS,
        "name its dims in the layout": RANKS, "gives typed batches": RARE, "is the state of an unfinished sum": RANKS,
        "has a placement, ": RANKS, " ranks, and no process group was started": RANKS, "have no names": RANKS,
        "` is `Shard(dim)` or `Replicate()`": RANKS, "`source=": RANKS, "local: on this rank": RANKS,
        "needs the class of the rows": RARE, "is a DTensor, of which": RANKS,
        "map `batch.local()` on each rank": RANKS,
    },
    "store": {"in-place write: ": RARE, "vmap runs the function": RARE, "this operation makes": RARE},
}  # fmt: skip
"""For each room, parts of texts with such code that no program shows, and why. A new one comes with a program."""
