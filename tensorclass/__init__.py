"""Typed, schema-validated batches and model pipelines for PyTorch.

Declare a batch once with `@tensorclass`; get the constructor, validation of dtype, shape and symbolic dims, and a
container that indexes, stacks, moves and compiles like a tensor. Wire modules by field with `tensorclass.nn`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._api import *  # noqa: F403
else:
    from difflib import get_close_matches
    from importlib import import_module

    # Torch is loaded with the first name that is asked for, so that the mypy plugin and the command line start without.
    def __getattr__(name: str) -> Any:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _load()
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_nearest(name)}") from None

    def __dir__() -> list[str]:
        _load()
        return sorted(globals())

    def _load() -> None:
        loaded = vars(import_module("._api", __name__))
        public = {name: value for name, value in loaded.items() if not name.startswith("_")}
        globals().update(public, __all__=list(public))

    def _nearest(name: str) -> str:
        near = get_close_matches(name, globals()["__all__"], 1)
        return f"; did you mean `{near[0]}`?" if near else ""
