"""What lets dynamo and Python find the methods of containers quickly."""

from __future__ import annotations

from types import FunctionType, MemberDescriptorType
from typing import Final

_SETTLED: Final = (FunctionType, MemberDescriptorType, classmethod, property, bool)


def settle(cls: type) -> None:
    """Copy inherited methods and slots into the namespace of a class.

    Dynamo guards every class in which it fails to find a name, and Python walks as far if its type cache misses.
    Classes of users are not changed, so that the lookup order of their bases stays the same.
    """
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        member = vars(owner)[name]
        if owner not in (cls, object) and isinstance(member, _SETTLED):
            setattr(cls, name, member)
