"""The calls of every operation family; `_structures.py` says what they may name. `!` marks a statement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tests.differential._structures import FLOATS, NUMBERS, Strategy, stacks, structures


@dataclass(frozen=True)
class Family:
    """Calls that belong together, and the containers that they meet."""

    text: str
    trees: Strategy

    @cached_property
    def calls(self) -> list[str]:
        """One a line."""
        return self.text.strip().splitlines()


PLAIN = structures()
STILL = structures(tracked=False)
SMALL = structures(most=3)
FEW = structures(NUMBERS, most=3, tracked=False)

FAMILIES = {
    "construction and dict access": Family(
        r"""
T(dict(td.items()), batch_size=td.batch_size)
T(td, batch_size=td.batch_size[:1])
T(dict(td.items()), batch_size=[*td.batch_size, 1])
td.get(path)
td.get(path, None)
td[path]
td.get("zz")
td.get("zz", number)
td["zz"]
path in td.keys(True)
leaf in td.keys(True, True)
path in td
list(td.keys())
sorted(td.keys(True), key=str)
sorted(td.keys(True, True), key=str)
sorted(td.keys(include_nested=flag, leaves_only=True), key=str)
len(td.keys())
list(td.values(True, True))
[key for key, _ in td.items()]
len(td) if td.batch_dims else 0
td.is_empty()
td.numel()
td.depth
td.bytes()
td.param_count()
td.shape
td.size(dim)
td.get_item_shape(leaf)
td.entry_class(path).__name__ == "Tensor"
!td["z"] = value
!td["z", "y"] = value
!td["n", "z"] = value
!td[leaf] = value
!td[path] = value
!td.set(leaf, value)
!td.set("z", value, inplace=flag)
!td.update({"z": value})
!td.update({"n": {"z": value}})
!td.update(other)
td.setdefault(leaf, value)
td.setdefault("z", value)
td.pop(path)
td.pop("zz", number)
!td.del_(path)
!del td[path]
!td.clear()
td.empty()
td.empty(recurse=True)
td.clone()
td.clone(recurse=False)
td.copy()
td.replace(other)
td.create_nested("z")
td.new_zeros(count)
td.new_ones((count, 2))
td.new_full((count,), number)
torch.zeros_like(td)
torch.ones_like(td)
torch.full_like(td, 1)
!td.batch_size = td.batch_size[:1]
!td.batch_size = []
!td.auto_batch_size_(count)
!td.auto_batch_size_()
T.fromkeys(["p", "q"], value)
""",
        PLAIN,
    ),
    "key transforms": Family(
        r"""
td.select(path)
td.select(leaf, "b")
td.select(path, strict=flag)
td.select("zz", strict=flag)
td.select(leaf, inplace=True)
td.exclude(path)
td.exclude(leaf, "b")
td.exclude(leaf, inplace=True)
td.exclude("zz")
td.flatten_keys(sep)
td.flatten_keys(sep, inplace=flag)
td.flatten_keys(sep).unflatten_keys(sep)
td.unflatten_keys(sep)
td.flatten_keys(sep).unflatten_keys(sep, inplace=flag)
td.rename_key_(path, "z")
td.rename_key_(leaf, ("z", "y"))
td.rename_key_(path, "b")
td.rename_key_(path, "b", safe=True)
td.rename_keys({leaf: "z"}) if isinstance(leaf, str) else None
td.split_keys([leaf])
td.split_keys([leaf], ["b"])
td.split_keys(["zz"], strict=flag)
td.separates("b")
td.filter_empty_()
td.filter_non_tensor_data()
td.keys(True, True, sort=True) and list(td.keys(True, True, sort=True))
""",
        PLAIN,
    ),
    "indexing": Family(
        r"""
td[index]
td[index].clone()
td[mask]
td[picks]
td[torch.tensor(picks)]
td[torch.tensor(picks), ...]
td[..., None]
td[None]
td[cut:]
td[:cut]
td.get_at(leaf, index)
td.get_at(path, 0)
td.masked_select(mask)
td.gather(dim, grid)
td.where(mask, other)
td.where(mask, 0)
torch.where(mask, td, other)
td.masked_fill(mask, 1)
""",
        PLAIN,
    ),
    "index assignment": Family(
        r"""
!td[index] = 0
!td[index] = other[index]
!td[mask] = 1
!td[mask] = other[mask]
!td[cut:] = other[cut:]
!td[0] = other[0]
!td[0] = number
!td[torch.tensor(picks)] = other[torch.tensor(picks)].clone()
!td[picks] = 1
td.set_at_(leaf, 1, index)
td.set_at_(leaf, other.get(leaf)[index], index)
td.update_at_(other[0], 0)
td.copy_at_(other[0], 0)
td.masked_fill_(mask, 1)
td.set_at_("zz", 1, 0)
""",
        STILL,
    ),
    "in-place writes": Family(
        r"""
