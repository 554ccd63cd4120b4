"""The base class of containers and the constructors, under the module of `tensordict` that has them."""

from . import _deferred
from ._api import NestedKey as NestedKey
from ._api import TensorCollection as TensorCollection
from ._api import TensorDictBase as TensorDictBase
from ._api import from_any as from_any
from ._api import from_dict as from_dict
from ._api import from_namedtuple as from_namedtuple
from ._api import from_struct_array as from_struct_array
from ._api import from_tuple as from_tuple
from ._api import get_defaults_to_none as get_defaults_to_none
from ._api import is_tensor_collection as is_tensor_collection
from ._api import set_get_defaults_to_none as set_get_defaults_to_none
from ._api_files import from_csv as from_csv
from ._api_files import from_h5 as from_h5
from ._api_files import from_json as from_json
from ._api_files import from_pandas as from_pandas
from ._api_files import from_parquet as from_parquet
from ._api_files import from_zarr as from_zarr
from .ops import NO_DEFAULT as NO_DEFAULT

_deferred.find_names_elsewhere(globals())
