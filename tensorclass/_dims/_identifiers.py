"""Which texts are names: of fields, dims and parameters, which Python source is written with."""

from __future__ import annotations

from keyword import iskeyword
from unicodedata import normalize


def why_no_name(name: object) -> str:
    """Why a text can't be a name in Python source; "" when it can.

    >>> why_no_name("image"), why_no_name("class")
    ('', '`class` is a keyword of Python')
    >>> why_no_name("x=1")
    'a name is made of letters, digits and `_`, and begins with no digit'
    """
    if not isinstance(name, str):
        return f"a name is a string, got a {type(name).__name__}"
    if not name.isidentifier():
        return "a name is made of letters, digits and `_`, and begins with no digit"
    if iskeyword(name):
        return f"`{name}` is a keyword of Python"
    read = normalize("NFKC", name)
    return "" if read == name else f"Python reads it as `{read}`, which is another text: write that one"
