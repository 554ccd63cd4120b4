"""Calls on a container `td` of batch size [2, 3] with entries `a` and (`b`, `c`); `T` is the library's `TensorDict`.

A line that starts with `!` is a statement, whose outcome is what it leaves in `td`. Here: entries, writes, keys, locks.
"""

from __future__ import annotations

ENTRIES = r"""
td.to(batch_size=[2])["b"].batch_size
td.get("zz")
td.get("zz", 3)
td.get(("b", "c"))
td.get(("b", "zz"), None)
td.get(("b", "zz", "y"), 1)
td.get(("a", "c"), 1)
td["zz"]
td["b", "zz"]
td["b"]["c"]
td[("b", ("c",))]
td[("b",), "c"]
"a" in td
("b", "c") in td
"zz" in td
("b", "zz") in td
"a" in td.keys()
("b", "c") in td.keys()
("b", "c") in td.keys(True)
"b" in td.keys(True, True)
list(td.keys())
list(td.keys(True))
list(td.keys(True, True))
list(td.keys(leaves_only=True))
list(td.keys(True, sort=True))
sorted(td.keys(True, True), key=str)
list(td.keys(True, True, is_leaf=lambda cls: True))
list(td.values(True, True))
list(td.values(leaves_only=True))
[k for k, _ in td.items(True)]
[k for k, _ in td.items(True, True)]
len(td.keys())
len(td.keys(True))
len(td)
len(T())
td.is_empty()
T(batch_size=[2]).is_empty()
T({"n": T(batch_size=[2])}, batch_size=[2]).is_empty()
td.entry_class("a")
td.get_item_shape("a")
td.depth
T(a=torch.zeros(1)).depth
td.sorted_keys
td.bytes()
td.param_count()
td.numel()
T(batch_size=[]).numel()
T(batch_size=[0]).numel()
td.size()
td.size(0)
td.size(-1)
td.size(2)
td.dim()
td.ndim
td.batch_dims
td.ndimension()
td.shape
!td["z"] = 1
!td["z"] = torch.ones(2, 3)
!td["z"] = torch.ones(2)
!td["z", "y"] = torch.ones(2, 3)
!td["a", "y"] = torch.ones(2, 3)
!td["b"] = {"q": torch.ones(2, 3)}
!td["b"] = T({"q": torch.ones(2, 3)}, batch_size=[2])
!td.set("z", torch.ones(2, 3, 1))
!td.set(("b", "z"), torch.ones(2, 3, 1))
!td.set(("q", "r", "s"), torch.ones(2, 3, 1))
!td.set("a", torch.ones(2, 3, 4), inplace=True)
!td.set("a", torch.ones(2, 3, 5), inplace=True)
!td.set("z", torch.ones(2, 3), inplace=True)
!td.set("a", torch.ones(2, 3, 5))
!del td["a"]
!del td["b", "c"]
!del td["zz"]
!td.del_("a")
td.pop("a")
td.pop(("b", "c"))
td.pop("zz", 3)
td.popitem()[0]
td.setdefault("a", torch.zeros(2, 3))
td.setdefault("z", torch.zeros(2, 3))
td.setdefault(("b", "z"), torch.zeros(2, 3))
!td.clear()
td.empty()
td.empty(recurse=True)
td.empty(batch_size=[4])
td.update({"a": torch.ones(2, 3)})
td.update({"b": {"c": torch.ones(2, 3)}})
td.update({"b": torch.ones(2, 3)})
td.update({("b", "c"): torch.ones(2, 3)})
td.update(T({"z": torch.ones(2, 3)}, batch_size=[2, 3]))
td.update(T({"z": torch.ones(2, 3)}, batch_size=[2]))
td.update({"z": torch.ones(2)})
td.update({"a": torch.ones(2, 3, 4), "z": torch.ones(2, 3)}, keys_to_update=["z"])
td.update({"a": torch.ones(2, 3, 4)}, inplace=True)
td.update({"z": torch.ones(2, 3, 4)}, inplace=True)
td.update({"a": torch.ones(2, 3, 5)}, inplace=True)
td.update(T({"q": torch.ones(5)}, batch_size=[5]), update_batch_size=True)
td.update({})
td.update(td)
td.update_({"a": torch.zeros(2, 3, 4)})
td.update_({"a": torch.zeros(2, 3, 4), "zz": torch.zeros(2, 3)})
td.update_({"b": {"c": torch.zeros(2, 3, 2)}})
td.update_({("b", "c"): torch.zeros(2, 3, 2)})
td.update_({"a": torch.zeros(5)})
td.update_({"a": torch.zeros(2, 3, 4), "b": {"c": torch.zeros(2, 3, 2)}}, keys_to_update=["a"])
td.set_("a", torch.zeros(2, 3, 4))
td.set_(("b", "c"), torch.zeros(2, 3, 2))
td.set_("a", torch.zeros(2, 3, 5))
td.set_at_("a", torch.zeros(3, 4), 0)
td.set_at_("a", torch.zeros(4), (0, 1))
td.set_at_(("b", "c"), 0.0, slice(0, 1))
td.set_at_("zz", 0.0, 0)
td.update_at_({"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3, 2)}}, 1)
td.update_at_({"zz": torch.zeros(3, 4)}, 1)
td.copy_(td + 1)
td.copy_at_(td[0] + 1, 1)
td.fill_("a", 3.0)
td.fill_("zz", 3.0)
td.zero_()
!td[0] = td[1] * 2
!td[:, 0] = td[:, 1]
!td[td["a"][..., 0] > 5] = 0.0
!td[[0, 1]] = td[[1, 0]].clone()
!td[5] = 0.0
!td[0] = torch.zeros(())
!td[..., 0] = 1.0
!td[0] = {"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3, 2)}}
!td[0] = {"a": torch.zeros(3, 4), "zz": torch.zeros(3), "b": {"c": torch.zeros(3, 2)}}
td.replace({"a": torch.ones(2, 3)})
td.replace(a=torch.ones(2, 3))
td.create_nested("z")
td.create_nested(("z", "y"))
td.create_nested(("b", "y"))
td.select("a")
td.select("a", ("b", "c"))
td.select("zz")
td.select("zz", strict=False)
td.select("a", inplace=True)
td.select(("b", "c"), inplace=True)
td.exclude("a")
td.exclude("a", "b")
td.exclude(("b", "c"))
td.exclude(("b", "zz"))
td.exclude("a", inplace=True)
td.rename_key_("a", "z")
td.rename_key_(("b", "c"), "z")
td.rename_key_("a", ("b", "z"))
td.rename_key_("a", "b")
td.rename_key_("a", "b", safe=True)
td.rename_key_("zz", "b")
td.rename_key_("a", "a")
td.rename_keys({"a": "z"})
td.rename_keys({"a": "z", "b": "y"})
td.rename_keys({"a": "b", "b": "a"})
td.rename_keys({"zz": "y"})
td.rename_keys({"zz": "y"}, strict=False)
td.rename_keys({("b", "c"): "y"})
T(a=torch.zeros(2)).permute([])
T(a=torch.zeros(())).permute(())
T(a=torch.zeros(())).expand([])
td.flatten_keys()
td.flatten_keys("/")
td.flatten_keys(inplace=True)
td.flatten_keys().unflatten_keys()
td.unflatten_keys()
T({"x_y": torch.zeros(2), "x_z": torch.ones(2)}, batch_size=[2]).unflatten_keys("_")
td.split_keys(["a"])
td.split_keys(["a"], ["b"])
td.split_keys(["a"], [("b", "c")])
td.split_keys(["zz"])
td.split_keys(["zz"], strict=False)
td.split_keys(["a"], inplace=True)
td.split_keys(["a"], reproduce_struct=True)
td.separates("a")
td.separates(("b", "c"))
td.separates("zz", strict=False)
td.separates("zz")
td.separates(("b", "c"), filter_empty=False)
T({"n": T(batch_size=[2]), "a": torch.zeros(2)}, batch_size=[2]).filter_empty_()
td.filter_non_tensor_data()
td.to_pytree()
T.from_pytree({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, batch_size=[2])
T.from_pytree({"a": torch.zeros(2, 3), "b": {"c": torch.ones(2, 4)}}, auto_batch_size=True)
T({"a": torch.zeros(2, 3), "b": {"c": torch.ones(2, 3, 4)}}).auto_batch_size_()
T({"a": torch.zeros(2, 3), "b": {"c": torch.ones(2, 3, 4)}}).auto_batch_size_(1)
T({"a": torch.zeros(2, 3), "b": torch.ones(5)}).auto_batch_size_()
T.fromkeys(["a", "b"], 1)
T.fromkeys([("a", "b")])
td.apply(lambda t: t + 1)
td.apply(lambda t: None)
td.apply(lambda t: True)
T(a=torch.zeros(2)).apply(lambda t: 3)
T(n={"a": torch.zeros(2)}).apply(lambda t: t.sum().item())
td.apply(lambda t: None, filter_empty=True)
td.apply(lambda t: None, filter_empty=False)
td.apply(lambda t: t if t.shape[-1] == 4 else None)
td.apply(lambda t: t if t.shape[-1] == 4 else None, filter_empty=True)
td.apply(lambda t: t if t.shape[-1] == 4 else None, filter_empty=False)
td.apply(lambda t: t.sum(), batch_size=[])
td.apply(lambda t: t[0], batch_size=[3])
td.apply(lambda t: t[0])
td.apply(lambda t, u: t + u, td)
td.apply(lambda t, u: t + u, td.select("a"))
td.apply(lambda t, u: t if u is None else t + u, td.select("a"), default=None)
td.apply(lambda t: t + 1, inplace=True)
td.apply(lambda t: t.double(), inplace=True)
td.apply(lambda t: t[..., :1], inplace=True)
td.apply_(lambda t: t.add_(1))
td.apply(lambda t: t, call_on_nested=True)
td.apply(lambda t: t.clone(), call_on_nested=True)
td.apply(lambda t: t, device="cpu").device
td.apply(lambda t: t + 1, out=td.clone())
td.named_apply(lambda k, t: t + len(k))
td.named_apply(lambda k, t: t + len(k), nested_keys=True)
td.named_apply(lambda k, t, u: t + u, td)
td.named_apply(lambda k, t: None if k == "a" else t)
td.new_zeros(3)
td.new_zeros([3, 2])
td.new_ones((4,), dtype=torch.int32)
td.new_full((2,), 7)
td.new_full([2], 7.5, dtype=torch.float64)
td.new_empty(2)["a"].shape
td.new_tensor(td)
td.new_tensor([1.0, 2.0])
torch.zeros_like(td)
torch.ones_like(td)
torch.full_like(td, 3.0)
torch.rand_like(td)["a"].shape
torch.empty_like(td)["a"].shape
T.from_schema({"a": ([3], torch.float32), ("b", "c"): ([], torch.int64)}, batch_size=[4])
td.to(torch.float64)
td.to("cpu")
td.to("cpu").device
td.to(device="cpu", dtype=torch.int64)
td.to(torch.device("cpu"), torch.float16)
td.to(other=td.to(torch.float64))
td.cpu().device
td.device
td.is_cpu
td.to("cpu").is_cpu
td.is_cuda
td.is_meta
td.to("meta").device
td.to("meta")["b"].device
td.dtype
td.double().dtype
td.is_floating_point()
td.int().is_floating_point()
td.type(torch.float64)
td.bool()
td.half()
td.complex64()
td.as_tensor()
td.float(cast_filter=lambda k, t: True)
td.double(cast_filter=lambda k, t: k == "a")
td.double(cast_filter=lambda k, t: k == ("b", "c"))
td.auto_device_().device
td.to("cpu").clear_device_().device
td.clone()
td.clone(False)
td.copy()
td.clone(recurse=False)["a"] is td["a"]
td.lock_().is_locked
td.lock_()["b"].is_locked
td.lock_().unlock_().is_locked
td.lock_().clone().is_locked
td.lock_().copy().is_locked
td.lock_()[0].is_locked
td.lock_().select("a").is_locked
td.lock_().apply(lambda t: t + 1).is_locked
td.lock_().apply(lambda t: t + 1, propagate_lock=True).is_locked
!td.lock_(); td["z"] = torch.ones(2, 3)
!td.lock_(); td["a"] = torch.ones(2, 3, 4)
!td.lock_(); td.set_("a", torch.ones(2, 3, 4))
!td.lock_(); td["b"]["z"] = torch.ones(2, 3, 4)
!td.lock_(); td["b", "z"] = torch.ones(2, 3, 4)
!td.lock_(); td["b"].unlock_()
!td.lock_(); del td["a"]
!td.lock_(); td.pop("a")
!td.lock_(); td.rename_key_("a", "z")
!td.lock_(); td.clear()
!td.lock_(); td.update({"a": torch.ones(2, 3, 4)})
!td.lock_(); td.update({"a": torch.ones(2, 3, 4)}, inplace=True)
!td.lock_(); td.update({"z": torch.ones(2, 3, 4)}, inplace=True)
!td.lock_(); td.update_({"a": torch.ones(2, 3, 4)})
!td.lock_(); td.zero_()
!td.lock_(); td += 1
!td.lock_(); td.add_(1)
!td.lock_(); td[0] = 0.0
!td.lock_(); td.apply_(lambda t: t.zero_())
!td.lock_(); td.flatten_keys(inplace=True)
!td.lock_(); td.batch_size = [2]
!td.lock_(); td.unlock_(); td["z"] = torch.ones(2, 3)
!td.batch_size = [2]
!td.batch_size = [2, 3, 4]
!td.batch_size = [5]
!td.batch_size = []
td.names
T(batch_size=[2, 3], names=["x", "y"]).names
""".strip().splitlines()