td.set_(leaf, other.get(leaf))
td.set_(leaf, value)
td.set_("zz", value)
td.set(leaf, other.get(leaf), inplace=True)
td.update_(other)
td.update_({leaf: other.get(leaf)})
td.update_({"b": value})
td.update(other, inplace=True)
td.copy_(other)
td.fill_(leaf, number)
td.zero_()
td.apply_(lambda t: t.zero_())
!td += 1
!td *= 2
!td.lock_(); td.update_(other)
!td.lock_(); td["z"] = value
!td.lock_(); td.set_(leaf, other.get(leaf))
!td.lock_(); td.pop(path)
!td.lock_(); td.unlock_(); td["z"] = value
td.lock_().clone()
td.lock_()[None]
""",
        STILL,
    ),
    "shape operations": Family(
        r"""
td.reshape(-1)
td.reshape(td.batch_size)
td.reshape(1, *td.batch_size)
td.reshape(list(td.batch_size)[::-1])
td.reshape(count, -1)
td.view(-1)
td.view(1, *td.batch_size)
td.view(count, -1)
td.flatten(dim, -1)
td.flatten(0, dim)
td.flatten()
td.unflatten(dim, (1, td.batch_size[dim]))
td.unsqueeze(place)
td.squeeze(dim)
td.squeeze()
td.permute(order)
td.permute(*order)
td.transpose(dim, dim2)
td.swapaxes(dim, dim2)
td.swapdims(dim, dim2)
td.movedim(dim, dim2)
td.moveaxis(dim, dim2)
td.flip(dim)
td.flip([dim, dim2])
td.fliplr()
td.flipud()
td.roll(count, dim)
td.roll(count)
td.rot90(count, (dim, dim2))
td.expand(2, *td.batch_size)
td.expand(*td.batch_size)
td.expand([count, *[-1] * td.batch_dims])
td.expand_as(torch.zeros(2, *td.batch_size))
td.broadcast_to((2, *td.batch_size))
td.repeat(*[2] * td.batch_dims)
td.repeat(count, *td.batch_size)
td.repeat_interleave(2, dim=dim)
td.repeat_interleave(count)
td.tile((count,))
td.narrow(dim, 0, 1)
td.narrow(dim, cut, 1)
td.contiguous()
td.is_contiguous()
td.atleast_1d()
td.atleast_2d()
td.atleast_3d()
torch.squeeze(td)
torch.permute(td, order)
torch.unsqueeze(td, place)
torch.reshape(td, (-1,))
torch.flatten(td)
""",
        PLAIN,
    ),
    "split and join": Family(
        r"""
td.split(count, dim)
td.split([cut, td.batch_size[0] - cut])
td.split([1, 1], dim)
td.tensor_split(count, dim)
td.tensor_split([cut], 0)
td.chunk(count, dim)
td.unbind(dim)
list(td)
torch.stack([td, other], place)
torch.stack([td, other, third])
torch.cat([td, other], dim)
torch.cat([td, other, third], 0)
torch.split(td, count, dim)
torch.chunk(td, count, dim)
torch.unbind(td, dim)
T.stack([td, other], place)
T.cat([td, other], dim)
T.maybe_dense_stack([td, other], place)
lib.stack([td, other], place)
lib.cat([td, other], dim)
torch.stack([td, other.select("b")])
torch.cat([td, other.exclude("b")])
torch.stack([td, other[None]])
torch.cat([td, other[:0]])
td.clone().stack_tensors("b", leaf, out_key="z", dim=0, keep_entries=True)
td.clone().cat_tensors("b", leaf, out_key="z", dim=0, keep_entries=True)
""",
        SMALL,
    ),
    "lazy stacks": Family(
        r"""
td[index]
td[0]
td[mask]
td[picks]
td[path]
td.get(leaf)
td.unbind(dim)
td.split(count, dim)
td.chunk(count, dim)
td.unsqueeze(place)
td.squeeze()
td.permute(order)
td.transpose(dim, dim2)
td.expand(2, *td.batch_size)
td.reshape(-1)
td.flatten_keys()
td.select(path)
td.exclude(path)
td.clone()
td.densify()
td.contiguous()
td.apply(lambda t: t + 1)
td + 1
td * td
td == td
td.to(torch.float64)
td.keys() and sorted(td.keys(True, True), key=str)
torch.stack([td, other])
torch.cat([td, other], dim)
!td["z"] = value
!td[leaf] = value
!td[0] = other[0]
!td[index] = other[index]
!td.set_(leaf, other.get(leaf))
!td.update_(other)
!td.update(other)
!td.zero_()
!del td[path]
td.pop(leaf)
!td.rename_key_(leaf, "z")
!td.append(td[0].clone())
!td.lock_(); td["z"] = value
td.lock_().is_locked
td.sum(0)
td.gather(dim, grid)
""",
        stacks(),
    ),
    "pointwise": Family(
        r"""
