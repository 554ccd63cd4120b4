"""What the methods of containers and datasets call."""

from ._chunks import iterate_chunks as iterate_chunks
from ._chunks import map_chunks as map_chunks
from ._collectives import all_gather as all_gather
from ._collectives import all_reduce as all_reduce
from ._collectives import broadcast as broadcast
from ._collectives import from_remote_init as from_remote_init
from ._collectives import gather_and_stack as gather_and_stack
from ._collectives import init_remote as init_remote
from ._collectives import reduce as reduce
from ._collectives import scatter as scatter
from ._datasets import filter_rows as filter_rows
from ._datasets import group_rows_by as group_rows_by
from ._datasets import map_rows as map_rows
from ._datasets import repartition_rows as repartition_rows
from ._datasets import sample_rows as sample_rows
from ._datasets import shuffle_rows as shuffle_rows
from ._datasets import sort_rows as sort_rows
from ._share import is_shared as is_shared
from ._share import share as share
from ._transfer import irecv as irecv
from ._transfer import isend as isend
from ._transfer import piped as piped
from ._transfer import recv as recv
from ._transfer import send as send
