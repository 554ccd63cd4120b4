"""Rows: JSON. Raw code is a pydantic model with nested lists; it holds lists where a typed batch holds tensors."""

from ._row import Group

JSON = Group("JSON")


def _add(name: str, raw: str, ours: str, floor: float | None) -> None:
    JSON.add(
        name, None, raw, our_class=ours, samples=("2", "8", "1000 rows"), floor=floor, levels=False, comparable=False
    )


_add("validate", "json.model.model_validate_json(json.text)", "json.adapter.validate_json(json.text)", 1.0)
_add("dump", "json.filled.model_dump_json()", "json.adapter.dump_json(x)", 1.0)
_add(
    "validate lists, to tensors",
    "json.tensors(json.model.model_validate_json(json.text))",
    "json.adapter.validate_json(json.text_of_lists)",
    None,
)
_add(
    "dump lists, from tensors",
    "json.lists().model_dump_json()",
    "json.adapter.dump_json(x, context={'tensors': 'lists'})",
    None,
)
