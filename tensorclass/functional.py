"""Functions over containers, under the module of `tensordict` that has them."""

from . import _deferred
from ._api import collate as collate
from ._api import dense_stack_tds as dense_stack_tds
from ._api import group_by as group_by
from ._api import make_tensordict as make_tensordict
from ._api import merge_tensordicts as merge_tensordicts
from ._api import pad as pad
from ._api import pad_sequence as pad_sequence
from ._api import unpad_sequence as unpad_sequence

_deferred.find_names_elsewhere(globals())
