"""Programs over modules run the same on both libraries once the import is changed."""

import warnings

import pytest

import tensorclass
import tensorclass.nn
import tensorclass.nn.distributions
from tests.nn._migrating_programs import PROGRAMS, result

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensordict
    import tensordict.nn
    import tensordict.nn.distributions


class _Names:
    """The names of several packages."""

    def __init__(self, *packages):
        self.packages = packages

    def __getattr__(self, name):
        return next(getattr(package, name) for package in self.packages if hasattr(package, name))


OURS = tensorclass, _Names(tensorclass.nn, tensorclass.nn.distributions)
THEIRS = tensordict, _Names(tensordict.nn, tensordict.nn.distributions)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_same_results(name):
    """Values, keys, shapes, names of parameters, all that a program returns."""
    run = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the original
        theirs = result(run, *THEIRS)
    assert result(run, *OURS) == theirs
