"""Exchange with other formats: tables, data frames, text, datasets of other libraries, live stores.

One idea: a batch is a set of columns, and every format has its own form of the same few kinds of columns.

- `_columns`: `columns_of(batch)`; a `Column` is a tensor, a ragged tensor, Python values or columns.
- `_batches`: `batch_of(cls, columns, rows)`. Columns are checked against the declaration of a class here, and nowhere
  else.
- `_arrow`: columns as Arrow tables. `_parquet`: files of them, and datasets of this library, in batches.
- `_arrays`: structured arrays of numpy.
- `_text`: CSV and JSON lines. `_frames`: pandas, polars, Hugging Face, MosaicML.
- `_spaces`: classes and the spaces of gymnasium.
- `_persistent`: `PersistentTensorDict`, a container in an HDF5 file or a zarr group.
- `_functions`: the public functions. `_streams`: the methods of datasets. `_formats`: formats by file suffix, and
  `convert` between any two of them.
"""

from ._arrow import from_arrow as from_arrow
from ._arrow import to_arrow as to_arrow
from ._frames import from_hf as from_hf
from ._frames import from_pandas as from_pandas
from ._functions import from_csv as from_csv
from ._functions import from_h5 as from_h5
from ._functions import from_json as from_json
from ._functions import from_parquet as from_parquet
from ._functions import from_safetensors as from_safetensors
from ._functions import from_zarr as from_zarr
from ._functions import to_safetensors as to_safetensors
from ._persistent import PersistentTensorDict as PersistentTensorDict
from ._spaces import from_gymnasium as from_gymnasium
from ._spaces import to_gymnasium as to_gymnasium
