"""The codes of the plugin's messages: each can be ignored on its line, `# type: ignore[tensorclass-dtype]`."""

from __future__ import annotations

from mypy.errorcodes import ErrorCode


def _code(name: str, description: str) -> ErrorCode:
    return ErrorCode(f"tensorclass-{name}", description, "tensorclass")


DECLARATION = _code("declaration", "A class declares a field or an option that makes no sense")
DTYPE = _code("dtype", "A tensor has another dtype than its field declares")
SHAPE = _code("shape", "A tensor has another shape than its field declares, or dims of one name differ")
BATCH = _code("batch-size", "Fields, batch size and dim names do not agree about the batch dims")
UNKNOWN_KEY = _code("key", "A name or a string key is not a field of the class, or a required field is missing")
VALUE = _code("value", "A value written by key is not of the type of its field")
FROZEN = _code("frozen", "A frozen instance is written")
JOIN = _code("join", "Instances of different classes are joined")
CAST = _code("cast", "An operation gives fields a dtype that the class does not declare")
REFERENCE = _code("reference", "in_fields or out_fields get anything but fields of a class")
CALLABLE = _code("callable", "A wrapped callable does not take the in fields, or does not return the out fields")
FLOW = _code("flow", "A pipeline reads what nothing provides, leaves an output unwritten, or writes a field twice")
DEVICE = _code("device", "A string names no device")
LAYOUT = _code("layout", "A layout names a dim that the mesh or the class does not have")
CODES = (
    DECLARATION, DTYPE, SHAPE, BATCH, UNKNOWN_KEY, VALUE, FROZEN, JOIN, CAST, REFERENCE, CALLABLE, FLOW, DEVICE,
    LAYOUT,
)  # fmt: skip
