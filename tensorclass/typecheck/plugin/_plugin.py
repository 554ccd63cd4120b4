"""The hooks of mypy. If a hook fails, the type of mypy is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import sha1
from pathlib import Path
from typing import Any, TypeVar

from mypy import plugin
from mypy.errors import ErrorWatcher
from mypy.nodes import MypyFile, TypeAlias, TypeInfo
from mypy.types import AnyType, FunctionLike, Instance, Type, TypeOfAny, get_proper_type

from .._rules import ANNOTATED
from . import _access as access
from . import _algebra as algebra
from . import _annotations as brackets
from . import _constructors as constructors
from . import _definitions as classes
from . import _early as early
from . import _flow as flow
from . import _given as values
from . import _joins as torch
from . import _last as last
from . import _layers as layers
from . import _layouts as layouts
from . import _meet as meet
from . import _members as members
from . import _refs as refs
from . import _stages as stages
from ._facts import FROZEN_ROOT, ROOT, is_batch_class
from ._source import by_name, source_of

R = TypeVar("R")
_RESULTS = ("default_return_type", "default_signature", "default_attr_type")
DECORATOR = "tensorclass.classes._decorator.tensorclass"


def guarded(hook: Callable[..., R], **facts: Any) -> Callable[[Any], R]:
    """Wrap a hook, which gets further facts: if it fails, report a note and return the result of mypy."""

    def run(ctx: Any) -> R:
        try:
            return hook(ctx, **facts)
        except Exception as fault:  # an error in the plugin must not stop the check of the user's program
            _note(ctx, fault)
            unknown: Any = AnyType(TypeOfAny.from_error)
            return next((getattr(ctx, name) for name in _RESULTS if hasattr(ctx, name)), unknown)  # type: ignore[no-any-return]  # of mypy

    return run


def _note(ctx: Any, fault: Exception) -> None:
    where = next(at for name in ("context", "call", "cls") if (at := getattr(ctx, name, None)) is not None)
    text = f"tensorclass.mypy_plugin failed here ({type(fault).__name__}: {fault}); this is checked without it"
    ctx.api.msg.note(text, where)


RAGGED = "tensorclass.store.entries._ragged.RaggedTensor"
FIELD = "tensorclass.typecheck._stub_types.Field"


@cache
def _digest() -> str:
    """A digest of the sources that determine the results of the plugin."""
    here = Path(__file__).parent
    files = sorted([*here.glob("*.py"), *here.parent.glob("*.py"), *(here.parent.parent / "_dims").glob("*.py")])
    return sha1(b"".join(file.read_bytes() for file in files), usedforsecurity=False).hexdigest()


class TensorClassPlugin(plugin.Plugin):
    """The hooks by full name of a class, function, method or attribute."""

    _completed = 0

    def _class(self, fullname: str) -> TypeInfo | None:
        symbol = self.lookup_fully_qualified(fullname)
        node = None if symbol is None else symbol.node
        if isinstance(node, TypeAlias) and isinstance(target := get_proper_type(node.target), Instance):
            return target.type
        return node if isinstance(node, TypeInfo) else None

    def _complete_files(self) -> None:
        """Add the last statement to files that mypy has read since the last time."""
        modules = self._modules or {}
        if len(modules) != self._completed:
            self._completed = len(modules)
            for file in modules.values():
                last.add_last(file)

    def report_config_data(self, ctx: plugin.ReportConfigContext) -> object:
        """The data that mypy stores with its cache: after an update of the plugin, files are checked again."""
        return _digest()

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """No further modules; files of the user get a last statement."""
        last.add_last(file)
        return []

    def get_class_decorator_hook(self, fullname: str) -> Callable[[plugin.ClassDefContext], None] | None:
        """`@tensorclass` adds the base class."""
        return guarded(classes.decorated) if fullname == DECORATOR else None

    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[plugin.ClassDefContext], bool] | None:
        """Do nothing: the base class has the dataclass transform, which the decorator would add again."""
        return (lambda ctx: True) if fullname == DECORATOR else None

    def get_base_class_hook(self, fullname: str) -> Callable[[plugin.ClassDefContext], None] | None:
        """Fields are recorded for every class below TensorClass."""
        known = fullname in (ROOT, FROZEN_ROOT) or is_batch_class(self._class(fullname))
        return guarded(classes.declared) if known else None

    def get_type_analyze_hook(self, fullname: str) -> Callable[[plugin.AnalyzeTypeContext], Type] | None:
        """`TensorClass["shadow"]` is the class itself; in stubs, a reference is what the plugin makes of the type."""
        if is_batch_class(self._class(fullname)):
            self._complete_files()
        if fullname == FIELD:
            return lambda ctx: ctx.api.analyze_type(ctx.type.args[0])
        if fullname in ANNOTATED:
            return guarded(brackets.read_annotated, ragged=self._class(RAGGED))
        return guarded(brackets.base, root=fullname) if fullname in (ROOT, FROZEN_ROOT) else None

    def get_dynamic_class_hook(self, fullname: str) -> Callable[[plugin.DynamicClassDefContext], None] | None:
        """`Small = pick(Digits, "image")` is a class."""
        kind = algebra.FUNCTIONS.get(fullname)
        return None if kind is None else guarded(algebra.bound, kind=kind)

    def get_function_hook(self, fullname: str) -> Callable[[plugin.FunctionContext], Type] | None:
        """Constructors, typed modules, pipelines, joins and torch functions."""
        hook = _FUNCTIONS.get(fullname)
        name = torch.torch_function(fullname)
        if hook is None and name is not None:
            hook = partial(access.torch_called, name=name)
        elif hook is None and is_batch_class(self._class(fullname)):
            hook = constructors.check_construction
        return None if hook is None else guarded(hook)

    def get_function_signature_hook(self, fullname: str) -> Callable[[plugin.FunctionSigContext], FunctionLike] | None:
        """Torch functions accept containers; `PerElement[str] | None` accepts the values of `PerElement[str]`."""
        if fullname == torch.LOADER:
            return guarded(torch.loader)
        if fullname in (stages.STAGE, stages.MODULE):
            return guarded(stages.accepted)
        if fullname in torch.ITERATING:
            loader = self._class(torch.LOADER)
            return None if loader is None else guarded(torch.iterating, loader=loader)
        if torch.torch_function(fullname) is None:
            return guarded(constructors.signature) if is_batch_class(self._class(fullname)) else None
        collection, sequence = self._class(torch.COLLECTION), self._class("typing.Sequence")
        if collection is None or sequence is None:
            return None
        return guarded(torch.widened, collection=collection, sequence=sequence)

    def get_method_hook(self, fullname: str) -> Callable[[plugin.MethodContext], Type] | None:
        """Methods of typed classes, by the class of the instance."""
        if fullname in _METHODS:
            return guarded(_METHODS[fullname])
        if fullname == last.OPERATOR:
            return guarded(last.check_rest, hook_of=self.get_method_hook)
        owner, _, name = fullname.rpartition(".")
        if name == "distribute" and is_batch_class(self._class(owner)):
            return guarded(layouts.check_distribute)
        if not access.wants(name) or not is_batch_class(self._class(owner)):
            return None
        if name in ("pick", "omit", "merge"):
            return guarded(algebra.part, kind=name)
        return guarded(torch.same_class) if name in ("stack", "cat") else guarded(access.called, name=name)

    def get_method_signature_hook(self, fullname: str) -> Callable[[plugin.MethodSigContext], FunctionLike] | None:
        """`replace` accepts the fields; the function of `apply` gets tensors."""
        owner, _, name = fullname.rpartition(".")
        if name not in ("replace", "apply", "apply_", "named_apply") or not is_batch_class(self._class(owner)):
            return None
        if name == "replace":
            return guarded(access.replaced)
        tensor = self._class(values.TENSOR)
        return None if tensor is None else guarded(meet.applied, tensor=tensor, named=name == "named_apply")

    def get_attribute_hook(self, fullname: str) -> Callable[[plugin.AttributeContext], Type] | None:
        """Assignments to fields."""
        owner, _, name = fullname.rpartition(".")
        if owner == ROOT:
            return guarded(access.attribute, name=name)
        return guarded(_field, name=name) if is_batch_class(self._class(owner)) else None

    def get_class_attribute_hook(self, fullname: str) -> Callable[[plugin.AttributeContext], Type] | None:
        """References to fields: `Digits.image`."""
        return guarded(refs.known_elsewhere) if is_batch_class(self._class(fullname.rpartition(".")[0])) else None


def _field(ctx: plugin.AttributeContext, name: str) -> Type:
    if not ctx.is_lvalue:
        early.read(ctx, name)
    if not ctx.is_lvalue and not source_of(ctx.api).deleted:
        return refs.known_elsewhere(ctx)
    access.attribute(ctx, name)
    return values.assigned(ctx)


def _type_of_module(ctx: plugin.FunctionContext) -> Type:
    return members.known_elsewhere(ctx, _checked_module(ctx))


def _checked_module(ctx: plugin.FunctionContext) -> stages.KnownStage | None:
    """The module that a call makes, checked. mypy asks once per overload and context, mostly the same question."""
    api: Any = ctx.api
    source, question = source_of(api), (ctx.context, api.pass_num, ctx.arg_types)
    if source.last_module is None or source.last_module[0] != question:
        with ErrorWatcher(api.msg.errors) as found:
            stage, module = stages.wrapped(ctx), by_name(ctx).get("module")
            if stage is not None and module is not None:
                layers.check_wrapped(api, module, stage)
        if found.has_new_errors() or api.options.fine_grained_incremental:
            return stage  # mypy drops what it finds while it tries an overload; its daemon asks again after changes
        source.last_module = question, stage
    known: stages.KnownStage | None = source.last_module[1]
    return known


_FUNCTIONS: dict[str, Callable[[plugin.FunctionContext], Type]] = {
    stages.MODULE: _type_of_module,
    stages.TWO_STEP: stages.two_step,
    stages.STAGE: stages.called,
    stages.SAMPLE: stages.called,
    members.SEQUENTIAL: flow.pipeline,
    classes.FIELD: classes.default_type,
    torch.LOADER: torch.loaded,
    layouts.LAYOUT: layouts.check_layout,
    "builtins.iter": torch.iterated,
    **dict.fromkeys(torch.OWN_JOINS, torch.same_class),
    **dict.fromkeys(access.KEYED_FUNCTIONS, access.function),
    **{name: partial(algebra.made, kind=kind) for name, kind in algebra.FUNCTIONS.items()},
}
_METHODS: dict[str, Callable[[plugin.MethodContext], Type]] = {
    f"{members.SEQUENTIAL}.on": flow.on,
    "tensorclass.nn.typed._two_step.Typed.__call__": members.decorated,
    f"{torch.LOADER}.__iter__": torch.iterated,
}
