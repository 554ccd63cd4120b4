"""Rows: the operations that whole programs call besides those of the table."""

from ._row import Group

PROGRAM_CALLS = Group("Operations of programs")


def _dicts(name: str, dicts: str, raw: str, *samples: str, comparable: bool = True) -> None:
    PROGRAM_CALLS.add(name, None, raw, dicts=dicts, samples=samples, floor=None, levels=False, comparable=comparable)


_dicts("x[key]", "x['f0']", "x['f0']", "2", "8")
_dicts("dict(x.items())", "{k: v for k, v in x.items()}", "{k: v for k, v in x.items()}", "2", "8")
_dicts("x.view(-1), already flat", "x.view(-1)", "{k: v.view(1000, -1) for k, v in x.items()}", "1000 rows")
_dicts("x[new] = y", "x['next'] = y; x", "x['next'] = y; x", "8")
_dicts(
    "set_at_ at an index tensor",
    "x.set_at_('f0', t0[:2], index); x",
    "x['f0'][index] = t0[:2]; x",
    "8",
)
_dicts("x[index] = y", "x[index] = pair; x", "[v.__setitem__(index, pair[k]) for k, v in x.items()]; x", "8")
_dicts(
    "update of 3 keys",
    "x.update(y, keys_to_update=['f0', 'f1', 'f2'])",
    "x.update({k: y[k] for k in ('f0', 'f1', 'f2')}); x",
    "8",
)
_dicts(
    "update of 4 nested keys",
    "x.update(y, keys_to_update=['f0', 'f1', ('d', 'f0'), ('d', 'f1')])",
    "x.update({'f0': y['f0'], 'f1': y['f1']}); x['d'].update({k: y['d'][k] for k in ('f0', 'f1')}); x",
    "nested",
)
_dicts("update with a nested batch", "x.update(y)", "trees.merge(x, y)", "nested", comparable=False)
_dicts("masked_fill", "x.masked_fill(mask, 0)", "{k: v.masked_fill(mask[..., None], 0) for k, v in x.items()}", "8")
_dicts("zeros_like", "torch.zeros_like(x)", "{k: torch.zeros_like(v) for k, v in x.items()}", "2", "8", "50")
_dicts("with set_interaction_type", "with kind('mode'): x", "x", "2")
_dicts(
    "pad_sequence of 32 samples",
    "pad_sequence(samples)",
    "{k: pad_tensors([row[k] for row in samples], batch_first=True) for k in samples[0]}",
    "8",
    comparable=False,
)
