"""Wrong calls, one a line, for either library; the names that they use are in `world`."""

# a call is one line

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch.distributions as D
from torch import Tensor


def world(lib: Any) -> dict[str, Any]:
    """What the calls use, made of a library's classes."""
    nn = importlib.import_module(f"{lib.__name__}.nn")

    class Point(lib.TensorClass):
        x: Tensor
        y: Tensor

    class Frozen(lib.TensorClass["frozen"]):
        x: Tensor

    class Typed(lib.TypedTensorDict):
        x: Tensor
        y: Tensor

    def dense() -> Any:
        return lib.TensorDict({"a": torch.ones(2, 3, 4), "n": {"x": torch.ones(2, 3)}}, batch_size=[2, 3])

    def member(**more: Any) -> Any:
        inner = lib.TensorDict(x=torch.ones(3), batch_size=[3])
        return lib.TensorDict(a=torch.ones(3, 4), n=inner, batch_size=[3], **more)

    objects = lib.TensorDict(a=torch.ones(2), batch_size=[2])
    objects["who"] = "ann"
    return {
        "torch": torch,
        "D": D,
        "lib": lib,
        "nn": nn,
        "TensorDict": lib.TensorDict,
        "LazyStackedTensorDict": lib.LazyStackedTensorDict,
        "Mod": nn.TensorDictModule,
        "Seq": nn.TensorDictSequential,
        "Prob": nn.ProbabilisticTensorDictModule,
        "Point": Point,
        "Typed": Typed,
        "td": dense(),
        "locked": dense().lock_(),
        "ones": torch.ones(2, 3, 4),
        "ones2": torch.ones(2),
        "ints": lib.TensorDict(a=torch.ones(2, dtype=torch.int64), batch_size=[2]),
        "objects": objects,
        "grad": lib.TensorDict(a=torch.ones(2, requires_grad=True), batch_size=[2]),
        "lazy": lib.lazy_stack([member(), member(only=torch.ones(3))]),
        "uneven": lib.lazy_stack([lib.TensorDict(a=torch.ones(2)), lib.TensorDict(a=torch.ones(3))]),
        "point": Point(torch.ones(2), torch.ones(2), batch_size=[2]),
        "frozen": Frozen(torch.ones(2), batch_size=[2]),
        "linear": torch.nn.Linear(4, 5),
        "dist": lib.TensorDict(loc=torch.zeros(2), scale=torch.ones(2), batch_size=[2]),
    }