td + other
td - other
td * other
td / other
td ** 2
td % 3
td + number
number - td
number * td
td / 2
-td
abs(td)
td == other
td != other
td < other
td >= number
td.exp()
td.abs()
td.sqrt()
td.sin()
td.tanh()
td.sigmoid()
td.floor()
td.round()
td.trunc()
td.sign()
td.reciprocal()
td.log1p()
td.isnan()
td.isfinite()
td.add(other, alpha=2)
td.sub(other)
td.mul(number)
td.div(other)
td.pow(2)
td.lerp(other, 0.5)
td.addcmul(other, third, value=0.5)
td.addcdiv(other, third + 1, value=0.5)
td.clamp_max(1)
td.clamp_min(other)
td.clamp(0, 1)
td.maximum(other)
td.minimum(other)
td.neg()
!td.add_(1)
!td.mul_(other)
!td.exp_()
!td.clamp_max_(1)
!td.lerp_(other, 0.5)
!td -= other
td.add(other.select("b"), default=0.0)
td.add(other.select("b"), default="intersection")
td + other.select("b")
td + torch.ones(td.batch_size)
torch.add(td, other)
td.bool() & other.bool()
~td.bool()
td.int() ^ other.int()
td.logical_and(other)
""",
        structures(FLOATS, most=3, tracked=False),
    ),
    "reductions": Family(
        r"""
td.sum()
td.sum(dim)
td.sum(dim, keepdim=flag)
td.sum(dim="feature")
td.sum(reduce=flag)
td.sum((0, -1))
td.sum(dim, dtype=torch.float64)
td.double().mean(dim)
td.double().mean()
td.double().mean(reduce=True)
td.double().std(dim)
td.double().var(dim, correction=0)
td.double().nansum(dim)
td.double().nanmean(dim)
td.prod(dim)
td.prod()
td.min(dim)
td.max(dim)
td.min(dim, return_indices=False)
td.max(dim, keepdim=flag)
td.max()
td.amin(dim)
td.amax(dim, keepdim=flag)
td.cummin(dim)
td.cummax(dim)
td.bool().all()
td.bool().any()
td.bool().all(dim=dim)
td.bool().any(dim=dim)
td.double().logsumexp(dim)
td.double().softmax(dim)
td.double().norm()
td.double().quantile(0.5, dim)
td.sum(5)
""",
        structures(NUMBERS, most=3, tracked=False, smallest=1),
    ),
    "apply": Family(
        r"""
td.apply(lambda t: t + 1)
td.apply(lambda t: t)
td.apply(lambda t, u: t + u, other)
td.apply(lambda t: None)
td.apply(lambda t: None, filter_empty=flag)
td.apply(lambda t: t if t.dtype.is_floating_point else None)
td.apply(lambda t: t if t.dtype.is_floating_point else None, filter_empty=flag)
td.apply(lambda t: t.unsqueeze(0), batch_size=[1, *td.batch_size])
td.apply(lambda t: t.clone(), call_on_nested=False)
td.apply(lambda t: t + 1, inplace=True)
td.apply_(lambda t: t.zero_())
td.apply(lambda t: t.double(), device="cpu")
td.apply(lambda t, u: t if u is None else t + u, other.select("b"), default=None)
td.apply(lambda t, u: t + u, other.select("b"))
td.named_apply(lambda k, t: t + len(k))
td.named_apply(lambda k, t: t if k == "b" else None)
td.named_apply(lambda k, t: t + len(str(k)), nested_keys=True)
td.named_apply(lambda k, t, u: t + u, other, nested_keys=flag)
td.apply(lambda t: t + 1, propagate_lock=True)
td.lock_().apply(lambda t: t + 1, propagate_lock=flag)
td.apply(lambda t: t + 1, names=[None] * td.batch_dims)
""",
        FEW,
    ),
    "device and dtype": Family(
        r"""
td.to(dtype)
td.to("cpu")
td.to(torch.device("cpu"), dtype)
td.to(device="cpu", dtype=dtype)
td.to(other=other.to(dtype))
td.type(dtype)
td.double()
td.float()
td.half()
td.int()
td.bool()
td.bfloat16()
td.int64()
td.complex64()
td.cpu()
td.device
td.dtype
td.is_floating_point()
td.is_cpu
td.is_meta
td.to("meta").device
td.auto_device_()
td.to("cpu").clear_device_()
td.double(cast_filter=lambda k, t: k == "b")
td.as_tensor()
!td.to("cpu")["z"] = value
""",
        structures(most=3),
    ),
    "autograd": Family(
        r"""
