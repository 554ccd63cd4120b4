"""Typed, schema-validated batches and model pipelines for PyTorch.

Declare a batch once with `@tensorclass`; get the constructor, validation of dtype, shape and symbolic dims, and a
container that indexes, stacks, moves and compiles like a tensor. Wire modules by field with `tensorclass.nn`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import base as base
    from . import errors as errors
    from . import functional as functional
    from . import nn as nn
    from . import persistent as persistent
    from . import tensordict as tensordict
    from . import testing as testing
    from . import typedtensordict as typedtensordict
    from . import typing as typing
    from . import utils as utils
    from ._api import *  # noqa: F403
    from ._api_files import *  # noqa: F403
    from .nn import TensorClassModuleBase as TensorClassModuleBase
    from .nn import TensorClassModuleWrapper as TensorClassModuleWrapper
    from .nn import as_tensordict_module as as_tensordict_module
else:
    import sys
    from difflib import get_close_matches
    from functools import update_wrapper
    from importlib import import_module
    from types import ModuleType

    _MODULES = (
        "base",
        "errors",
        "functional",
        "nn",
        "persistent",
        "tensordict",
        "testing",
        "typedtensordict",
        "typing",
        "utils",
    )
    _PARTS = ("_api", "_api_files")
    """Where a name is looked for, one after the other: a program that uses no files doesn't load what they need."""
    _FROM_NN = ("TensorClassModuleBase", "TensorClassModuleWrapper", "as_tensordict_module")

    class _Package(ModuleType):
        """`from tensorclass import tensorclass` and `import tensorclass` bind the same name, so the package is also the
        decorator.
        """

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.tensorclass(*args, **kwargs)

    class _Decorator:
        """The decorator. Where it was imported last, `tensorclass.stack` is asked of it, so it has all names, too."""

        def __init__(self, function: Any) -> None:
            update_wrapper(self, function).__module__ = __name__

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.__wrapped__(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(_PACKAGE, name)

        def __dir__(self) -> list[str]:
            return __dir__()

        def __repr__(self) -> str:
            return repr(self.__wrapped__)

        def __reduce__(self) -> str:
            return "tensorclass"

    _PACKAGE = sys.modules[__name__]
    _PACKAGE.__class__ = _Package
    # `tensorclass.tensorclass` is the decorator. The package itself is registered as the module of that name
    # (tensorclass.pyi), since a real module would replace the decorator.
    sys.modules[f"{__name__}.tensorclass"] = _PACKAGE
    sys.modules[f"{__name__}.memmap"] = _PACKAGE  # the same for the function `tensorclass.memmap`

    # Torch is imported with the first public name, so that the mypy plugin and the command line start without it.
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name == "__all__":
            return [*(name for part in _PARTS for name in _public(part)), *_FROM_NN]
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r:.200} has no attribute {name!r:.200}")
        if name in _FROM_NN:
            globals().update({key: getattr(import_module(".nn", __name__), key) for key in _FROM_NN})
        for part in _PARTS:
            if name not in globals():
                _load(part)
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r:.200} has no attribute {name!r:.200}{_nearest(name)}") from None

    def __dir__() -> list[str]:
        return sorted({*__getattr__("__all__"), *_MODULES, *(name for name in globals() if name.startswith("__"))})

    def _load(part: str) -> None:
        names = _public(part)
        if part == _PARTS[0]:
            # One for all threads that come here at the same time.
            names["tensorclass"] = globals().setdefault("tensorclass", _Decorator(names["tensorclass"]))
            import_module(".classes._notebook", __name__).register()
        globals().update(names)

    def _public(part: str) -> dict[str, Any]:
        return {name: value for name, value in vars(import_module(f".{part}", __name__)).items() if name[0] != "_"}

    def _nearest(name: str) -> str:
        near = get_close_matches(name, [*__getattr__("__all__"), *_MODULES], 1)
        return f"; did you mean `{near[0]}`?" if near else ""
