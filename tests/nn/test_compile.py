"""torch.compile of every form of a network: one graph, the numbers of eager code, compiled as often as raw modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.distributions import Distribution

from tests.nn._deployed import FORMS, Form, Obs, tensors

forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """No compiled code from elsewhere; distributions are as torch leaves them where it compiles for the first time."""
    torch._dynamo.reset()
    Distribution.set_default_validate_args(False)
    yield
    torch._dynamo.reset()


def pair(form: Form) -> tuple[Any, nn.Module]:
    """A form of the network, and the network itself."""
    layers = form.raw()
    return form.build(layers), layers


def values(result: Any, form: Form) -> list[Tensor]:
    """The outputs in order."""
    return [result[name] for name in form.outputs]


def frames(function: Callable[..., Any], calls: list[Callable[[Any], Any]], **options: Any) -> int:
    """How many graphs some calls of a compiled function take."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, fullgraph=True, backend=counter, **options)
    for call in calls:
        call(compiled)
    return int(counter.frame_count)


def modes(module: nn.Module, batch: Callable[[int], tuple[Any, ...]]) -> list[Callable[[Any], Any]]:
    """Calls with other batch sizes, in training and in evaluation, with and without gradients."""

    def call(size: int, training: bool, gradients: bool) -> Callable[[Any], Any]:
        def run(function: Any) -> Any:
            module.train(training)
            with torch.set_grad_enabled(gradients):
                return function(*batch(size))

        return run

    return [call(size, *mode) for mode in ((True, True), (False, False)) for size in (4, 4, 5, 9)]


SEVERAL = [(name, None) for name in FORMS] + [("typed sequence", True), ("keyed sequence", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dynamic"), SEVERAL)
def test_compiled_as_often_as_the_raw_network(name, dynamic):
    """Batch sizes, training, gradients: no graph that the raw network does not need, and none that is not whole."""
    form = FORMS[name]
    module, raw = pair(form)
    ours = frames(module, modes(module, lambda n: (form.batch(*tensors(n)),)), dynamic=dynamic)
    theirs = frames(raw, modes(raw, tensors), dynamic=dynamic)
    assert ours == theirs


@pytest.mark.slow
@forms
def test_numbers_and_gradients(form):
    """Those of the raw network, for several batch sizes, compiled forward and backward; no recompile after two."""
    module, raw = pair(form)
    module.eval(), raw.eval()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")

    def check(size: int) -> None:
        gradients = []
        for network in (compiled, raw):
            batch = tensors(size)
            result = network(*batch) if network is raw else values(network(form.batch(*batch)), form)
            loss = sum(value.square().sum() for value in result)
            gradients.append([*result, *torch.autograd.grad(loss, list(raw.parameters()))])
        for found, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(found, expected)

    # Parameters that are outside of the network are its parameters still, so that gradients reach them.
    assert {p.data_ptr() for p in module.parameters()} == {p.data_ptr() for p in raw.parameters()}
    check(4), check(5)
    with torch._dynamo.config.patch(error_on_recompile=True):
        check(6), check(9), check(4)


@pytest.mark.parametrize("name", ["typed sequence", "keyed sequence"])
def test_one_graph(name):
    """One graph for one batch size, two for all."""
    form = FORMS[name]
    module, _ = pair(form)
    for sizes, graphs in (((4, 4), 1), ((4, 5, 6, 9), 2)):
        assert frames(module, [lambda f, n=n: f(form.batch(*tensors(n))) for n in sizes]) == graphs


def test_optional_fields():
    """A field that no module reads, absent or there, makes no second program."""
    module, _ = pair(FORMS["typed sequence"])
    x, y = tensors(4)
    batches = [Obs(x=x, y=y), Obs(x=x, y=y, offset=y)]
    assert frames(module, [lambda f, b=b: f(b) for b in batches * 3]) == 1


def test_functional_call():
    """`torch.func.functional_call` of a typed sequence with other parameters, and its gradient, compiled."""
    form = FORMS["typed sequence"]
    module, raw = pair(form)
    module.eval(), raw.eval()
    params = {name: value.detach() + 1 for name, value in module.named_parameters()}
    twins = dict(zip(dict(raw.named_parameters()), params.values(), strict=True))
    batch = tensors(4)

    def loss(values: dict[str, Tensor], batch: Obs) -> Tensor:
        found: Tensor = torch.func.functional_call(module, values, (batch,)).score.square().sum()
        return found

    gradients = torch.compile(torch.func.grad(loss), fullgraph=True, backend="eager")(params, form.batch(*batch))
    expected = torch.func.grad(lambda p: torch.func.functional_call(raw, p, batch)[0].square().sum())(twins)
    for found, value in zip(gradients.values(), expected.values(), strict=True):
        torch.testing.assert_close(found, value)
