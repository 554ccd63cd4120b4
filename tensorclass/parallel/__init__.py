"""Many workers and many ranks.

- `_engines`, `_processes`, `_clusters`, `_choose`: what runs tasks: threads, processes, Ray, Dask, or an instance.
- `_seeds`: random numbers of a task. `_wire`: objects on their way to another process.
- `_chunks`: `map` and `map_iter` of containers.
- `_share`: shared memory.
"""

from ._clusters import DaskEngine as DaskEngine
from ._clusters import RayEngine as RayEngine
from ._engines import Engine as Engine
from ._engines import ThreadEngine as ThreadEngine
from ._processes import ProcessEngine as ProcessEngine
