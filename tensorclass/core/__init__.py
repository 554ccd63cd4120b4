"""The contract of every container: primitives, keys, batch and device rules, locking, pytree, repr.

One idea: a container is a list of leaves in order plus a way to build a twin of itself around new leaves.
"""

from ._base import BATCHED as BATCHED
from ._base import STORAGE as STORAGE
from ._base import VALUES as VALUES
from ._base import VIEWS as VIEWS
from ._base import TensorCollection as TensorCollection
from ._base import is_typed as is_typed
from ._base import store_of as store_of
from ._base import unstacked as unstacked
from ._batch import as_batch_size as as_batch_size
from ._batch import batch_dim as batch_dim
from ._batch import batch_dims as batch_dims
from ._directory import print_directory_tree as print_directory_tree
from ._entry import Entry as Entry
from ._entry import TensorEntry as TensorEntry
from ._entry import are_objects as are_objects
from ._entry import batch_shape as batch_shape
from ._entry import field_value as field_value
from ._entry import has_lengths as has_lengths
from ._entry import is_shared as is_shared
from ._keys import KEY_SEPARATOR as KEY_SEPARATOR
from ._keys import Key as Key
from ._keys import NestedKey as NestedKey
from ._keys import Path as Path
from ._keys import is_key as is_key
from ._keys import is_seq_of_nested_key as is_seq_of_nested_key
from ._keys import join_path as join_path
from ._keys import unravel_key as unravel_key
from ._keys import unravel_key_list as unravel_key_list
from ._keys import unravel_key_to_tuple as unravel_key_to_tuple
from ._keys import unravel_keys as unravel_keys
from ._timing import logger as logger
from ._timing import timeit as timeit
from ._views import default_is_leaf as default_is_leaf
from ._views import is_leaf_nontensor as is_leaf_nontensor
