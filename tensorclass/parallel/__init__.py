"""Work in many processes: maps over workers, and transfers between ranks.

- `_engines`, `_processes`, `_clusters`, `_choose`: engines that run tasks: threads, processes, Ray, Dask, or an
  instance; `_stream`, how tasks become results in order.
- `_seeds`: random numbers of a task. `_wire`: objects as bytes for another process.
- `_chunks`: `map` and `map_iter` of containers.
- `_datasets`: from dataset to dataset; `_rows`, the work for one part; `_order`, the rows of a part; `_commit`, how
  parts become a dataset.
- `_transfer`, `_collectives`: containers between ranks; `_structure`, what ranks compare first; `_blocks`, `_links`,
  how bytes move.
- `_layout`: the layout of a batch over a device mesh; `_layout_rules`, how placements follow from dims;
  `_layout_table`, what `explain` prints; `_walks`, walks over fields with placements; `_placed`, distributed batches;
  `_agreed`, what ranks compare first; `_sequences`, context parallel attention.
- `_followed`: pipelines with a layout, when they are built; `_bridge`, modules over a part of the mesh, and
  `_followed_parts`, their check. `_losses`: a loss over scores that are split by class.
- `_frames`: datasets of Ray Data, bags of Dask.
- `_share`: shared memory. `_methods`: the functions behind methods of containers and datasets.
"""

from ._clusters import DaskEngine as DaskEngine
from ._clusters import RayEngine as RayEngine
from ._engines import Engine as Engine
from ._engines import ThreadEngine as ThreadEngine
from ._frames import RayBatches as RayBatches
from ._layout import Layout as Layout
from ._layout_rules import LayoutWarning as LayoutWarning
from ._losses import cross_entropy as cross_entropy
from ._processes import ProcessEngine as ProcessEngine
from ._rows import FailedRow as FailedRow
