"""Rows: functions that return a batch, compiled by inductor and warm."""

from ._row import Group

COMPILED = Group("Compiled")


def _add(name: str, objects: str, raw: str, dicts: str | None = None) -> None:
    COMPILED.add(name, objects, raw, dicts=dicts or objects, samples=("8",), floor=1.1, compiled=True)


_add("x + 1, compiled", "x + 1", "{k: v + 1 for k, v in x.items()}")
_add("x[0], compiled", "x[0]", "{k: v[0] for k, v in x.items()}")
_add("set, compiled", "x.f1 = y.f0 + 1", "x['f1'] = y['f0'] + 1", "x['f1'] = y['f0'] + 1")
_add("stack of 2, compiled", "torch.stack([x, y])", "{k: torch.stack([v, y[k]]) for k, v in x.items()}")
_add("construct, compiled", "Batch(ARGS, batch_size=batch)", "{ITEMS}", "TensorDict({ITEMS}, batch_size=batch)")
