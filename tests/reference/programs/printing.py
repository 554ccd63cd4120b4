"""Small programs that print what they compute; the test compares the lines of both libraries."""

import copy
import io
import pathlib
import pickle
import tempfile

import tensordict as T
import torch
import torch.utils._pytree as pt
from tensordict import TensorDict
from tensordict import nn as N
from tensordict.nn import TensorDictModule as Mod
from tensordict.nn import TensorDictSequential as Seq
from torch import nn


def show(x):
    if isinstance(x, torch.Tensor):
        return f"{tuple(x.shape)} {[round(v, 5) for v in x.detach().reshape(-1)[:6].tolist()]} {x.dtype}"
    if isinstance(x, torch.Size):
        return str(list(x))
    if T.is_tensor_collection(x):
        return f"<{list(x.batch_size)} {sorted(map(str, x.keys(True, True)))}>"
    return str(x)


def prog(f):
    torch.manual_seed(0)
    f(lambda *a: print(f.__name__, *map(show, a)))
    return f


@prog
def training_loop(say):
    net = Mod(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), in_keys=["x"], out_keys=["y"])
    opt = torch.optim.SGD(net.parameters(), 0.1)
    data = TensorDict({"x": torch.randn(32, 4), "t": torch.randn(32, 2)}, [32])
    for b in data.split(8):
        net(b)
        l = (b["y"] - b["t"]).pow(2).mean()
        l.backward()
        opt.step()
        opt.zero_grad()
        say(l)


@prog
def memmap_dataset(say):
    with tempfile.TemporaryDirectory() as d:
        td = TensorDict({"img": torch.arange(24).view(6, 4).to(torch.uint8), "label": torch.arange(6)}, [6]).memmap(d)
        say(td.is_memmap(), td.is_locked, sorted(p.name for p in pathlib.Path(d).iterdir())[:1] != [])
        r = TensorDict.load_memmap(d)
        say(r["img"][2], r[2:4]["label"])
        r["label"][0] = 42
        say(TensorDict.load_memmap(d)["label"])


@prog
def preallocate(say):
    buf = None
    for i in range(4):
        row = TensorDict({"a": torch.full((3,), i), "n": {"b": torch.tensor(i * 1.0)}}, [])
        if buf is None:
            buf = row.expand(4).clone()
        buf[i] = row
    say(buf, buf["a"], buf["n", "b"])


@prog
def state_dict_ckpt(say):
    td = TensorDict({"a": torch.ones(2), "n": {"b": torch.zeros(2)}}, [2])
    sd = td.state_dict()
    say(sorted(sd.keys()))
    b = io.BytesIO()
    torch.save(sd, b)
    b.seek(0)
    new = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(2)}}, [2])
    new.load_state_dict(torch.load(b, weights_only=False))
    say(new["a"], new["n", "b"])


@prog
def functional_ensemble(say):
    nets = [nn.Linear(3, 2) for _ in range(4)]
    ps = TensorDict.from_modules(*nets, as_module=True)
    base = copy.deepcopy(nets[0]).to("meta")

    def f(p, x):
        with p.to_module(base):
            return base(x)

    y = torch.vmap(f, (0, None))(ps, torch.ones(5, 3))
    say(y, ps.batch_size)
    y.sum().backward()
    say(ps["weight"].grad)


@prog
def tensorclass(say):
    @T.tensorclass
    class D:
        images: torch.Tensor
        labels: torch.Tensor

        def mask(self):
            return self[self.labels > 1]

        @property
        def size(self):
            return self.images.shape[-1]

    d = D(torch.ones(5, 2, 2), torch.arange(5), batch_size=[5])
    say(d.mask().batch_size, d.size, type(d[0]).__name__)
    e = torch.stack([d, d])
    say(e.batch_size, type(e).__name__, e.reshape(-1).labels)
    d.labels = d.labels + 1
    say(d.labels)


@prog
def keys_views(say):
    td = TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2), "d": {"e": torch.zeros(2)}}}, [2])
    say(
        sorted(td.keys()),
        sorted(map(str, td.keys(include_nested=True))),
        sorted(map(str, td.keys(True, True))),
        ("b", "c") in td.keys(True),
        "z" in td.keys(),
    )
    say(sorted(map(str, dict(td.items(True, True)))), len(list(td.values(True, True))))


