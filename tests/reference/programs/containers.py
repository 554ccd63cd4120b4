"""A container: reading, writing, shape operations."""

import torch
from tensordict import TensorDict
from tensordict.utils import assert_allclose_td

tensordict = TensorDict(
    {"key 1": torch.ones(3, 4, 5), "key 2": torch.zeros(3, 4, 5, dtype=torch.bool)}, batch_size=[3, 4]
)
assert tensordict.shape == (3, 4)
assert tensordict.batch_dims == 2
sub = tensordict[..., :2]
assert sub["key 1"].shape == (3, 2, 5)
s = torch.stack([tensordict, tensordict], 0)
assert s.shape == (2, 3, 4)
c = torch.cat([tensordict, tensordict], 0)
assert c.batch_size == torch.Size([6, 4])
for key, value in tensordict.items():
    print(key, value.shape)
tensordict["key 3"] = torch.randn(3, 4)
tensordict.set("nested", TensorDict({"inner": torch.zeros(3, 4)}, [3, 4]))
tensordict["nested", "inner"] = torch.ones(3, 4)
assert (tensordict["nested"]["inner"] == 1).all()
print(sorted(tensordict.keys(include_nested=True, leaves_only=True), key=str))
v = tensordict.view(12)
v.fill_("key 1", 3.0)
assert (tensordict["key 1"] == 3).all()
p = tensordict.permute(1, 0)
assert p.shape == (4, 3)
u = tensordict.unsqueeze(-1)
assert u.shape == (3, 4, 1)
r = tensordict.reshape(-1)
assert r.shape == (12,)
tensordict.rename_key_("key 3", "key 4")
del tensordict["key 4"]
assert "key 4" not in tensordict
assert_allclose_td(tensordict.clone(), tensordict)
masked = tensordict[torch.tensor([True, False, True])]
assert masked.shape == (2, 4)
td2 = tensordict.apply(lambda x: x.float() + 1)
assert td2["key 1"].dtype is torch.float32
sp = tensordict.split(1, 0)
assert len(sp) == 3
for t in tensordict.unbind(0):
    assert t.shape == (4,)
flat = tensordict.flatten_keys(".")
assert "nested.inner" in flat
assert tensordict.to(torch.device("cpu")).device == torch.device("cpu")
d = tensordict.to_dict()
assert isinstance(d["nested"], dict)
for i, _row in enumerate(tensordict):
    pass
assert i == 2
print(tensordict)
