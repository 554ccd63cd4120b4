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
    from . import tensordict as tensordict
    from . import testing as testing
    from . import typedtensordict as typedtensordict
    from . import typing as typing
    from . import utils as utils
    from ._api import *  # noqa: F403
    from .nn import TensorClassModuleBase as TensorClassModuleBase
    from .nn import TensorClassModuleWrapper as TensorClassModuleWrapper
    from .nn import as_tensordict_module as as_tensordict_module
else:
    import sys
    from difflib import get_close_matches
    from importlib import import_module
    from types import ModuleType

    _MODULES = ("base", "errors", "functional", "nn", "tensordict", "testing", "typedtensordict", "typing", "utils")
    _FROM_NN = ("TensorClassModuleBase", "TensorClassModuleWrapper", "as_tensordict_module")

    class _Package(ModuleType):
        """`from tensorclass import tensorclass` and `import tensorclass` bind one name: the package decorates too."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.tensorclass(*args, **kwargs)

        def __setattr__(self, name: str, value: Any) -> None:  # of submodules, as the import system calls it
            super().__setattr__(name, value)
            if not name.startswith("_") and "tensorclass" in vars(self):
                setattr(self.tensorclass, name, value)

    sys.modules[__name__].__class__ = _Package
    # `tensorclass.tensorclass` is the decorator. As a module of that name (tensorclass.pyi) the package itself answers,
    # since a module in a file would take the place of the decorator.
    sys.modules[f"{__name__}.tensorclass"] = sys.modules[__name__]

    # Torch is loaded with the first name that is asked for, so that the mypy plugin and the command line start without.
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r:.200} has no attribute {name!r:.200}")
        _load()
        if name in _FROM_NN:
            globals().update({key: getattr(import_module(".nn", __name__), key) for key in _FROM_NN})
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r:.200} has no attribute {name!r:.200}{_nearest(name)}") from None

    def __dir__() -> list[str]:
        _load()
        return sorted({*globals()["__all__"], *_MODULES, *(name for name in globals() if name.startswith("__"))})

    def _load() -> None:
        loaded = vars(import_module("._api", __name__))
        public = {name: value for name, value in loaded.items() if not name.startswith("_")}
        globals().update(public, __all__=[*public, *_FROM_NN])
        import_module(".classes._notebook", __name__).register()
        # Where the decorator was imported last, `tensorclass.stack` is asked of a function.
        present = {name: globals()[name] for name in _MODULES if name in globals()}
        vars(public["tensorclass"]).update({**public, **present, "tensorclass": public["tensorclass"]})

    def _nearest(name: str) -> str:
        near = get_close_matches(name, [*globals()["__all__"], *_MODULES], 1)
        return f"; did you mean `{near[0]}`?" if near else ""
