"""`@checked`: compares the arguments and the result of a function with their annotations, in one scope of dims."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, wraps
from types import FunctionType
from typing import Any, TypeVar

from .._dims import Bindings, Dim, Dims, Token, Variadic
from .._schema import One, Rule, Scope, Several, WrongDeclaration, read_items, read_rule, type_name
from ..errors import ArgumentError, Problem, SchemaError
from ._base import TensorClass
from ._compile import compile_function

F = TypeVar("F", bound=Callable[..., Any])
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_BEFORE_KEYWORDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
_NAME = re.compile(r"[^\W\d]\w*")
_UNSAFE = re.compile(r"//\s*(?![1-9])")  # a divisor that may be zero


def checked(function: F) -> F:
    """Compare the tensors and batches that a function takes and returns with their annotations, at every call.

    `Float32[Tensor, "b 4"]` declares dtype and dims of a tensor, `Shaped[Step, "t b"]` the batch dims of a batch. Equal
    names have equal sizes in one call. A parameter that is annotated with a typed class or with `Tensor` is compared
    with the class. Other annotations are left to the type checker. Under `python -O` nothing is checked, and neither
    are the batch dims of a class with `validate="off"`.

    Args:
        function: a function or a method; also async ones and generators, whose items are compared.

    Raises:
        ArgumentError: for anything but a function, or if no annotation says anything about tensors or batches.
        SchemaError: for an annotation that contradicts itself; and by the call, which lists all arguments that don't
            fit, or the result.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, checked
    >>> from tensorclass.typing import Float32, Shaped
    >>> class Step(TensorClass):
    ...     reward: Float32[Tensor, ""]
    >>> @checked
    ... def total(steps: Shaped[Step, "t b"], scale: Float32[Tensor, "b"]) -> Shaped[Step, "b"]:
    ...     return steps.sum(0) * scale
    >>> total(Step(torch.ones(5, 3)), torch.ones(3)).batch_size
    torch.Size([3])
    >>> total(Step(torch.ones(3, 5)), torch.ones(3))
    Traceback (most recent call last):
    tensorclass.errors.SchemaError: total(): 1 problem
    scale
      declared: Float32[Tensor, "b"]
      given:    tensor float32 [3]
      hint:     dim 0 is `b`: `b` is 5 (bound by `steps`), here 3
    """
    if isinstance(function, classmethod | staticmethod):
        descriptor: Any = type(function)
        return descriptor(checked(function.__func__))  # type: ignore[no-any-return]  # of the same kind
    if not isinstance(function, FunctionType):
        raise ArgumentError(f"checked takes a function, got {function!r:.100}; decorate a method of the class")
    made: Any = _wrapper(Contract(function), function) if __debug__ else function
    return made  # type: ignore[no-any-return]  # has the signature of the function


def _wrapper(contract: Contract, function: FunctionType) -> Callable[..., Any]:
    """The checking function, of the same kind as the given one."""
    if inspect.isasyncgenfunction(function):
        return _of_async_items(contract, function)
    if inspect.isgeneratorfunction(function):
        return _of_items(contract, function)
    if inspect.iscoroutinefunction(function):
        return _of_coroutine(contract, function)
    try:
        return contract.compiled()
    except NameError:  # a class that is defined below; the annotation is read at the first call
        return _when_defined(contract, function)


def _when_defined(contract: Contract, function: FunctionType) -> Callable[..., Any]:
    made: list[Callable[..., Any]] = []

    @wraps(function)
    def late(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(contract.compiled())
        return made[0](*args, **kwargs)

    return late


def _of_coroutine(contract: Contract, function: FunctionType) -> Callable[..., Any]:
    @wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        scope = contract.bind_call(args, kwargs)
        result = await function(*args, **kwargs)
        contract.check(scope, "result", contract.result, result)
        return result

    return awaited


def _of_items(contract: Contract, function: FunctionType) -> Callable[..., Any]:
    """A generator function whose items are checked as they are made."""

    @wraps(function)
    def each(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        scope = contract.bind_call(args, kwargs)
        items = function(*args, **kwargs)
        sent = None
        try:
            while True:
                item = items.send(sent)
                contract.check(_copy_scope(scope), "item", contract.items, item)
                sent = yield item
        except StopIteration as stop:
            return stop.value
        finally:
            items.close()

    return each


def _of_async_items(contract: Contract, function: FunctionType) -> Callable[..., Any]:
    @wraps(function)
    async def each(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        scope = contract.bind_call(args, kwargs)
        async for item in function(*args, **kwargs):
            contract.check(_copy_scope(scope), "item", contract.items, item)
            yield item

    return each


def _copy_scope(scope: Bindings) -> Bindings:
    """The sizes of the arguments: a name that only the items have may differ between them."""
    made = Bindings()
    made.sizes, made.variadics, made.origin = scope.sizes.copy(), scope.variadics.copy(), scope.origin.copy()
    return made


class Contract:
    """What the annotations of a function say. They are read when they are needed, since a class may be defined below.

    Args:
        function: The function.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.name = function.__qualname__.rpartition("<locals>.")[2]
        with suppress(NameError):
            self.has_rules()

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters, with annotations that may be strings."""
        return inspect.signature(self.function)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules of the parameters that have one."""
        found = {}
        for name, parameter in self.signature.parameters.items():
            rule = self._read(name, parameter.annotation, read_rule)
            if rule is not None:
                many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
                found[name] = Several((rule,)) if many else rule
        return found

    @cached_property
    def result(self) -> Rule | None:
        """The rule of the result."""
        return self._read("result", self.signature.return_annotation, read_rule)

    @cached_property
    def items(self) -> Rule | None:
        """The rule of the items of a generator."""
        return self._read("result", self.signature.return_annotation, read_items)

    def _read(self, name: str, annotation: Any, read: Callable[[Any, type], Rule | None]) -> Rule | None:
        if annotation is inspect.Parameter.empty:
            return None
        inner: Any = inspect.unwrap(self.function)
        cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
        filled = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
        try:
            return read(Scope(self.function, inner.__globals__, filled).evaluate(annotation), TensorClass)
        except WrongDeclaration as wrong:
            problem = Problem(name, type_name(annotation), wrong.given, wrong.hint)
            raise SchemaError.of(f"{self.name}()", [problem]) from None

    def has_rules(self) -> None:
        """Refuse a function without anything to check.

        Raises:
            NameError: if an annotation names a class that is not defined yet.
            ArgumentError: if no annotation says anything about tensors or batches.
        """
        if not (self.rules or self.result or self.items):
            raise ArgumentError(
                f"checked({self.name}): no annotation says anything about tensors or batches; annotate a parameter "
                f'with `Float32[Tensor, "b 4"]`, `Shaped[Step, "t b"]` or a class, or drop the decorator'
            )

    def bind(self, values: Iterable[Any]) -> Bindings:
        """Compare the arguments that have rules, in order; returns the sizes of their dims.

        Raises:
            SchemaError: lists all arguments that don't fit.
        """
        scope = Bindings()
        pairs = zip(self.rules.items(), values, strict=True)
        problems = [found for (name, rule), value in pairs for found in rule.problems(name, value, scope)]
        self._refuse(problems or scope.finish())
        return scope

    def bind_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bindings:
        """Compare the arguments of a call."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self.bind([bound.arguments[name] for name in self.rules])

    def check(self, scope: Bindings, name: str, rule: Rule | None, value: Any) -> None:
        """Compare the result or an item with its rule."""
        if rule is not None:
            self._refuse(rule.problems(name, value, scope) or scope.finish())

    def check_result(self, scope: Bindings, value: Any) -> None:
        """Compare the result."""
        self.check(scope, "result", self.result, value)

    def _refuse(self, problems: list[Problem]) -> None:
        if problems:
            raise SchemaError.of(f"{self.name}()", problems)

    def compiled(self) -> Callable[..., Any]:
        """A function with the same parameters, whose quick tests are generated; what fails them is compared by rules.

        Raises:
            NameError: if an annotation names a class that is not defined yet.
        """
        self.has_rules()
        names: dict[str, Any] = {"_tc_call": self.function, "_tc_bind": self.bind, "_tc_result": self.check_result}
        quick = _Quick(names)
        arguments = quick.all_of(self.rules)
        result = "True" if self.result is None else quick.of("_tc_out", self.result)
        given = "".join([f"{name}, " for name in self.rules])
        head, call = _forward_parameters(self.signature, names)
        source = (
            f"def checking({head}):\n"
            f"    _tc_scope = None if {arguments} else _tc_bind(({given}))\n"
            f"    _tc_out = _tc_call({call})\n"
            f"    if _tc_scope is not None or not ({result}):\n"
            f"        _tc_result(_tc_scope or _tc_bind(({given})), _tc_out)\n"
            f"    return _tc_out\n"
        )
        return wraps(self.function)(compile_function(source, "checking", self.function, names, {}))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # the variable is assigned later
        return False


def _forward_parameters(signature: inspect.Signature, names: dict[str, Any]) -> tuple[str, str]:
    """The parameters of the generated function, and how it passes them on; defaults are added to the names."""
    head, call, previous = [], [], None
    for name, parameter in signature.parameters.items():
        if previous == parameter.POSITIONAL_ONLY != parameter.kind:
            head.append("/")
        starred = _STARS.get(parameter.kind, "")
        if parameter.kind == parameter.KEYWORD_ONLY and previous not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            head.append("*")
        if parameter.default is not parameter.empty:
            names[f"_tc_default_{name}"] = parameter.default
        default = f"=_tc_default_{name}" if parameter.default is not parameter.empty else ""
        head.append(f"{starred}{name}{default}")
        call.append(f"{name}={name}" if parameter.kind == parameter.KEYWORD_ONLY else f"{starred}{name}")
        previous = parameter.kind
    if previous == inspect.Parameter.POSITIONAL_ONLY:
        head.append("/")
    return ", ".join(head), ", ".join(call)


class _Quick:
    """Writes the tests of values as expressions; "False" for rules that need the complete comparison."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.known: dict[str, str] = {}
        self.unsure: set[str] = set()

    def all_of(self, rules: Mapping[str, Rule]) -> str:
        """The test of all arguments; those that may be None come last, since they may bind no name."""
        ordered = sorted(rules.items(), key=lambda row: isinstance(row[1], One) and row[1].optional)
        tests = [self.of(name, rule) for name, rule in ordered]
        return "False" if "False" in tests else " and ".join(tests) or "True"

    def of(self, value: str, rule: Rule) -> str:
        """The test of one value."""
        if not isinstance(rule, One):
            return "False"
        before = self.known.copy()
        self.names[f"_tc_kind_{value}"] = rule.kind
        tests = [f"isinstance({value}, _tc_kind_{value})"]
        if rule.sizes == "shape" and rule.spec.dtype.dtypes is not None:
            exact = rule.spec.dtype.exact
            self.names[f"_tc_dtype_{value}"] = rule.spec.dtype.dtypes if exact is None else exact
            tests.append(f"{value}.dtype {'in' if exact is None else '=='} _tc_dtype_{value}")
        if rule.dims is not None:
            tests += self._of_dims(value, rule.dims, rule.sizes)
        text = "False" if "False" in tests else " and ".join(tests)
        if not rule.optional or text == "False":
            return text
        self.unsure |= self.known.keys() - before.keys()
        self.known = before
        return f"({value} is None or {text})"

    def _of_dims(self, value: str, dims: Dims, attribute: str) -> list[str]:
        sizes, count = f"_tc_sizes_{value}", len(dims.tokens)
        tests = [f"len({sizes} := {value}.{attribute}) {'>=' if dims.rank is None else '=='} {dims.min_rank}"]
        behind = False
        for i, token in enumerate(dims.tokens):
            if isinstance(token, Variadic):
                behind = True
                stop = count - 1 - i
                tests.append(self._size_comparison(token, f"{sizes}[{i}:{-stop if stop else ''}]"))
            else:
                tests.append(self._size_comparison(token, f"{sizes}[{i - count if behind else i}]"))
        return [test for test in tests if test]

    def _size_comparison(self, token: Token, size: str) -> str:
        """The comparison of one size; "" if the token fits every size, "False" if only the complete check can tell."""
        is_dim = isinstance(token, Dim)
        if not (is_dim or (isinstance(token, Variadic) and token.name)):
            return ""
        name = token.text if isinstance(token, Dim) else str(token)
        if name in self.known and not is_dim:
            return f"{size} == {self.known[name]}"
        if name not in self.known:
            if name in self.unsure:
                return "False"
            if name.removeprefix("*").isidentifier():  # the first use of a name binds it
                self.known[name] = size
                return ""
        if _UNSAFE.search(name) or not self.known.keys() >= {*_NAME.findall(name)}:
            return "False"
        return f"{size} == {_NAME.sub(lambda found: self.known[found[0]], name)}"
