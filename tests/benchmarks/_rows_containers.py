"""Rows: what a container does as one tensor would. Raw code works for every event shape, as a library must."""

from ._row import MIXED, SIZES, Group

SHAPES = Group("Index, join and shape", (*SIZES, *MIXED))
UNBIND = "[dict(zip(x, v)) for v in zip(*[v.unbind(0) for v in x.values()])]"
STACK = "{k: torch.stack([r[k] for r in rows]) for k in x}"
CAT = "{k: torch.cat([r[k] for r in rows]) for k in x}"

SHAPES.add("x[0]", "x[0]", "{k: v[0] for k, v in x.items()}", gain=1.7)
SHAPES.add("x[0:2]", "x[0:2]", "{k: v[0:2] for k, v in x.items()}", gain=1.7)
SHAPES.add("x[index]", "x[index]", "{k: v[index] for k, v in x.items()}", gain=1.7)
SHAPES.add("x[mask]", "x[mask]", "{k: v[mask] for k, v in x.items()}", gain=1.7)
SHAPES.add("x[:, 1]", "x[:, 1]", "{k: v[:, 1] for k, v in x.items()}", gain=1.7)
SHAPES.add("x[0] = first", "x[0] = first", "for k, v in x.items(): v[0] = first[k]", gain=1.7)
SHAPES.add("x.unbind(0)", "x.unbind(0)", UNBIND, gain=1.7)
SHAPES.add("x.split(1)", "x.split(1)", "[dict(zip(x, v)) for v in zip(*[v.split(1) for v in x.values()])]")
SHAPES.add("stack of 3", "torch.stack(rows)", STACK, gain=1.7)
SHAPES.add("cat of 3", "torch.cat(rows)", CAT, gain=1.7)
for _join, _raw in (("stack", STACK), ("cat", CAT)):  # torch's dispatch to a class takes a microsecond or two
    _own = f"{_join}(rows)"
    SHAPES.add(f"own {_join} of 3", f"torch.{_own}", _raw, our_class=_own, our_dict=_own, gain=1.7)
SHAPES.add("reshape(12)", "x.reshape(12)", "{k: v.reshape(12, *v.shape[2:]) for k, v in x.items()}", gain=1.7)
SHAPES.add(
    "permute(1, 0)", "x.permute(1, 0)", "{k: v.permute(1, 0, *range(2, v.ndim)) for k, v in x.items()}", gain=1.7
)
SHAPES.add("unsqueeze(0)", "x.unsqueeze(0)", "{k: v.unsqueeze(0) for k, v in x.items()}", gain=1.7)
SHAPES.add(
    "expand(2, 3, 4)", "x.expand(2, 3, 4)", "{k: v.expand(2, 3, 4, *v.shape[2:]) for k, v in x.items()}", gain=1.7
)

LONG = ("1000 rows",)
SHAPES.add("unbind 1000 rows", "x.unbind(0)", UNBIND, samples=LONG, gain=1.7)
SHAPES.add("stack 1000 rows", "torch.stack(rows)", STACK, samples=LONG, gain=1.7)

VALUES = Group("Copies, casts and arithmetic", (*SIZES, *MIXED))
VALUES.add("clone()", "x.clone()", "{k: v.clone() for k, v in x.items()}")
VALUES.add("clone(recurse=False)", "x.clone(recurse=False)", "dict(x)", gain=8, floor=None)
VALUES.add("to(dtype), no change", "x.to(torch.float32)", "{k: v.to(torch.float32) for k, v in x.items()}", gain=8)
VALUES.add("to(device), no change", "x.to(cpu)", "{k: v.to(cpu) for k, v in x.items()}", gain=8)
VALUES.add("to(float64)", "w.to(torch.float64)", "{k: v.to(torch.float64) for k, v in w.items()}")
VALUES.add("apply(neg)", "x.apply(torch.neg)", "{k: torch.neg(v) for k, v in x.items()}", gain=2.5)
VALUES.add("x + y", "x + y", "{k: v + y[k] for k, v in x.items()}", gain=2.5)
VALUES.add("x + y, some other", "x + y", "{k: v + y[k] for k, v in x.items()}", samples=("8, some other",), gain=2.5)
VALUES.add("x + 1, some other", "x + 1", "{k: v + 1 for k, v in x.items()}", samples=("8, some other",), gain=2.5)
VALUES.add("x * y", "x * y", "{k: v * y[k] for k, v in x.items()}", gain=2.5)
VALUES.add("x + 1", "x + 1", "{k: v + 1 for k, v in x.items()}", gain=2.5)
VALUES.add("x == y", "x == y", "{k: v == y[k] for k, v in x.items()}", gain=2.5)
VALUES.add(
    "equal as a whole",
    "(x == twin).all()",
    "all([torch.equal(v, twin[k]) for k, v in x.items()])",
    our_class="equal(x, twin)",
    our_dict="equal(x, twin)",
    gain=8,
)

WRITES = Group("Writes in place and deep copies")
PLAIN = ("8", "nested")


def _write(name: str, dicts: str, raw: str | None, levels: bool = True) -> None:
    WRITES.add(name, None, raw, dicts=dicts, samples=PLAIN, floor=None, levels=levels)


_write("x[0] = 0", "x[0] = 0", "for v in x.values(): v[0] = 0")
_write("x[mask] = 0", "x[mask] = 0", "for v in x.values(): v[mask] = 0")
_write("x.fill_('f0', 1)", "x.fill_('f0', 1.0); x", "x['f0'].fill_(1.0); x", levels=False)
_write("x.set_at_('f0', 1, 0)", "x.set_at_('f0', 1.0, 0); x", "x['f0'][0] = 1.0; x", levels=False)
_write("x.copy_at_(first, 0)", "x.copy_at_(first, 0); x", "for k, v in x.items(): v[0] = first[k]")
_write("update(inplace=True)", "x.update(y, inplace=True); x", "for k, v in x.items(): v.copy_(y[k])")
WRITES.add(
    "y[i] = row, 1000 times",
    "for i, row in enumerate(rows): y[i] = row",
    "for i, row in enumerate(rows):\n    for k, v in y.items(): v[i] = row[k]",
    samples=(*LONG, "1000 rows of 8"),
    floor=None,
)
_write("unchanged batch size", "x.batch_size = x.batch_size; x", None)
_write("deep copy", "x.__deepcopy__({})", "{k: v.__deepcopy__({}) for k, v in x.items()}")
