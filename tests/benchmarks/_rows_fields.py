"""Rows: reading and writing fields, constructing."""

from ._row import Group

FIELDS = Group("Fields")


def _add(name: str, objects: str, raw: str, dicts: str, gain: float, *samples: str) -> None:
    FIELDS.add(name, objects, raw, dicts=dicts, samples=samples, gain=gain, floor=None, levels=False)


_add("get a tensor", "x.f1", "x['f1']", "x['f1']", 5, "8")
_add("get a str", "x.source", "x['source']", "x['source']", 5, "with a str")
_add("get nested", "x.d.f1", "x['d']['f1']", "x['d', 'f1']", 5, "nested")
_add("set", "x.f1 = t0", "x['f1'] = t0", "x['f1'] = t0", 4, "8", "8, batch ()")
_add("set nested", "x.d.f1 = t0", "x['d']['f1'] = t0", "x['d', 'f1'] = t0", 4, "nested")

_add("replace", "x.replace(f0=t1)", "{**x, 'f0': t1}", "x.replace({'f0': t1})", 8, "2", "8", "nested", "50")

_BATCH, _DICT = "Batch(ARGS, batch_size=batch)", "TensorDict({ITEMS}, batch_size=batch)"
_add("construct", _BATCH, "{ITEMS}", _DICT, 3, "2", "8", "50")
_add("construct nested", _BATCH, "{ITEMS}", _DICT, 5, "nested")
_add("construct with a str", _BATCH, "{ITEMS}", _DICT, 10, "with a str")
