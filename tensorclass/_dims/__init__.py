"""Dims and dtypes without torch: the grammar of dims, sizes, bindings, and the names of dtype families.

The mypy plugin and the command line read declarations with this package only, so nothing here imports torch.
"""

from ._bindings import Bindings as Bindings
from ._families import FAMILY_DTYPES as FAMILY_DTYPES
from ._grammar import AnyDim as AnyDim
from ._grammar import Dim as Dim
from ._grammar import Dims as Dims
from ._grammar import Token as Token
from ._grammar import Variadic as Variadic
from ._grammar import parse_dims as parse_dims
from ._identifiers import why_no_name as why_no_name
from ._polynomial import FloorDiv as FloorDiv
from ._polynomial import Polynomial as Polynomial
from ._within import DimMap as DimMap
from ._within import dims_within as dims_within