td.requires_grad
td.requires_grad_()
td.requires_grad_(flag)
td.detach()
!td.detach_()
td.data
td.grad
(td * 2).detach()
(td * 2).requires_grad
(td * 2).sum(reduce=True).requires_grad
[td.requires_grad_(), (td * 2).sum(reduce=True).backward(), td.grad][2]
[td.requires_grad_(), (td * 2).sum(reduce=True).backward(), td.zero_grad(), td.grad][3]
[td.requires_grad_(), (td * 2).sum(reduce=True).backward(), td.zero_grad(set_to_none=False), td.grad][3]
[td.requires_grad_(), (td ** 2).sum(reduce=True).backward(), td.clone().grad][2]
[td.requires_grad_(), td[None].requires_grad][1]
[td.requires_grad_(), (td + other).requires_grad][1]
[td.requires_grad_(), torch.stack([td, other]).requires_grad][1]
[td.requires_grad_(), td.data.requires_grad][1]
td.detach().requires_grad_().requires_grad
""",
        structures(FLOATS, most=3, smallest=1),
    ),
    "conversions": Family(
        r"""
td.to_dict()
td.to_dict(retain_none=flag)
T.from_dict(td.to_dict())
T.from_dict(td.to_dict(), batch_size=td.batch_size)
T.from_dict(td.to_dict(), auto_batch_size=True)
T.from_dict(td.to_dict(), auto_batch_size=True, batch_dims=count)
lib.from_dict(td.to_dict(), batch_size=td.batch_size)
td.from_dict_instance(td.to_dict())
T.from_any(td.to_dict())
T.from_any(td.to_dict(), auto_batch_size=True)
T.from_tuple((value, value))
T.from_tuple((value, value), batch_size=td.batch_size)
list(td.to_namedtuple()._fields)
list(td.state_dict())
T().load_state_dict(td.state_dict()).to_tensordict()
other.load_state_dict(td.state_dict())
other.load_state_dict(td.state_dict(), assign=flag)
other.select("b").load_state_dict(td.state_dict(), strict=flag)
td.to_tensordict()
td.flatten_keys().state_dict().keys()
td.detach().numpy().keys() if hasattr(td.detach().numpy(), "keys") else None
td.tolist() if td.batch_dims else None
T(td.to_dict(), batch_size=td.batch_size)
torch.utils._pytree.tree_map(lambda t: t, td)
""",
        structures(most=3, dtypes=NUMBERS, items=True),
    ),
    "names": Family(
        r"""
td.names
td[index].names
td[index]
td.permute(order)
td.transpose(dim, dim2)
td.unsqueeze(place)
td.squeeze()
td.squeeze(dim)
td.reshape(-1)
td.reshape(td.batch_size)
td.flatten(0, -1)
td.expand(2, *td.batch_size)
td.unbind(dim)
td.split(count, dim)
td.clone()
td.copy()
td + 1
td + other
td == other
td.apply(lambda t: t + 1)
td.select("b")
td.exclude("b")
td.flatten_keys()
td.to(torch.float64)
td.sum(dim)
td.flip(dim)
td.empty()
td.to_tensordict()
torch.stack([td, other], place)
torch.cat([td, other], dim)
torch.zeros_like(td)
td.rename(*[f"q{i}" for i in range(td.batch_dims)])
td.rename(t="q")
!td.names = [f"q{i}" for i in range(td.batch_dims)]
!td.names = None
!td.names = ["q"]
!td["z"] = value
td.to_dict()
td.lock_().clone()
""",
        structures(NUMBERS, most=4, tracked=False, named=True),
    ),
    "non-tensor data": Family(
        r"""
td["item"]
td.get("item")
td.get_non_tensor("item")
td.clone()
td[0]
td[index]
td.reshape(-1)
td.permute(order)
td.squeeze()
td.unbind(dim)
torch.stack([td, other])
torch.stack([td, other], place)
torch.cat([td, other], dim)
td.split(count, dim)
td + 1
td.select("item")
td.exclude("item")
td.to(torch.float64)
td.keys(True, True) and sorted(td.keys(True, True), key=str)
td.to_dict()
td.filter_non_tensor_data()
td.flatten_keys()
td.apply(lambda t: t + 1)
td.is_non_tensor("item") if hasattr(td, "is_non_tensor") else None
!td["item"] = "new"
!td["text"] = "new"
!td["n", "text"] = "new"
!td.set_non_tensor("text", "new")
!td.update({"item": 5})
!del td["item"]
td.pop("item")
!td.rename_key_("item", "z")
torch.zeros_like(td)
td.empty()
""",
        structures(NUMBERS, most=3, tracked=False, items=True, smallest=1),
    ),
}
