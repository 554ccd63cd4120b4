"""Which strings are valid names of fields, dims and parameters, since Python source is generated with them."""

from __future__ import annotations

from keyword import iskeyword
from unicodedata import normalize


def why_no_name(name: object) -> str:
    """The reason why a string can't be a name in Python source; "" if it can.

    >>> why_no_name("image"), why_no_name("class")
    ('', '`class` is a keyword of Python')
    >>> why_no_name("x=1")
    'a name is made of letters, digits and `_`, and begins with no digit'
    """
    if type(name) is str and name.isascii() and name.isidentifier() and not iskeyword(name):  # almost every name
        return ""
    if not isinstance(name, str):
        return f"a name is a string, got a {type(name).__name__}"
    if not name.isidentifier():
        return "a name is made of letters, digits and `_`, and begins with no digit"
    if iskeyword(name):
        return f"`{name}` is a keyword of Python"
    read = name if name.isascii() else normalize("NFKC", name)
    return "" if read == name else f"Python reads it as `{read}`, which is another text: write that one"
