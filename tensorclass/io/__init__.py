"""Files: one format that any reader of safetensors files can read. A file is written completely or not at all.

One idea: a container is a set of named tensors and a tree that describes its structure. `_pack` takes a container
apart, `_unpack` puts it together; the modules between them handle only tensors and bytes.

    save: container -> _pack.pack -> _write.write -> file
    load: file -> _read.read (_header.parse, _format.read, _map.mapped) -> _unpack.Unpacker -> container

What users call:

- `_files`: `save` and `load`; checks the arguments of users.
- `_paths`: a path is a file, a folder with `data.safetensors` or an index, or one of these followed by a key.
  `to_write(path, single) -> (file, folder to make)`, `to_read(path) -> (file or index, key)`.
- `_archive`: folders as single files and back; stored bytes are copied unchanged.

Containers and entries:

- `_pack`: `pack(container, allow_pickle) -> Packed(root, classes, items, simple)`, without a copy. `PLAIN` lists the
  classes of tensors that are stored by their values.
- `_unpack`: `Unpacker(...).build(part, key, want)`; `references(part)` gives the stored names below a part of the tree,
  `find(root, key, path)` returns a part of it. `UNTYPED` requests a container without its class.
- `_classes`: `find_class(part)` among imported classes; `typed(cls, container, part, path)` checks it.
- `_values`: Python objects as JSON and back, exactly: `encode`, `decode`, `dumps`, `Unstorable`.
- `_names`: `Names().take(path)` gives stored names, `nested_paths(names)` the key paths in files of other libraries.

Mapped tensors:

- `_mapped_tensor`: `MemoryMappedTensor`; `wrap(tensor, FileMemory)` makes one, `from_handle` is what pickles call.
- `_anchor`: `read_anchor(path, ...)` converts what `tensordict` wrote into our tree; `Unpacker` does the rest.
- `_memmap`: containers of them: `memmap`, `memmap_like`, `load_memmap`, `saved_path`, `consolidated`.
- `_grow`: `make_memmap` adds an entry to a mapped container; `append_memmap` adds rows to a folder.

The file:

- `_write`: `write(path, packed, checksums, sweep)` returns the tensors mapped from the new file; `write_to(target,
  ...)` writes to a `Target` that is open.
- `_read`: `read(path, key, want, mmap=, write=, verify=, allow_pickle=, lenient=)`. Its steps: `read_head(fd, size,
  path) -> Head`, `places_of(header, names, path) -> {name: Extent}`, `tensors_of(head, places, mmap, write,
  verify)`; `find_tensors(path, key, ...)` goes through all files of an index.
- `_index`: the list of the files in a folder; `FolderCommit` renames a new file and writes the index, under a lock.
- `_codecs`: `compressed(packed, codec, level)` and `inflated(...)`, tensor by tensor.
- `_header`: `parse(raw, size, path) -> Header(metadata, tensors, start)` and `encode(metadata, rows)`; `load_json` for
  JSON that is not trusted; `alignment_class`, the order of the payload.
- `_format`: our metadata: pydantic models of what is read (`Metadata`, `NodePart` and the other parts), `dump`,
  `read`, `seal`.
- `_dtypes`: `form_of(dtype, shape)` is the stored form, `shape_of(code, shape, true)` the original one.

Datasets:

- `_manifest`: the list of shards. `_segments`: `Listing(folder)` reads and replaces it, with the segments that it
  names. `_lock`: a lock between processes.
- `_writer`: `DatasetWriter`, rows to shards. `_shards`: files of rows. `_shelf`: `Shelf(shards, how)[i]` opens a shard,
  `gather(rows)` returns rows of several through `_columns`, which copies them by address. `_bad_shards` finds
  those that can't be read. `_dataset`: `TensorClassDataset`.
- `_sampling`: `Order`, the rows of each batch; `Batches`. `_orders`: random orders by position. `_mixed`, `_buckets`:
  other orders. `_loader`: `BatchLoader`, a DataLoader over it. `_training`: the methods of datasets that make them.
- `exchange`: tables, frames, text and live stores of other libraries; its `__init__.py` describes it.
- `_inspect`: lists what a file holds, and verifies it, for the command line. `_progress`: progress bars. `_optional`:
  imports of optional packages.

The system:

- `_atomic`: `replacing(path) -> Target` with `write` and `write_at`; `open_file`, `read_at`, `make_folder`, `reserve`;
  `naming(path)` adds the path to errors. It makes system calls through its module attribute `os`, so tests can inject
  faults.
- `_map`: `map_file(fd, size, path, write) -> buffer`; `mapped` and `in_memory` return the tensor at each `Extent(begin,
  end, dtype, shape)`. No descriptor stays open.
- `_file_kinds`: `naming_reader(path, ...)` adds to the errors of a reader the name of the function that reads the
  path.
- `_parts`: limits how many rows are in memory at a time: `spans`, `blocks`, `parts_of`, `tables_of`.
- `_advice`: hints to the system about maps: `expect_random`, `expect_rows(begins, size)`.
- `_access`: how stores are reached: options, time limits, tries.
- `_remote`: `open_file` of a URL gives a local file with holes, and `fetch(path, fd, ranges)` fills them; `upload`;
  `read_version`, `replace_version`. `_documents`: manifests and shards of a writer, on the disk or in a store.
  `_planned`: what a batch needs of remote shards, requested at once. `_ahead`: batches read ahead.
- `_memory`: tensors as buffers (`buffer_of`) and over buffers (`tensor_over`, `over_address`).
"""

from ._access import remote_access as remote_access
from ._archive import is_memmap_archive as is_memmap_archive
from ._archive import pack_memmap as pack_memmap
from ._archive import refresh_archive_checksums as refresh_archive_checksums
from ._archive import unpack_memmap as unpack_memmap
from ._dataset import TensorClassDataset as TensorClassDataset
from ._files import TensorDictFuture as TensorDictFuture
from ._files import load as load
from ._files import save as save
from ._grow import append_memmap as append_memmap
from ._mapped_tensor import MemoryMappedTensor as MemoryMappedTensor
from ._memmap import from_consolidated as from_consolidated
from ._memmap import load_memmap as load_memmap
from ._memmap import memmap as memmap
from ._sampling import Batches as Batches
from ._writer import DatasetWriter as DatasetWriter
from .exchange import *  # noqa: F403
from .exchange._formats import convert as convert