@prog
def select_exclude(say):
    td = TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2), "d": torch.zeros(2)}}, [2])
    say(td.select("a", ("b", "c")), td.exclude(("b", "d")), td.select("zz", strict=False))
    td.rename_key_("a", ("n", "a"))
    say(td)
    td.exclude("b", inplace=True)
    say(td)


@prog
def apply_named(say):
    td = TensorDict({"a": torch.ones(2), "b": {"c": torch.ones(2)}}, [2])
    r = td.named_apply(lambda k, v: v * 2 if k == "a" else v, nested_keys=False)
    say(r["a"], r["b", "c"])
    r = td.named_apply(lambda k, v: v * 3 if k == ("b", "c") else v, nested_keys=True)
    say(r["b", "c"])
    say(td.apply(lambda x, y: x + y, td)["a"], td.apply(lambda x: x.sum(), batch_size=[]))
    say(td.apply(lambda x: None))


@prog
def lazy_stack(say):
    l = (
        T.lazy_stack([TensorDict({"a": torch.ones(i + 1)}, []) for i in range(3)])
        if hasattr(T, "lazy_stack")
        else T.LazyStackedTensorDict.lazy_stack([TensorDict({"a": torch.ones(i + 1)}, []) for i in range(3)])
    )
    say(l.batch_size, l[1]["a"], l.get("a", as_padded_tensor=True), [x.shape for x in l.get("a", as_list=True)])
    try:
        l["a"]
    except RuntimeError:
        say("runtime")
    l.append(TensorDict({"a": torch.zeros(2)}, []))
    say(len(l))
    l.insert(0, TensorDict({"a": torch.zeros(2)}, []))
    say(l.batch_size)
    say(l[:2].batch_size, type(l[:2]).__name__)


@prog
def nontensor(say):
    td = TensorDict({"s": "hello", "a": torch.ones(2)}, [2])
    td["n"] = T.NonTensorData(3, batch_size=[2])
    say(td["s"], td["n"], type(td.get("s")).__name__, td[0]["s"])
    td = TensorDict(batch_size=[3])
    td["s"] = T.NonTensorStack("a", "b", "c")
    say(list(td["s"]), td[1]["s"], list(td[1:]["s"]))
    st = torch.stack([TensorDict({"x": T.NonTensorData(i)}, []) for i in range(3)])
    say(list(st["x"]), st.get("x").tolist())


@prog
def prob(say):
    m = N.ProbabilisticTensorDictSequential(
        Mod(nn.Linear(3, 4), ["x"], ["h"]),
        Mod(N.NormalParamExtractor(), ["h"], ["loc", "scale"]),
        N.ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["a"],
            distribution_class=torch.distributions.Normal,
            return_log_prob=True,
        ),
    )
    td = TensorDict({"x": torch.ones(2, 3)}, [2])
    with N.set_interaction_type(N.InteractionType.RANDOM):
        m(td)
    say(td["a"], td.get("a_log_prob", td.get("sample_log_prob")), sorted(td.keys()))
    with N.set_interaction_type(N.InteractionType.MEAN):
        say(m(td.select("x"))["a"])
    say(m.get_dist(td.select("x")).mean, m.log_prob(td))


@prog
def split_chunk(say):
    td = TensorDict({"a": torch.arange(10).view(5, 2)}, [5])
    say(
        [x.batch_size for x in td.split(2)],
        [x.batch_size for x in td.split([1, 4])],
        [x.batch_size for x in td.chunk(3)],
        [x["a"] for x in td.unbind(0)][:2],
    )
    say(torch.cat(td.split(2))["a"], td.gather(0, torch.tensor([4, 0]))["a"])


@prog
def masks(say):
    td = TensorDict({"a": torch.arange(6.0).view(3, 2)}, [3])
    m = torch.tensor([True, False, True])
    say(td[m], td.masked_select(m)["a"])
    td[m] = td[m].apply(lambda x: -x)
    say(td["a"])
    say(td.where(m, torch.zeros_like(td))["a"], td.masked_fill(m, 0.0)["a"])
    td.masked_fill_(m, 9.0)
    say(td["a"])


@prog
def device_dtype(say):
    td = TensorDict({"a": torch.ones(2), "i": torch.ones(2, dtype=torch.long)}, [2])
    say(
        td.device,
        td.to("cpu").device,
        td.to(torch.float64)["i"],
        td.float()["i"],
        td.double()["a"],
        td.to("meta")["a"].device,
        td.half()["i"].dtype,
    )
    td = TensorDict({"a": torch.ones(2)}, [2], device="cpu")
    say(td.device, td.clear_device_().device)


