"""Objects that outlive a call: a cache of classes, and a list of all such objects in the package.

The cache holds classes weakly. A class may refer to the classes that it is made of, but they never refer to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin
from weakref import WeakValueDictionary, ref

from .._system import release_in_forks

F = TypeVar("F", bound=Callable[..., Any])


class Classes:
    """A thread-safe cache of classes made from other classes. It forgets a class that nothing else refers to.

    >>> known = Classes()
    >>> made = known.get(("row", int), lambda: type("Row", (), {}))
    >>> known.get(("row", int), lambda: type("Row", (), {})) is made
    True
    """

    def __init__(self) -> None:
        self._made: WeakValueDictionary[Any, Any] = WeakValueDictionary()
        self._publishing = release_in_forks(threading.RLock())  # reentrant: the garbage collector may request a class

    def __len__(self) -> int:
        return len(self._made)

    def get(self, request: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The class of a request.

        Args:
            request: A hashable description. Classes in it are compared by identity and are not kept alive.
            make: Makes the class, without a lock. If two threads do so, both get the first result.
        """
        key = _key_without_classes(request)
        found = self._made.get(key)
        if found is None:
            made = make()
            with self._publishing:
                found = self._made.setdefault(key, made)
        return found


def _key_without_classes(part: Any) -> Any:
    """A part of a request as a key without references to classes."""
    origin = get_origin(part)
    if origin is not None:
        parts = map(_key_without_classes, get_args(part))
        return (Union, frozenset(parts)) if origin in (Union, UnionType) else (origin, *parts)
    if isinstance(part, (tuple, list)):
        return tuple(map(_key_without_classes, part))
    return ref(part) if isinstance(part, type) else part


def constant(function: F) -> F:
    """Let dynamo call a function on constants without tracing it, since it can't trace a weak cache."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # as `assume_constant_result` does
    return function


KEPT = MappingProxyType({
    # classes made of others: weak
    "classes._algebra._MADE": "a class goes with its last user",
    "classes._build._PARAMETRISED": "a class goes with its last user",
    "classes._dataclass._CONVERTED": "a class goes with its last user",
    "nn.distributions._field._DECLARED": "a class goes with its last user",
    "nn.parts._unnamed._UNNAMED": "a class goes with its last user",
    "nn.typed._subsequence._PICKED": "a class goes with its last user",
    "ops._exports._NAMED_TUPLES": "a class goes with its last user",
    # what belongs to an object of the user: weak
    "classes._compile: linecache.cache": "the text of a generated function goes with its code",
    "core._pytree: pytree.register_pytree_node": "goes at the first registration after the class is gone",
    "core._pytree: pytree.register_constant": "one class",
    "core._pytree._GONE": "the classes that went since the last registration",
    "parallel._layout._MESHES": "a mesh goes with its process group",
    "nn.functional._plan._GATES": "a lock goes with its module",
    # one for the process
    "nn.probe._fake: addFilter": "a filter of torch's logger, which is silent about the fake tensors of a check only",
    "nn.probe._fake: Distribution.set_default_validate_args": "put back to what it was before the compiler",
    "cli._pipelines: warnings.simplefilter": "for the time of a command",
    # what users put there, by name
    "_kinds._kind.KINDS": "the kinds of fields, which are the package's own",
    "_system._LOCKS": "the locks of the package; weak",
    "core._timing.timeit._seconds": "one number for each name, until `timeit.erase()`",
    "nn.distributions._extractors._MAPPINGS": "one function for each name that `add_custom_mapping` is given",
    "cli._target: sys.modules": "the file that a command was given; the process ends with the command",
    "store._lost_writes._HOOKED": "the methods that `migration_warnings` watches, until it is turned off",
    "store._lost_writes._SEEN": "the statements of the programs that ran since it was turned on",
    "compat._install: sys.meta_path": "the layer, which a program turns on",
    "compat.__main__: sys.path": "the folder of the program that is run",
    "cli._target: sys.path": "taken out when the file has been imported",
    # made of texts and numbers: bounded
    "_dims._grammar.parse_dims": "the dims of 4096 texts",
    "_schema._dtypes._fitting_tensors": "one type for each of 4096 declarations",
    "_schema._json._lists_of": "one class for each kind of number and rank",
    "classes._facts._attributes": "one set of names for each base of typed classes",
    "classes._build.member_names": "one set of names",
    "typecheck.plugin._facts._read": "the fields of 4096 classes, in the process of mypy",
    "typecheck.plugin._plugin._digest": "one text, in the process of mypy",
    "typecheck.plugin._function_results._rows_in": "the results of 256 files, in the process of mypy",
    "typecheck.plugin._node_parts._PARTS": "one entry for each kind of node, in the process of mypy",
    "typecheck.plugin._source._last": "one file, in the process of mypy",
    "cli._migrate.rules": "the rules of one page, in the process of the command",
    "io.exchange._store_nodes._h5py": "one module",
    "io.exchange._far_groups._repeating_store": "one class",
    # for good: classes and functions of the package itself
    "classes._meta: copyreg.pickle": "the metaclass",
    "_schema._dtypes: copyreg.pickle": "the metaclass of types in annotations",
    "core._exported: pytree.register_pytree_node": "one class",
    "store.entries._unbatched: pytree.register_pytree_node": "one class",
    "core._mapped: pytree.register_pytree_node": "the classes of the package that stand in for tensors",
    "store._fitting._IN_FILES": "containers that are mapped from files; weak values",
    "io._memmap._EMPTY": "where mapped containers without tensors lie; weak values",
    "io._mapped_tensor._MAPS": "maps of files that handles share; weak values",
    "io._lock._HELD": "the files that this process has locked, until they are let go",
    "_system.libc": "the C library",
    "parallel._seeds._torch_seeder": "how torch seeds its generators",
    "io._remote._OPEN": "remote files; weak values",
    "io._remote._RECENT": "sixteen remote files",
    "io._access._trace": "one check of the answers of http servers",
    "parallel._clusters._JOBS": "one map, in a worker of Ray or Dask",
    "parallel._clusters._UNTIL": "the running tasks with a limit, in a worker of Ray or Dask",
    "parallel._stream._RUNNING": "the ids of engines while they run a map",
    "parallel._structure._LAYOUTS": "the layouts of 256 structures, which hold names, dtypes and shapes",
    "parallel._wire._taking": "picklers of four kinds, which hold nothing",
    "parallel._transfer._KNOWN": "what the ranks of a process group have told each other; weak keys",
    "parallel._transfer._POSTED": "transfers that a thread will end, until it has",
    "parallel._transfer._LAST": "transfers that are awaited; weak values",
    "core._pytree: torch.serialization.add_safe_globals": "what `trust_for_loading` marks",
    "store._bridges._ROOMS": "one function of the package",
    "store.lazy._stack: pytree.register_pytree_node": "one class",
    "store.entries._nodes: pytree.register_pytree_node": "two classes",
    "store.entries._ragged: pytree.register_pytree_node": "one class",
})  # fmt: skip
"""All objects of the package that outlive a call, and when they are freed; `tests/test_lifetimes.py` finds others."""
