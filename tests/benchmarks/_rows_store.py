"""Rows: lazy stacks, reductions, objects, conversions, states; raw code is what a program without a library does."""

from ._row import Group

REDUCTIONS = Group("Reductions")
REDUCTIONS.add("x.sum(0)", "x.sum(0)", "{k: v.sum(0) for k, v in x.items()}")
REDUCTIONS.add("x.mean(0)", "x.mean(0)", "{k: v.mean(0) for k, v in x.items()}")
REDUCTIONS.add(
    "x.sum(reduce=True)",
    "x.sum(reduce=True)",
    "sum([v.sum() for v in x.values()])",
    samples=("2", "8", "50"),
    comparable=False,
)  # added in another order
REDUCTIONS.add("x.softmax(0)", "x.softmax(0)", "{k: v.softmax(0) for k, v in x.items()}")
REDUCTIONS.add("all(0)", "(x == twin).all(0)", "{k: (v == twin[k]).all(0) for k, v in x.items()}")

STORE = Group("Lazy stacks, objects and conversions")


def _dicts(name: str, dicts: str, raw: str, *samples: str, comparable: bool = True) -> None:
    STORE.add(name, None, raw, dicts=dicts, samples=samples, floor=None, levels=False, comparable=comparable)


_dicts("lazy_stack of 3", "lazy_stack(rows)", "list(rows)", "8", comparable=False)
_dicts("lazy read", "lazy['f0']", "torch.stack([row['f0'] for row in rows])", "8")
_dicts("lazy member", "lazy[1]", "rows[1]", "8")
_dicts("lazy index", "lazy[:, 0]", "[{k: v[0] for k, v in row.items()} for row in rows]", "8", comparable=False)
_dicts("lazy append", "lazy_stack(rows[:1]).append(y)", "rows[:1].append(y)", "8", comparable=False)
_dicts(
    "lazy write",
    "lazy['f0'] = stacked; x",
    "[row.__setitem__('f0', t) for row, t in zip(rows, stacked.unbind(0))]; x",
    "8",
)
_dicts("lazy write of a member", "lazy[0] = y; x", "[v.copy_(y[k]) for k, v in rows[0].items()]; x", "8")
_dicts("lazy keys", "list(lazy.keys())", "list(rows[0])", "8")
_dicts("lazy update_", "lazy.update_(others); x", "[trees.update_(row, y) for row in rows]; x", "8")
_dicts("lazy load_state_dict", "lazy.load_state_dict(states); x", "[trees.update_(row, y) for row in rows]; x", "8")
_dicts("pickle", "pickle.dumps(x)", "pickle.dumps(x)", "8", "5 levels", comparable=False)
_dicts("get an object", "x['source']", "x['source']", "with a str")
_dicts("set an object", "x['source'] = 'text'; x", "x['source'] = 'text'; x", "with a str")
_dicts("to_dict", "x.to_dict()", "trees.copy(x)", "8", "5 levels")
_dicts("from_dict", "TensorDict.from_dict(plain, batch_size=batch)", "trees.copy(plain)", "8", "5 levels")
_dicts("state_dict", "dict(x.state_dict())", "trees.flatten(x)", "8", "5 levels")
_dicts("load_state_dict", "x.load_state_dict(state); x", "trees.update_(x, y); x", "8", "5 levels")
