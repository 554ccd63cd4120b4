"""Rows: an untyped container as a dict. 10 leaves in 5 levels, against the anchor's and plain recursion over dicts."""

from ._row import Group

DICTIONARY = Group("TensorDict as a dict")


def _add(name: str, dicts: str, raw: str) -> None:
    DICTIONARY.add(name, None, raw, dicts=dicts, samples=("5 levels",), floor=None, levels=False)


_add("get, 4 levels", "x['d', 'd', 'd', 'f0']", "x['d']['d']['d']['f0']")
_add("set, 4 levels", "x['d', 'd', 'd', 'f0'] = t0", "x['d']['d']['d']['f0'] = t0")
_add("path in keys", "('d', 'd', 'f0') in x.keys(True)", "'f0' in x['d']['d']")
_add("keys(True, True)", "list(x.keys(True, True))", "trees.keys(x)")
_add("values(True, True)", "list(x.values(True, True))", "trees.values(x)")
_add("items(True, True)", "list(x.items(True, True))", "list(zip(trees.keys(x), trees.values(x)))")
_add("flatten_keys", "x.flatten_keys('.')", "trees.flatten(x)")
_add("unflatten_keys", "flat.unflatten_keys('.')", "trees.unflatten(flat)")
_add("select", "x.select('f0', ('d', 'f1'))", "{'f0': x['f0'], 'd': {'f1': x['d']['f1']}}")
_add(
    "exclude", "x.exclude('f0')", "{k: trees.copy(v) if isinstance(v, dict) else v for k, v in x.items() if k != 'f0'}"
)
_add("update", "x.update({'f0': t0, 'f1': t1}); x", "x.update({'f0': t0, 'f1': t1}); x")
_add("update_", "x.update_(y); x", "trees.update_(x, y); x")