@prog
def shape(say):
    td = TensorDict({"a": torch.arange(24).view(2, 3, 4)}, [2, 3])
    say(
        td.view(6)["a"].shape,
        td.reshape(-1).shape,
        td.permute(1, 0)["a"].shape,
        td.unsqueeze(0).shape,
        td.unsqueeze(-1)["a"].shape,
        td.squeeze().shape,
        td.transpose(0, 1).shape,
        td.flatten(0, 1).shape,
        td.unflatten(0, (1, 2)).shape,
        td.expand(5, 2, 3)["a"].shape,
        td.repeat(2, 1).shape,
        td.repeat_interleave(2, dim=0).shape,
    )
    say(
        td[..., 0].shape,
        td[:, None].shape,
        td[0, 1]["a"],
        td[torch.tensor([0, 1]), torch.tensor([2, 0])]["a"],
        td[[0, 1]].shape,
        td[:, [0, 2]].shape,
        td[-1].shape,
        td[range(1)].shape,
    )


@prog
def lock(say):
    td = TensorDict({"a": torch.ones(2)}, [2]).lock_()
    for n, f in {
        "set": lambda: td.set("b", torch.ones(2)),
        "update": lambda: td.update({"c": torch.ones(2)}),
        "dele": lambda: td.del_("a"),
        "ren": lambda: td.rename_key_("a", "b"),
        "pop": lambda: td.pop("a"),
    }.items():
        try:
            f()
            say(n, "ok")
        except RuntimeError:
            say(n, "locked")
    td.set_("a", torch.zeros(2))
    say(td["a"])
    with td.unlock_():
        td["b"] = torch.ones(2)
    say(td, td.is_locked)


@prog
def from_dict(say):
    td = TensorDict.from_dict({"a": [1, 2], "b": {"c": torch.ones(2, 3)}}, auto_batch_size=True)
    say(td, td["a"])
    say(td.to_dict().keys())
    td = TensorDict({"a": torch.ones(2, 3), "b": torch.ones(2, 3, 4)}).auto_batch_size_()
    say(td.batch_size)
    td.auto_batch_size_(1)
    say(td.batch_size)
    say(T.from_any({"a": 1.5, "l": [{"x": 1}, {"x": 2}]}))


@prog
def params_module(say):
    p = T.TensorDictParams(TensorDict({"w": torch.ones(2), "n": {"b": torch.zeros(2)}}, []))

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.p = p

    m = M()
    say(sorted(dict(m.named_parameters()).keys()), len(list(m.parameters())), m.p["w"].requires_grad)
    m.p["w"].sum().backward()
    say(p["w"].grad, sorted(m.state_dict().keys()))
    say(p.data["w"], type(p.data).__name__, type(p * 2).__name__, type(p.to(torch.float64)).__name__)


@prog
def to_module(say):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    p = TensorDict.from_module(net)
    say(p)
    z = p.data.apply(torch.zeros_like)
    with z.to_module(net):
        say(net[0].weight, net.eval()(torch.ones(1, 2)))
    say(net[0].weight.requires_grad, p.flatten_keys(".").data.sum().get("0.weight"))


@prog
def dispatch(say):
    class D(nn.Module):
        in_keys = ["a", "b"]
        out_keys = ["c"]

        @N.dispatch
        def forward(self, tensordict):
            tensordict["c"] = tensordict["a"] + tensordict["b"]
            return tensordict

    say(D()(a=torch.ones(2), b=torch.ones(2)), D()(TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, [2]))["c"])
    m = Mod(lambda a, b: (a + b, a * b), in_keys=["a", "b"], out_keys=["s", "p"])
    say(*m(a=torch.ones(1), b=torch.ones(1) * 2))
    say(*m(torch.ones(1), torch.ones(1)))


@prog
def seq_ops(say):
    s = Seq(Mod(nn.Linear(1, 2), ["a"], ["b"]), Mod(nn.Linear(2, 3), ["b"], ["c"]), Mod(nn.Linear(2, 1), ["b"], ["d"]))
    say(
        s.in_keys,
        sorted(s.out_keys),
        len(s),
        s.select_subsequence(out_keys=["d"]).in_keys,
        len(s.select_subsequence(out_keys=["d"])),
        s[0].out_keys,
        s[:2].out_keys,
    )
    s.select_out_keys("c")
    say(s.out_keys, s(TensorDict({"a": torch.ones(1)}, [])))
    s.reset_out_keys()
    say(sorted(s.out_keys))


