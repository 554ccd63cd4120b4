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
- `_functions`: the public functions, and the methods of datasets. `_formats`: formats by file suffix, and `convert`
  between any two of them.

A new format is a file with its reader and writer here, a row of `_file_kinds.FILE_KINDS`, a function in `_functions`,
and the methods of containers in `store/_tables.py`. Exports, `convert` and the commands follow.
"""

from ._functions import *  # noqa: F403
