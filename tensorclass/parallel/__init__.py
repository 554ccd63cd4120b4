"""Many workers and many ranks.

- `_engines`, `_processes`, `_clusters`, `_choose`: what runs tasks: threads, processes, Ray, Dask, or an instance.
- `_seeds`: random numbers of a task. `_wire`: objects on their way to another process.
- `_chunks`: `map` and `map_iter` of containers.
- `_datasets`: from dataset to dataset; `_rows`, what a worker does for a part of it; `_order`, which rows a part has;
  `_commit`, how parts become a dataset.
- `_transfer`, `_collectives`: containers between ranks; `_structure`, what they compare; `_blocks`, `_links`, how
  bytes move.
- `_frames`: datasets of Ray Data, bags of Dask.
- `_share`: shared memory. `_methods`: what methods of containers and datasets call.
"""

from ._clusters import DaskEngine as DaskEngine
from ._clusters import RayEngine as RayEngine
from ._engines import Engine as Engine
from ._engines import ThreadEngine as ThreadEngine
from ._frames import RayBatches as RayBatches
from ._processes import ProcessEngine as ProcessEngine
from ._rows import FailedRow as FailedRow