@prog
def module_kwargs(say):
    m = Mod(lambda x, *, scale: x * scale, in_keys={"x": "a", "scale": "s"}, out_keys=["y"])
    say(m(TensorDict({"a": torch.ones(2), "s": torch.tensor(3.0)}, []))["y"])
    m = Mod(nn.Linear(2, 2), in_keys=[("o", "x")], out_keys=[("o", "y")])
    r = m(TensorDict({"o": {"x": torch.ones(3, 2)}}, [3]))
    say(r)
    m = Mod(nn.GRU(2, 3, batch_first=True), in_keys=["x"], out_keys=["y", "_"])
    say(m(TensorDict({"x": torch.ones(1, 4, 2)}, [1])))
    m = Mod(nn.Linear(2, 2), ["x"], ["y"], inplace=False)
    t = TensorDict({"x": torch.ones(2)}, [])
    r = m(t)
    say(sorted(t.keys()), sorted(r.keys()))


@prog
def update(say):
    a = TensorDict({"x": torch.ones(2), "n": {"y": torch.ones(2)}}, [2])
    a.update({"x": torch.zeros(2), "n": {"z": torch.zeros(2)}})
    say(a)
    a.update_({"x": torch.ones(2) * 5})
    say(a["x"])
    a.update(TensorDict({"w": torch.ones(2)}, [2]), keys_to_update=["w"])
    say(a, a.setdefault("q", torch.ones(2)))
    a.update_at_({"x": torch.zeros(1)}, slice(0, 1))
    say(a["x"])
    a.set_at_("x", 7.0, 1)
    say(a["x"])
    a.replace({"x": torch.zeros(2)})
    say(a["x"], a.replace(x=torch.zeros(2))["x"])


@prog
def compare(say):
    a = TensorDict({"x": torch.ones(2), "n": {"y": torch.ones(2)}}, [2])
    say(
        (a == a).all(),
        (a == a.clone()).all(),
        (a == 0).any(),
        (a != a).any(),
        T.assert_allclose_td(a, a),
        (a > 0).all(),
        (a == 1)["n", "y"],
    )
    say((a == a).all(dim=0)["x"], a.isnan().any(), a.isfinite().all())


@prog
def arith(say):
    a = TensorDict({"x": torch.ones(2) * 4, "n": {"y": torch.ones(2) * 9}}, [2])
    say(
        (a + 1)["x"],
        (1 - a)["x"],
        (a * a)["n", "y"],
        (a / 2)["x"],
        (-a)["x"],
        abs(-a)["x"],
        (a**2)["x"],
        a.sqrt()["x"],
        a.clamp(max=a * 0 + 5)["n", "y"],
        a.add(a, alpha=2)["x"],
        a.norm()["x"],
        a.lerp(a * 0, 0.5)["x"],
    )
    a += 1
    say(a["x"])
    a.mul_(2)
    say(a["x"])
    a.zero_()
    say(a["x"])
    say(a.exp().sum()["x"], a.mean(dim=0)["x"], a.sum(dim=0, reduce=True))
    say(
        (a + torch.ones(2))["x"],
        a.logsumexp(dim=0)["x"],
        a.softmax(0)["x"],
        a.max(dim=0).values["x"] if hasattr(a.max(dim=0), "values") else "",
    )


@prog
def pickle_mp(say):
    a = TensorDict({"x": torch.ones(2), "s": "t"}, [2], names=["b"])
    b = pickle.loads(pickle.dumps(a))
    say(b, b.names, b["s"])
    c = copy.deepcopy(a)
    c["x"] += 1
    say(a["x"])
    a.share_memory_()
    say(a.is_shared(), a.is_locked)


@prog
def names(say):
    a = TensorDict({"x": torch.ones(2, 3)}, [2, 3], names=["t", "b"])
    say(
        a.names,
        a[0].names,
        a.unsqueeze(0).names,
        a.permute(1, 0).names,
        a.reshape(-1).names,
        a.refine_names("t", "b").names,
        a.rename(t="time").names,
        torch.stack([a, a]).names,
        a.flatten(0, 1).names,
    )
    a.names = None
    say(a.names)


@prog
def loading(say):
    a = TensorDict({"x": torch.arange(10.0)}, [10])
    say(a.apply(lambda x: x * 2)["x"])
    l = torch.utils.data.DataLoader(a, batch_size=4, collate_fn=lambda x: x)
    say([b["x"].shape for b in l])
    l = torch.utils.data.DataLoader(a, batch_size=5, collate_fn=lambda x: x)
    say(sum(b["x"].sum() for b in l))


