"""Lazy stacks, padding and other functions."""

import torch
from tensordict import (
    LazyStackedTensorDict,
    TensorDict,
    lazy_stack,
    maybe_dense_stack,
    pad,
    pad_sequence,
)
from tensordict.functional import make_tensordict, merge_tensordicts

a = TensorDict({"a": torch.zeros(3)}, [])
b = TensorDict({"a": torch.ones(4), "b": torch.zeros(1)}, [])
l = lazy_stack([a, b])
print(l.keys(), l.batch_size, l[1]["b"])
l2 = LazyStackedTensorDict(a, a.clone(), stack_dim=0)
assert l2["a"].shape == (2, 3)
print(l.get_nestedtensor("a", layout=torch.jagged).size(0))
print(isinstance(maybe_dense_stack([a, b]), LazyStackedTensorDict))
print(pad(TensorDict({"a": torch.ones(3, 4)}, [3]), [0, 2], value=0.0).shape)
seq = pad_sequence([TensorDict({"a": torch.ones(2, 5)}, [2]), TensorDict({"a": torch.ones(4, 5)}, [4])])
print(seq.shape)
m = merge_tensordicts(a, TensorDict({"c": torch.ones(1)}, []))
print(sorted(m.keys()))
t = make_tensordict({"a": torch.randn(3, 4), "b": {"c": torch.randn(3)}}, auto_batch_size=True)
print(t.batch_size)
for _td in l.unbind(0):
    pass
l.append(TensorDict({"a": torch.zeros(5)}, []))
assert len(l) == 3
