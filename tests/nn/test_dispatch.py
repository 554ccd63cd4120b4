"""`dispatch` on functions and modules of one's own: typed batches, what it builds, what it refuses."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.errors import MissingKeyError, ModuleError
from tensorclass.nn import TensorClassModule, TensorClassSequential, TensorDictModuleBase, dispatch
from tensorclass.typing import Float32


class Image(TensorClass):
    pixels: Float32[Tensor, "3"]
    brightness: Float32[Tensor, ""] | None = None


class Average(TensorDictModuleBase):
    in_keys = [Image.pixels]
    out_keys = [Image.brightness]

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict):
        """Write the mean."""
        return tensordict.set("brightness", tensordict.get("pixels").mean(-1))


def test_typed_batches_pass_through():
    """A typed batch is a container: it goes in and comes out, by position and by name."""
    module = Average()
    for call in (module, lambda batch: module(tensordict=batch)):
        batch = Image(torch.ones(4, 3))
        assert call(batch) is batch
        assert batch.brightness.tolist() == [1, 1, 1, 1]


def test_lazy_stacks_pass_through():
    """So is a lazy stack."""
    stack = lazy_stack([TensorDict(pixels=torch.ones(3)), TensorDict(pixels=torch.zeros(3))])
    assert Average()(stack)["brightness"].tolist() == [1, 0]


def test_references_to_fields_are_keys():
    """`in_keys = [Image.pixels]` is `["pixels"]`."""
    assert (Average.in_keys, Average().out_keys) == (["pixels"], ["brightness"])
    assert Average()(pixels=torch.ones(2, 3)).tolist() == [1, 1]


def test_in_a_typed_pipeline():
    """A module of one's own over keys stands in a typed pipeline: its signature takes what the fields give."""
    pipeline = TensorClassSequential(
        TensorClassModule(Average(), Image.pixels, Image.brightness, update=True), input=Image
    )
    assert pipeline(Image(torch.ones(4, 3))).brightness.tolist() == [1, 1, 1, 1]


def test_what_is_built():
    """A nested container, with the leading dims that all share; each nested one has its own."""
    held = []

    @dispatch(source=["a", ("n", "b"), ("n", "c")], dest=["a"])
    def keep(tensordict):
        held.append(tensordict)
        return tensordict

    keep(torch.zeros(2, 3), torch.zeros(2, 4), n_c=torch.zeros(2, 4, 5))
    assert type(held[0]) is TensorDict
    assert (held[0].batch_size, held[0]["n"].batch_size) == ((2,), (2, 4))
    keep("text", torch.zeros(2, 4))
    assert held[1]["a"] == "text"
    assert held[1].batch_size == (2, 4)


def test_arguments_that_are_no_inputs():
    """Other arguments reach the function; what it does not take is its own error."""

    @dispatch(source=["a"], dest=["a"])
    def scale(tensordict, by=1, *, twice=False):
        return tensordict.set("a", tensordict["a"] * by * (2 if twice else 1))

    assert scale(torch.ones(1), 3, twice=True).item() == 6
    assert scale(a=torch.ones(1), by=4).item() == 4
    with pytest.raises(TypeError, match="unexpected keyword argument 'thrice'"):
        scale(torch.ones(1), thrice=True)


def test_results():
    """One key gives a value, several a tuple, none an empty tuple; an absent one is an error."""

    def make(dest):
        return dispatch(source=["a"], dest=dest)(lambda tensordict: tensordict)

    assert make(["a"])(torch.ones(1)).item() == 1
    assert make(["a", "_", "a"])(torch.ones(1)) == (torch.ones(1), torch.ones(1))
    assert make([])(torch.ones(1)) == ()
    with pytest.raises(MissingKeyError, match="no key `b`"):
        make(["b"])(torch.ones(1))


def test_result_that_is_no_container():
    """The message names the module and what it returned."""

    class Wrong(nn.Module):
        in_keys = ["a"]
        out_keys = ["b"]

        @dispatch
        def forward(self, tensordict):
            return tensordict["a"]

    with pytest.raises(ModuleError, match=r"Wrong.forward returned Tensor; under @dispatch it returns the container"):
        Wrong()(torch.ones(1))


def test_functions_have_no_attributes_with_keys():
    """For a function, the keys are lists."""
    with pytest.raises(ModuleError, match="give them as lists"):
        dispatch(lambda tensordict: tensordict)


def test_the_function_behind_it():
    """Name, docstring and function are kept; the signature says what a call may hold."""
    assert Average.forward.__name__ == "forward"
    assert Average.forward.__doc__ == "Write the mean."
    assert str(inspect.signature(Average.forward)) == "(self, *args, **kwargs)"
    assert list(inspect.signature(Average.forward.__wrapped__).parameters) == ["self", "tensordict"]


def test_defaults():
    """What the options are when nothing is said."""
    assert (dispatch.DEFAULT_SEPARATOR, dispatch.DEFAULT_SOURCE, dispatch.DEFAULT_DEST) == ("_", "in_keys", "out_keys")
    found = dispatch()
    assert (found.separator, found.source, found.dest, found.auto_batch_size) == ("_", "in_keys", "out_keys", True)
    assert dispatch(source="keys").get_source(None, type("M", (), {"keys": ["a"]})()) == ["a"]


def test_keywords_that_are_no_in_keys():
    """Where an in key is missing, the keywords that went to the function instead are named."""

    @dispatch(source=["image", ("state", "x")], dest=["out"])
    def double(tensordict, **options):
        tensordict["out"] = tensordict["image"] * 2
        return tensordict

    assert double(image=torch.ones(1), flip=True).item() == 2
    with pytest.raises(MissingKeyError, match=r"No in keys: 'imgae'; as keywords they are `image`, `state_x`"):
        double(imgae=torch.ones(1))