@prog
def h5(say):
    with tempfile.TemporaryDirectory() as d:
        a = TensorDict({"x": torch.arange(4.0), "n": {"y": torch.ones(4, 2)}}, [4])
        h = T.PersistentTensorDict.from_dict(a, filename=d + "/f.h5")
        say(h["x"], h[1:3]["x"], h.batch_size, sorted(map(str, h.keys(True, True))))
        h["z"] = torch.zeros(4)
        h.close()
        h = T.PersistentTensorDict(filename=d + "/f.h5", batch_size=[4])
        say(sorted(map(str, h.keys(True, True))), h.to_tensordict()["z"])
        del h


@prog
def flatten(say):
    a = TensorDict({"a": {"b": {"c": torch.ones(2)}, "d": torch.zeros(2)}}, [2])
    f = a.flatten_keys(".")
    say(f, f.unflatten_keys("."), a.flatten_keys("_"))
    with a.flatten_keys(".") as g:
        g["x.y"] = torch.ones(2)
    say(a)


@prog
def cm(say):
    a = TensorDict({"a": torch.arange(6.0).view(2, 3)}, [2, 3])
    with a.view(6) as v:
        v["b"] = torch.arange(6)
    say(a["b"])
    with a.unsqueeze(0) as v:
        v["c"] = torch.zeros(1, 2, 3)
    say(a["c"].shape)
    with a.permute(1, 0) as v:
        v["d"] = torch.zeros(3, 2)
    say(a["d"].shape)


@prog
def consolidate(say):
    a = TensorDict({"a": torch.arange(6.0).view(2, 3), "s": "x"}, [2])
    c = a.consolidate()
    say(c["a"], c["s"], c.is_consolidated())
    say(a.bytes(), a.numel(), a.contiguous()["a"])


@prog
def stackdicts(say):
    rows = [{"a": i, "b": float(i)} for i in range(3)]
    a = torch.stack([TensorDict(r) for r in rows])
    say(a["a"], a["b"], a)
    say(
        TensorDict.stack([TensorDict({"a": torch.ones(1)}) for _ in range(2)])["a"],
        TensorDict.maybe_dense_stack([TensorDict({"a": torch.ones(i + 1)}) for i in range(2)]).batch_size,
    )


@prog
def pytree(say):
    a = TensorDict({"a": torch.ones(2), "n": {"b": torch.zeros(2)}}, [2])
    say(
        pt.tree_map(lambda x: x + 1, a)["n", "b"], len(pt.tree_leaves(a)), pt.tree_map(lambda x: x.shape, {"k": a["a"]})
    )
    g = torch.func.grad(lambda p: (p["a"] ** 2).sum())(TensorDict({"a": torch.ones(2)}, []))
    say(g["a"])
    say(torch.vmap(lambda t: t["a"].sum())(TensorDict({"a": torch.ones(3, 2)}, [3])))


@prog
def compile(say):
    f = torch.compile(lambda t: t + 1, backend="eager")
    say(f(TensorDict({"a": torch.ones(2)}, [2]))["a"])


@prog
def composite(say):
    C = N.CompositeDistribution
    d = C(
        TensorDict({"a": {"loc": torch.zeros(3), "scale": torch.ones(3)}, "b": {"logits": torch.zeros(3, 4)}}, [3]),
        distribution_map={"a": torch.distributions.Normal, "b": torch.distributions.Categorical},
    )
    s = d.sample()
    say(s, s["a"], s["b"])
    say(d.log_prob(s))
    say(d.entropy(), d.mode, d.deterministic_sample["b"])


@prog
def wrap_extra(say):
    e = N.TensorDictModuleWrapper(Mod(nn.Linear(1, 1), ["a"], ["b"]))
    say(e.in_keys, e.out_keys, e(TensorDict({"a": torch.ones(1)}, []))["b"])
    m = N.WrapModule(lambda td: td.set("z", td["a"] + 1))
    say(m(TensorDict({"a": torch.ones(1)}, []))["z"], m.in_keys)
    say(N.inv_softplus(torch.tensor(1.0)), N.biased_softplus(1.0)(torch.zeros(1)))


