"""Pytrees, states, copies, compiling, helpers."""

import copy
import pickle

import torch
from tensordict import TensorDict, unravel_key
from tensordict.base import TensorDictBase
from tensordict.base import is_tensor_collection as itc
from tensordict.utils import timeit
from torch.utils import _pytree as pytree

td = TensorDict({"a": torch.ones(3), ("b", "c"): torch.zeros(3)}, [3])
leaves, spec = pytree.tree_flatten(td)
assert len(leaves) == 2
assert isinstance(pytree.tree_unflatten(leaves, spec), TensorDict)
sd = td.state_dict()
td2 = td.clone().zero_()
td2.load_state_dict(sd)
assert (td2 == td).all()
assert (pickle.loads(pickle.dumps(td)) == td).all()
assert (copy.deepcopy(td) == td).all()
assert unravel_key((("a",), "b")) == ("a", "b")
f = torch.compile(lambda t: t + 1, backend="eager", fullgraph=True)
print(f(td)["a"])
with timeit("x"):
    pass

print(isinstance(td, TensorDictBase), itc(td), td.names)
td.requires_grad_()
(td * 2).sum(reduce=True).backward()
print(td.grad["a"])