CALLS = r"""
# reading
TensorDict().popitem()
td["absent"]
td["n", "absent"]
td["n", "x", "deep"]
td["a", "x"]
td["absent", "x"]
td[()]
td.pop("absent")
td.pop(("n", "absent"))
del td["absent"]
td.del_("absent")
td.del_(("n", "absent"))
td.get_at("absent", 0)
td.get_item_shape("absent")
td.select("absent")
td.select(("n", "absent"))
td.select("a", ("absent", "x"))
td.rename_key_("absent", "b")
td.rename_key_("a", "n", safe=True)
td.split_keys(["absent"])
td.split_keys(["a"], ["a"])
td.get(0)
td.get(None)
td.get(("a", 0))
td.set(0, ones)
td.set(None, ones)
td.set(("n", 0), ones)
td.set((), ones)
td.absent
# writing
td.set("b", torch.ones(5))
td.set("b", torch.ones(()))
td["b"] = torch.ones(5)
td.set("b", TensorDict(batch_size=[5]))
td.set(("n", "b"), torch.ones(5))
td.set(("a", "b"), ones)
td.set_("absent", ones)
td.set_("a", torch.ones(2, 3, 9))
td.set_(("n", "absent"), ones)
td.set_at_("absent", torch.ones(3), 0)
td.set_at_("a", torch.ones(3, 4), 9)
td.set_at_("a", torch.ones(7, 7), 0)
td.update({"b": torch.ones(5)})
td.update({("n", "b"): torch.ones(5)})
td.update(3)
td.update_({"absent": ones})
td.update_({"a": torch.ones(2, 3, 9)})
td.update_at_({"absent": torch.ones(3)}, 0)
td.update_at_({"a": torch.ones(9, 9)}, 0)
td.update_(3)
td.copy_(TensorDict({"a": torch.ones(2, 3, 4)}, [2, 3]))
td.copy_(3)
td.fill_("absent", 0)
td.setdefault(0, ones)
td.setdefault("b", torch.ones(5))
td.replace({"b": torch.ones(5)})
td.batch_size = [5]
td.batch_size = [2, 3, 4]
td.batch_size = [2, 3, 4, 5]
td.batch_size = "word"
td.auto_batch_size_("word")
td.names = ["x"]
td.names = ["x", "x"]
td.names = [0, 1]
td.device = "gpu0"
td.nothing = 3
td[0] = torch.ones(7, 7)
td[9] = td[0]
td[0] = td
td[0] = "word"
td[0, 0, 0] = td[0]
# locked
locked["b"] = ones
locked.set("b", ones)
locked.set(("n", "b"), ones)
locked.set("a", ones)
locked["a"] = ones
locked.pop("a")
del locked["a"]
locked.del_("a")
locked.clear()
locked.update({"b": ones})
locked.rename_key_("a", "b")
locked.select("a", inplace=True)
locked.exclude("a", inplace=True)
locked.flatten_keys(inplace=True)
locked.unflatten_keys(inplace=True)
locked.setdefault("b", ones)
locked.create_nested("b")
locked.popitem()
locked["n"].set("z", ones)
locked["n"].unlock_()
locked.set_("absent", ones)
locked.split_keys(["a"], inplace=True)
locked.batch_size = [2]
# indices and shapes
td[9]
td[0, 9]
td[0, 0, 0]
td[:, :, 0]
td[..., 0, 0, 0]
td[torch.ones(5, dtype=torch.bool)]
td[torch.tensor([0, 9])]
td[[0, 9]]
td["a":"b"]
td[object]
td[{}]
td[None, 9]
td[1.5]
td.view(7)
td.view(-1, -1)
td.view("word")
td.reshape(7)
td.reshape(-1, -1)
td.reshape("word")
td.expand(5, 3)
td.expand(3)
td.expand("word")
td.squeeze(5)
td.unsqueeze(5)
td.unsqueeze(-5)
td.permute(0)
td.permute(0, 0)
td.permute(0, 5)
td.permute("word", 0)
td.transpose(0, 5)
td.transpose(-5, 0)
td.flatten(5, 7)
td.flatten(1, 0)
td.unflatten(5, [1, 2])
td.unflatten(0, [3, 3])
td.unbind(5)
td.unbind(-5)
td.split(0)
td.split(-1)
td.split([1, 5])
td.split(1, 5)
td.split("word")
td.split(1.5)
td.chunk(0)
td.chunk(2, 5)
td.tensor_split(2, 5)
td.gather(5, torch.zeros(2, 3, dtype=torch.int64))
td.gather(0, torch.zeros(2, 3))
td.masked_select(torch.ones(9, dtype=torch.bool))
td.masked_fill(torch.ones(9, dtype=torch.bool), 0)
td.masked_fill_(torch.ones(9, dtype=torch.bool), 0)
td.where(torch.ones(9, dtype=torch.bool), td)
td.where("word", td)
td.repeat(2)
td.repeat_interleave(2, dim=5)
td.swapaxes(0, 5)
td.movedim(0, 5)
td.flip(5)
td.roll(1, 5)
td.rot90(1, (0, 5))
td.narrow(5, 0, 1)
td.narrow(0, 0, 9)
td.size(5)
iter(TensorDict(a=torch.ones(2))).__next__()
bool(td)
hash(td)
td < None
float(td)
int(td)
# joins
torch.stack([td, td[:1]])
torch.stack([td, td.select("a")])
torch.stack([])
torch.stack([td, 3])
torch.stack([td, ones])
torch.stack([td, td], 5)
torch.stack([td, td], -5)
torch.cat([td, td], 5)
torch.cat([td, td.select("a")])
torch.cat([])
torch.cat([td, td[:, :1]])
torch.cat([td, 3])
torch.cat([TensorDict(), TensorDict()])
lib.stack([])
lib.lazy_stack([])
lib.lazy_stack([td, 3])
lib.lazy_stack([td, td[0]])
lib.lazy_stack([td, td], 5)
lib.cat([td, td], 5)
lib.pad(td, [0, 1, 0])
lib.pad(td, [0, 1, 0, 1, 0, 1])
lib.pad_sequence([])
lib.pad_sequence([3])
lib.merge_tensordicts(td)
lib.merge_tensordicts(td, 3)
lib.dense_stack_tds([])
td.stack_from_tensordict(5)
td.cat_from_tensordict(5)
td.stack_tensors("a", "absent", out_key="q")
td.cat_tensors("a", "absent", out_key="q")
# arithmetic and reductions
td + td.select("a")
td.select("a") + td
td + torch.ones(9)
td + "word"
td + None
td + [1]
td - object
td / td[:, :1].select("a")
td ** "word"
td == td.select("a")
td.add(td.select("a"), default="word")
td.add_(td.select("a"))
td.mul_(torch.ones(9))
td.clamp("a", "b")
td.lerp(td.select("a"), 0.5)
td.sum(5)
td.mean(5)
td.prod(5)
td.std(5)
td.all(5)
td.any(5)
td.amax(5)
td.max(5)
td.cummax(5)
td.softmax(5)
td.logsumexp(5)
td.quantile(1.5, 0)
td.quantile(0.5, 5)
td.norm("word")
td.sum("word")
td.mean(-3)
ints.mean(0)
ints.add_(0.5)
td & td
-TensorDict(a=torch.ones(2, dtype=torch.bool), batch_size=[2])
# apply, casts, conversions, gradients
td.apply(3)
td.apply(lambda x: x.sum())
td.apply(lambda x, y: x, td.select("a"))
td.apply(lambda x: 1 / 0)
td.apply(torch.neg, batch_size=[9])
td.named_apply(lambda x: x)
td.to("nowhere")
td.to(3.5)
td.to(dtype="word")
td.to(object)
td.type("word")
td.flatten_keys(3)
TensorDict({"a.b": ones, "a": {"b": ones}}, [2]).flatten_keys(".")
TensorDict({"a.b": ones, "a": ones}, [2]).unflatten_keys(".")
td.load_state_dict({})
td.load_state_dict({"a": ones})
td.load_state_dict(3)
td.load_state_dict({**td.state_dict(), "more": ones})
TensorDict.from_dict(3)
TensorDict.from_dict({"a": torch.ones(3)}, batch_size=[2])
TensorDict.from_dict({"a": {"b": torch.ones(3)}}, batch_size=[2])
TensorDict.from_dataclass(3)
TensorDict.from_namedtuple(3)
TensorDict.from_tuple(3)
TensorDict.from_struct_array(3)
TensorDict.from_module(3)
TensorDict.from_pytree(3)
TensorDict.fromkeys(3)
lib.make_tensordict(3)
lib.from_dict(3)
lib.from_module(3)
lib.from_modules()
lib.from_modules(torch.nn.Linear(1, 1), torch.nn.Linear(2, 2))
td.to_module(3)
td.to_module(torch.nn.Linear(3, 4))
td.backward()
td.requires_grad_("word")
ints.requires_grad_()
grad.numpy()
td.bfloat16().numpy()
td.expand(4, 2, 3).zero_()
td.pack(5)
td.consolidate(num_threads="word")
lib.parse_tensor_dict_string("word")
lib.unravel_key(3)
lib.unravel_key(("a", 3))
lib.unravel_key_list([3])
lib.unravel_key_list("a")
lib.assert_close(td, td + 1)
lib.assert_close(td, td.select("a"))
lib.set_lazy_legacy("word").set()
lib.is_tensorclass()
# construction
TensorDict(3)
TensorDict([1, 2])
TensorDict("word")
TensorDict({"a": torch.ones(3)}, batch_size=[2])
TensorDict({"a": torch.ones(())}, batch_size=[2])
TensorDict({"a": {"b": torch.ones(3)}}, batch_size=[2])
TensorDict({"a": TensorDict(batch_size=[3])}, batch_size=[2])
TensorDict({}, batch_size=["a"])
TensorDict({}, batch_size=[-1])
TensorDict({}, batch_size="ab")
TensorDict({}, batch_size=1.5)
TensorDict({}, batch_size=[2], names=["a", "b"])
TensorDict({}, batch_size=[2, 2], names=["a", "a"])
TensorDict({}, device="nowhere")
TensorDict({}, device=3.5)
TensorDict({}, unknown=3, batch_size=[2], lock=4, names=5)
TensorDict({0: ones})
TensorDict({None: ones})
TensorDict({("a", 0): ones})
TensorDict({(): ones})
TensorDict({"a": ones}, a=ones)
TensorDict({"a": ones, ("a", "b"): ones})
TensorDict()["a", "b"]
TensorDict.from_any(td, 3, 4, 5, 6, 7)
LazyStackedTensorDict(td, 3)
LazyStackedTensorDict(td, td[0])
# lazy stacks
lazy["absent"]
lazy["only"]
lazy["a", "x"]
lazy[9]
lazy[0, 9]
lazy.pop("absent")
lazy.select("absent")
del lazy["absent"]
lazy.set("b", torch.ones(9))
lazy.set_("absent", torch.ones(2, 3))
lazy.append(3)
lazy.append(td)
lazy.insert("word", lazy[0])
lazy.insert(0, 3)
lazy.extend(3)
lazy.lock_().append(lazy[0])
lazy.lock_().set("b", torch.ones(2, 3))
lazy.lock_()[0].set("b", torch.ones(3))
lazy.update_({"absent": torch.ones(2, 3)})
lazy.batch_size = [9]
lazy.unsqueeze(9)
lazy.reshape(9)
lazy.names = ["x"]
uneven["a"]
uneven.densify(layout=3)
uneven.contiguous()
uneven.sum(0)
torch.stack([uneven, td])
torch.cat([uneven, uneven], 5)
# typed classes
Point(x=ones2)
Point(ones2, ones2, ones2)
Point(ones2, ones2, z=ones2)
Point(x=ones2, y=ones2, batch_size=[9])
Point(x=ones2, y=ones2, batch_size="word")
point.absent
point.absent = 3
point["absent"]
point.set("absent", ones2)
point["absent"] = ones2
point[9]
point[0, 0]
point.x = torch.ones(9)
point.set("x", torch.ones(9))
point.update({"absent": ones2})
point.update_({"absent": ones2})
point.select("absent")
point + Point(x=torch.ones(9), y=torch.ones(9), batch_size=[9])
point + "word"
point.reshape(9)
point.unsqueeze(9)
point.lock_().x = ones2
point.lock_().set("x", ones2)
del point.absent
Point.from_tensordict(3)
Point.from_tensordict(td)
Point.from_tensordict(TensorDict(x=ones2, batch_size=[2]))
Point.from_dict({"x": ones2})
Point.from_dict({"x": ones2, "y": ones2, "z": ones2})
torch.stack([point, td])
torch.stack([point, point[:1]])
torch.cat([point, point], 5)
len(point, 3)
point.apply(lambda x: x.sum(), batch_size=[9])
lib.tensorclass(3)
lib.tensorclass(lambda: 0)
frozen.x = ones2
frozen.set("x", ones2)
frozen.y = 3
frozen["absent"]
lib.from_dataclass(3)
lib.TypedTensorDict(a=ones2)
Typed(x=ones2)
Typed(x=ones2, y=ones2, z=ones2)
Typed(x=ones2, y=ones2, batch_size=[9])
Typed(x=ones2, y=ones2, batch_size=[2]).absent
# objects
lib.NonTensorData("a", batch_size=[2])[9]
lib.NonTensorData("a", batch_size=[2]).reshape(9)
objects["who"] = ["a", "b", "c"]
objects["who", "deep"]
objects.set("who", lib.NonTensorData("x", batch_size=[9]))
torch.stack([lib.NonTensorData("a"), 3])
# parameters
lib.TensorDictParams(3)
lib.TensorDictParams(td)["absent"]
lib.TensorDictParams(td)["b"] = torch.ones(9)
lib.TensorDictParams(td).load_state_dict({})
lib.TensorDictParams(td).absent
# keyed modules
Mod(linear, in_keys=["a"], out_keys=["b"])(td.select("n"))
Mod(linear, in_keys=["absent"], out_keys=["b"])(td)
Mod(linear, in_keys=[("n", "absent")], out_keys=["b"])(td)
Mod(linear, in_keys=["a"], out_keys=["b", "c"])(td)
Mod(linear, in_keys=["a", "n"], out_keys=["b"])(td)
Mod(linear, in_keys=[("n", "x")], out_keys=["b"])(td)
Mod(linear, in_keys=3, out_keys=["b"])
Mod(linear, in_keys=["a"], out_keys=3)
Mod(linear, in_keys=[3], out_keys=["b"])
Mod(linear, in_keys=["a"], out_keys=[3])
Mod(3, in_keys=["a"], out_keys=["b"])
Mod(linear)
Mod(linear, in_keys=["a"])
Mod(linear, ["a"], ["b"], 3, 4, 5)
Mod(linear, in_keys=["a"], out_keys=["b"], unknown=3)
Mod(linear, in_keys=["a"], out_keys=["b"], inplace="word")(td)
Mod(linear, in_keys=["a"], out_keys=["b"], method="absent")(td)
Mod(lambda x: {"c": x}, in_keys=["a"], out_keys=["b", "d"])(td)
Mod(lambda x: x.sum(), in_keys=["a"], out_keys=["b"])(td)
Mod(linear, in_keys=["a"], out_keys=["b"])(locked)
Mod(linear, in_keys=["a"], out_keys=["b"])()
Mod(linear, in_keys=["a"], out_keys=["b"])(3)
Mod(linear, in_keys=["a"], out_keys=["b"])(unknown=ones)
Mod(linear, in_keys=["a"], out_keys=["b"]).select_out_keys("absent")
Mod(linear, in_keys={"absent": "input"}, out_keys=["b"], out_to_in_map=False)(td)
Mod(linear, in_keys={"a": 3}, out_keys=["b"], out_to_in_map=False)
Seq(3)
Seq(linear, 3)
Seq(Mod(linear, in_keys=["a"], out_keys=["b"]))(td.select("n"))
Seq(Mod(linear, in_keys=["a"], out_keys=["b"]))[5]
Seq(Mod(linear, in_keys=["a"], out_keys=["b"]))["absent"]
Seq(Mod(linear, in_keys=["a"], out_keys=["b"]), selected_out_keys=["absent"])
Seq(Mod(linear, in_keys=["a"], out_keys=["b"])).select_subsequence(in_keys=["absent"])
Seq(Mod(linear, in_keys=["a"], out_keys=["b"])).select_subsequence(out_keys=["absent"])
nn.WrapModule(3)(td)
nn.TensorDictModuleWrapper(Mod(linear, in_keys=["a"], out_keys=["b"])).absent
nn.dispatch(source=["a"], dest=["b"])(lambda tensordict: tensordict)(ones, ones, ones)
nn.dispatch(source=["a"], dest=["b"])(lambda tensordict: tensordict)(c=ones)
nn.dispatch(source=["a"], dest=["b"])(lambda tensordict: tensordict)(ones, a=ones)
nn.dispatch(source=["a"], dest=["b"])(lambda tensordict: tensordict)(ones)
nn.dispatch(source=["a"], dest=["b"])(lambda other: other)(ones)
nn.EnsembleModule(3, 2)
nn.EnsembleModule(Mod(linear, in_keys=["a"], out_keys=["b"]), 0)
nn.as_tensordict_module(3)
# probabilistic modules
Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal)(td)
Prob(in_keys=["loc"], out_keys=["s"], distribution_class=D.Normal)(dist)
Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=3)(dist)
Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal, default_interaction_type="word")(dist)
Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal).log_prob(dist)
Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal).get_dist(td)
Prob(in_keys=3, out_keys=["s"], distribution_class=D.Normal)
nn.ProbabilisticTensorDictSequential(Mod(linear, in_keys=["a"], out_keys=["b"])).get_dist(td)
nn.ProbabilisticTensorDictSequential()
nn.set_interaction_type("word").__enter__()
nn.InteractionType.from_str("word")
nn.InteractionType("word")
nn.CompositeDistribution(TensorDict(), {"a": D.Normal})
nn.CompositeDistribution(TensorDict(), {"a": 3})
nn.OneHotCategorical()
nn.OneHotCategorical(logits=ones, probs=ones)
nn.TruncatedNormal(ones, ones, a=1.0, b=-1.0)
nn.Delta("word")
nn.NormalParamExtractor("word")
nn.NormalParamExtractor()(torch.ones(2, 3))
nn.mappings("word")
nn.biased_softplus(-5.0)
nn.rand_one_hot("word")
"""