@prog
def errors(say):
    td = TensorDict({"a": torch.ones(2)}, [2])
    for n, f in {
        "missing": lambda: td["z"],
        "nested": lambda: td["a", "b"],
        "shape": lambda: td.set("b", torch.ones(3)),
        "badbs": lambda: TensorDict({"a": torch.ones(2)}, [3]),
        "idx": lambda: td[5],
        "stackbs": lambda: torch.stack([td, TensorDict({"a": torch.ones(3)}, [3])]),
        "getnone": lambda: say(td.get("z")),
        "cat": lambda: torch.cat([td, TensorDict({"b": torch.ones(2)}, [2])]),
        "setinpl": lambda: td.set_("zz", torch.ones(2)),
        "attr": lambda: td.foo,
        "iterlen": lambda: say(len(td), [x["a"] for x in td]),
        "bsset": lambda: setattr(td, "batch_size", [5]),
        "two": lambda: TensorDict({"a": torch.ones(2)}, batch_size="x"),
        "dele": lambda: td.del_("zz"),
        "pop": lambda: td.pop("zz"),
        "popd": lambda: say(td.pop("zz", None)),
        "ren": lambda: td.rename_key_("zz", "a"),
    }.items():
        try:
            f()
            say(n, "ok")
        except (KeyError, RuntimeError, IndexError, AttributeError, ValueError, TypeError):
            say(n, "refused")


@prog
def td_sequence_like(say):
    a = TensorDict({"x": torch.arange(6).view(3, 2)}, [3])
    say(
        [r["x"] for r in a],
        len(a),
        a.ndim,
        a.dim(),
        a.shape,
        a.size(),
        a.size(0),
        a.numel(),
        a.is_empty(),
        bool(TensorDict({}, [2]).is_empty()),
        a.entry_class("x").__name__,
        repr(a).startswith("TensorDict("),
        a.depth,
        a.sorted_keys,
    )
    say(
        a.new_zeros(2)["x"],
        torch.zeros_like(a)["x"],
        torch.ones_like(a)["x"],
        a.empty(),
        a.clone(False)["x"] is a["x"],
        a.cpu()["x"].shape,
    )


@prog
def reward_td(say):
    T2, B = 4, 2
    td = TensorDict(
        {"reward": torch.ones(B, T2, 1), "next": {"done": torch.zeros(B, T2, 1, dtype=torch.bool)}},
        [B, T2],
        names=[None, "time"],
    )
    adv = torch.zeros(B, 1)
    out = []
    for t in reversed(range(T2)):
        s = td[:, t]
        adv = s["reward"] + 0.9 * adv * (~s["next", "done"])
        out.append(TensorDict({"adv": adv}, [B]))
    td["adv"] = torch.stack(out[::-1], 1)["adv"]
    say(td["adv"], td.names)


@prog
def cudagraph_like(say):
    say(hasattr(N, "CudaGraphModule"))
    rb = TensorDict({"obs": torch.zeros(10, 2)}, [10])
    i = torch.randperm(10, generator=torch.Generator().manual_seed(1))[:3]
    rb[i] = TensorDict({"obs": torch.ones(3, 2)}, [3])
    say(rb["obs"].sum(), rb[i]["obs"])
    say(rb[torch.arange(10) % 2 == 0].shape)


@prog
def hooks(say):
    m = Mod(nn.Linear(1, 1), ["a"], ["b"])
    h = m.register_forward_hook(lambda mod, i, o: o.set("h", torch.ones(1)))
    say(m(TensorDict({"a": torch.ones(1)}, [])))
    h.remove()
    m.register_forward_pre_hook(lambda mod, i: None)
    say(m(TensorDict({"a": torch.ones(1)}, [])))
    say(m.module, sorted(m.state_dict()))


@prog
def tensorclass_nested(say):
    @T.tensorclass
    class P:
        x: torch.Tensor
        name: str = "d"
        p: "P | None" = None

    a = P(torch.ones(3, 2), p=P(torch.zeros(3, 1), batch_size=[3]), batch_size=[3])
    say(
        a.p.x,
        a.name,
        a[0].p.x,
        a.to_tensordict(),
        P.from_tensordict(a.to_tensordict()).name,
        a.p.p,
        a.replace(x=torch.zeros(3, 2)).x,
        a.get("x").shape,
        a.set("x", torch.ones(3, 4)).x.shape,
        sorted(a.keys()),
    )
    say(
        repr(a).split("(")[0],
        (a == a).all(),
        a.clone().name,
        torch.cat([a, a]).name,
        a.unbind(0)[0].name,
        a.batch_size,
        a.device,
    )
