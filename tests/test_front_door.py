"""The front door: imports of programs for `tensordict` work with the name changed; no submodule hides a name."""

from __future__ import annotations

import copy
import importlib.metadata
import importlib.util
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys

import pytest
import tensordict
import torch

import tensorclass
from tests._sources import ROOT

LATER = {
    "tensordict.prototype", "tensordict.prototype.fx", "tensordict.store", "tensordict.tabular", "tensordict.testing",
}  # fmt: skip
"""Modules of files, servers and graphs, which are not ported; docs/migrating.md lists them."""
EMPTY = {"tensordict.nn.distributions.utils"}  # without public names
PACKAGES = [importlib.import_module(name) for name in ("tensordict", "tensordict.nn", "tensordict.nn.distributions")]
MODULES = [
    f"{package.__name__}.{module.name}"
    for package in PACKAGES
    for module in pkgutil.iter_modules(package.__path__)
    if not module.name.startswith("_") and f"{package.__name__}.{module.name}" not in LATER | EMPTY
]
PAGE = (ROOT / "docs/migrating.md").read_text("utf-8")


def named_as_absent() -> set[str]:
    """The names in the page's section of what is not there."""
    section = PAGE.partition("\n## Not there\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([\w.]+)`", section))


def public(module: str) -> list[str]:
    """What a module of the anchor says is public; all names of the package itself."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) if module != "tensordict" else None
    return [name for name in (dir(found) if names is None else names) if not name.startswith("_")]


@pytest.mark.parametrize("module", ["tensordict", *MODULES])
def test_every_public_name_is_here(module):
    """Under the module that has it there, or the page of differences lists it; what is listed is not here."""
    ours = importlib.import_module(module.replace("tensordict", "tensorclass", 1))
    absent = named_as_absent()
    missing = [name for name in public(module) if not hasattr(ours, name) and name not in absent]
    assert missing == []
    assert [name for name in public(module) if hasattr(ours, name) and name in absent] == []


def test_modules_that_are_left_out_are_listed():
    """The page lists the modules, and none of them answers with something else."""
    names = {name.removeprefix("tensordict.") for name in LATER}
    others = {"store", "testing"}  # they are something else here
    assert names - others - {"prototype.fx"} <= named_as_absent()
    assert {name for name in names if "." not in name and importlib.util.find_spec(f"tensorclass.{name}")} == others


REEXPORTED = {"T", "TYPE_CHECKING", "ABC"}
"""What modules of the anchor define for their own annotations."""


def defined(module: str) -> list[str]:
    """The public names that a module of the anchor itself defines, also without `__all__`."""
    found = importlib.import_module(module)
    return [
        name
        for name in dir(found)
        if not name.startswith("_")
        and name not in REEXPORTED
        and getattr(getattr(found, name), "__module__", None) == module
    ]


INNER = {
    "BEST_ATTEMPT_INPLACE": "the default of an internal argument",
    "set_tensor": "a step of the swap of parameters",
    "set_tensor_dict": "a step of the swap of parameters",
    **dict.fromkeys(
        ("InputClass", "InputTensorClass", "OutputClass", "OutputTensorClass"), "type variables of a signature"
    ),
}
"""Names without a documented use, with the reason."""


@pytest.mark.parametrize("module", MODULES)
def test_every_defined_name_is_here(module):
    """A public name stands under the module that defines it there; the exceptions have a reason."""
    ours = importlib.import_module(module.replace("tensordict", "tensorclass", 1))
    absent = named_as_absent() | set(INNER)
    assert [name for name in defined(module) if not hasattr(ours, name) and name not in absent] == []


OF_OTHERS = {
    **dict.fromkeys(
        ("deprecated", "deprecated_attributes", "deprecation_message", "warn_deprecated", "warn_deprecated_env_var"),
        "marks what will go",
    ),
    "T": "a type variable",
    "convert_ellipsis_to_idx": "a step of indexing",
    "is_dataclass": "that of `dataclasses`",
    **INNER,
}
"""Names that a module of the anchor imports for its own use, with the reason that no module here has them."""


@pytest.mark.parametrize("module", ["tensordict", *MODULES])
def test_every_name_in_dir_is_here(module):
    """Whatever of the anchor a module has there, from any of its modules, can be imported from the module here."""
    theirs, ours = importlib.import_module(module), importlib.import_module(module.replace("dict", "class", 1))
    own = [
        name
        for name in dir(theirs)
        if name[0] != "_" and str(getattr(getattr(theirs, name), "__module__", "")).startswith("tensordict")
    ]
    absent = named_as_absent() | set(OF_OTHERS)
    assert [name for name in own if not hasattr(ours, name) and name not in absent] == AT_THE_ROOM.get(module, [])


AT_THE_ROOM = {"tensordict.tensorclass": ["NO_DEFAULT"]}
"""The module is the decorator here; the name is in `base`."""


def test_a_name_of_no_module_is_an_import_error():
    """A module that finds names of others finds nothing else, and no module of the standard library."""
    for name in ("TensorDictModul", "_api", "sys", "nn"):
        with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
            exec(f"from tensorclass.functional import {name}")


WHOLE = {
    **dict.fromkeys(("MetaData", "NonTensorData", "NonTensorDataBase", "NonTensorStack"), "an entry, no container"),
    "TensorAttrs": "a plain dataclass",
}
"""Classes that are another kind of thing here, as the page says."""
MEMBERS = {
    "to_store": "writes to a server, of which there are none",
    "parent_shape": "what the tensor was before it was indexed is not kept",
    "clone": "of `set_printoptions`: options have no copy to enter again",
}
"""Public members that no class here has, with the reason."""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_member_in_dir_is_here(package):
    """Each public member of each public class of the anchor is a member here, or a table has the reason."""
    ours = importlib.import_module(package.__name__.replace("dict", "class", 1))
    absent, missing, classes = named_as_absent(), set(), 0
    for name in dir(package):
        kind = getattr(package, name)
        if not isinstance(kind, type) or name[0] == "_" or name in WHOLE or name in absent:
            continue
        if kind.__module__.startswith("tensordict"):
            classes += 1
            missing |= {key for key in dir(kind) if key[0] != "_" and not hasattr(getattr(ours, name), key)}
    assert classes > 5
    assert missing <= set(MEMBERS)
    assert package is not tensordict or missing == set(MEMBERS)


def test_names_of_servers_are_refused_with_the_reason():
    """What `tensordict.store` has is an ImportError that says what to use; other names are as always."""
    for name in public("tensordict.store"):
        with pytest.raises(ImportError, match=rf"`{name}`.*memmap.*migrating"):
            exec(f"from tensorclass.store import {name}")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from tensorclass.store import TensorDicts")


ALIASES = ["NestedKey", "DeviceType", "IndexType"]


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_work_at_run_time(alias):
    """Public aliases are types: in unions, in `isinstance`, in annotations of fields."""
    kind = getattr(tensorclass, alias)
    assert not isinstance(kind, str)
    assert isinstance("a", kind | None)
    assert isinstance(None, kind | None)
    assert isinstance(("a", "b"), kind) == (alias != "DeviceType")
    assert not isinstance(1.5, kind)


def test_all_aliases_are_tested():
    """No public name is an annotation in quotes."""
    modules = ["tensorclass", "tensorclass.nn", "tensorclass.utils", "tensorclass.base", "tensorclass.typing"]
    found = [importlib.import_module(name) for name in modules]
    texts = {name for module in found for name in dir(module) if name[0] != "_" and type(getattr(module, name)) is str}
    assert texts == {"KEY_SEPARATOR"}


def test_a_key_as_a_field():
    """A field may be declared as a key, or as a key or None."""

    @tensorclass.tensorclass
    class Where:
        key: tensorclass.NestedKey
        other: tensorclass.NestedKey | None = None

    assert Where(key=("a", ("b", "c")), other="x").key == ("a", ("b", "c"))
    with pytest.raises(TypeError, match="NestedKey"):
        Where(key=1)
    assert [isinstance(key, tensorclass.NestedKey) for key in ((), ("a", 1), ["a"], "a")] == [False] * 3 + [True]


@pytest.mark.slow
def test_no_submodule_hides_a_public_name():
    """Importing every module leaves every public name what it was."""
    program = """
import importlib, pkgutil, tensorclass, types
before = {name: getattr(tensorclass, name) for name in dir(tensorclass)}
import tensorclass.nn
inner = {name: getattr(tensorclass.nn, name) for name in dir(tensorclass.nn)}
for module in pkgutil.walk_packages(tensorclass.__path__, "tensorclass."):
    if "__main__" not in module.name and "mypy" not in module.name and "_plugin" not in module.name:
        importlib.import_module(module.name)
import tensorclass.tensorclass
assert {name: getattr(tensorclass, name) for name in before} == before
assert {name: getattr(tensorclass.nn, name) for name in inner} == inner
assert not isinstance(before["tensorclass"], types.ModuleType), before["tensorclass"]
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


IMPORTS = {
    "decorator, then package": "from tensorclass import tensorclass\nimport tensorclass",
    "package, then decorator": "import tensorclass\nfrom tensorclass import tensorclass",
    "decorator, then module": "from tensorclass import tensorclass\nimport tensorclass.nn",
    "module, then decorator": "import tensorclass.nn\nfrom tensorclass import tensorclass",
    "module of that name": "import tensorclass.tensorclass\nfrom tensorclass.tensorclass import tensorclass",
    "module of that name under another": "import tensorclass.tensorclass as tensorclass",
    "decorator of that module, then package": "from tensorclass.tensorclass import tensorclass\nimport tensorclass",
}


USES = """
import tensorclass.utils as utils
@tensorclass
class A:
    x: int
@tensorclass(frozen=True)
class B:
    x: int
@tensorclass.tensorclass
class C:
    x: int
assert A(1).x == B(1).x == C(1).x == 1
assert tensorclass.TensorDict.__name__ == "TensorDict" and tensorclass.stack
assert tensorclass.utils is utils and tensorclass.utils.unravel_key
import tensorclass.nn as nn
assert tensorclass.nn is nn and nn.TensorDictModule
"""
ASKED = """
import sys
import tensorclass as tc
assert "torch" not in sys.modules and tc.__version__
tc.TensorDict
assert {"tensorclass.nn", "tensorclass.io"}.isdisjoint(sys.modules)
for name in ("base", "errors", "functional", "nn", "testing", "typing", "utils"):
    assert name in dir(tc) and getattr(tc, name).__name__ == "tensorclass." + name
assert tc.as_tensordict_module is tc.nn.as_tensordict_module and "as_tensordict_module" in dir(tc)
assert tc.nn.distributions.continuous.Delta is tc.nn.Delta
assert not {"sys", "Any", "import_module", "TYPE_CHECKING"} & set(dir(tc))
from tensorclass import *
assert TensorDict is tc.TensorDict and as_tensordict_module
"""


FIRST = """
import sys, torch
before = {*sys.modules}
from tensorclass import TensorDict, tensorclass
from tensorclass.typing import Float32

@tensorclass
class Digits:
    image: Float32[torch.Tensor, "8 8"]
    name: str = "scan"
    mask: torch.Tensor | None = None
    number: int | None = None

digits = Digits(image=torch.zeros(3, 8, 8), batch_size=[3])
assert torch.stack([digits[0], digits[1]]).name == "scan" and "Digits" in repr(digits)
loaded = {*sys.modules} - before
rooms = {name.split(".")[1] for name in loaded if name.startswith("tensorclass.")}
print(*sorted(rooms), "|", *sorted(name for name in loaded if name.partition(".")[0] in {"annotated_types", "pydantic",
      "pydantic_core", "typing_inspection", "IPython", "hypothesis", "mypy", "tensordict"}))
"""


@pytest.mark.slow
def test_what_a_first_class_loads():
    """The rooms up to the classes. Files, pipelines and pydantic wait for their first use."""
    done = subprocess.run([sys.executable, "-c", FIRST], cwd=ROOT, check=True, capture_output=True, text=True)
    rooms = (
        "_api _budget _config _content _deferred _dims _flags _kinds _operations _options _places _schema _system "
        "classes core errors memmap ops store tensorclass typing"
    )
    assert done.stdout.split() == [*rooms.split(), "|", "annotated_types"]


def test_the_decorator_is_one_object():
    """It has the names of the package as the package has them, pickles as a function does, and shows the function."""
    found = tensorclass.tensorclass
    assert pickle.loads(pickle.dumps(found)) is copy.deepcopy(found) is found
    assert dir(found) == dir(tensorclass)
    assert [name for name in tensorclass.__all__ if getattr(found, name) is not getattr(tensorclass, name)] == []
    assert list(inspect.signature(found).parameters) == ["cls", "options"]
    assert (found.__doc__, found.__name__) == (found.__wrapped__.__doc__, "tensorclass")
    with pytest.raises(AttributeError, match="did you mean `stack`"):
        found.stak


def test_the_decorator_in_compiled_code():
    """A name of the package is read from it without a break."""
    read = torch.compile(lambda x: tensorclass.tensorclass.stack([x, x]), fullgraph=True, backend="eager")
    assert read(tensorclass.TensorDict(a=torch.zeros(3))).batch_size == (2,)


@pytest.mark.parametrize("head", IMPORTS.values(), ids=IMPORTS)
def test_package_and_decorator_share_a_name(head):
    """Whichever import comes last, the name decorates, has the public names, and gives the decorator and `nn`."""
    exec(head + USES, {"__name__": __name__})


@pytest.mark.slow
@pytest.mark.parametrize("program", [*(head + USES for head in IMPORTS.values()), ASKED], ids=[*IMPORTS, "attributes"])
def test_first_imports_of_a_process(program):
    """The same where nothing is loaded yet; the package by itself loads neither torch nor its submodules."""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_unknown_names_have_a_nearest_one():
    """Submodules are suggested too."""
    with pytest.raises(AttributeError, match="did you mean `functional`"):
        tensorclass.function


def test_one_version():
    """`__version__` is where the build reads it."""
    assert tensorclass.__version__ == importlib.metadata.version("tensorclass")


@pytest.mark.parametrize(
    "owner", ["TensorDict", "TensorDictBase", "LazyStackedTensorDict", "TensorDictParams", "NonTensorStack"]
)
def test_subscripts_in_annotations(owner):
    """`TensorDict[str, Tensor]` in an annotation that is evaluated, as the anchor takes it."""
    alias, theirs = getattr(tensorclass, owner)[str], getattr(tensordict, owner)[str]
    assert (alias.__origin__, alias.__args__) == (getattr(tensorclass, owner), theirs.__args__)
    if owner == "TensorDict":
        assert alias(a=torch.ones(2))["a"].sum() == 2


CHECKED = """
import tensorclass as tc
from tensorclass.base import TensorDictBase
from tensorclass.functional import pad
from tensorclass.nn.common import TensorDictModule
from tensorclass.nn.distributions.continuous import Delta
from tensorclass.nn.distributions.discrete import OneHotCategorical
from tensorclass.nn.probabilistic import InteractionType
from tensorclass.nn.sequence import TensorDictSequential
from tensorclass.nn.utils import biased_softplus
from tensorclass.tensorclass import NonTensorData, TensorClass
from tensorclass.utils import unravel_key

reveal_type(tc.nn.TensorDictModule)
reveal_type(tc.as_tensordict_module)
reveal_type(tc.__version__)
reveal_type(tc.utils.unravel_key)
reveal_type(tc.errors.SchemaError)
reveal_type(TensorClass)
reveal_type(Delta)
"""


def errors_and_types(output: str) -> tuple[list[str], list[str]]:
    """The lines of errors, and what a checker prints of types, both ways."""
    lines = output.splitlines()
    return [s for s in lines if ": error: " in s or " - error: " in s], [
        s for s in lines if "Type of" in s or "type is" in s
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", [["mypy", "--strict"], ["pyright"]], ids=lambda command: command[0])
def test_checkers_see_the_modules(command, tmp_path):
    """Nothing is an error and nothing is unknown."""
    file = tmp_path / "program.py"
    file.write_text(CHECKED, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    errors, types = errors_and_types(done.stdout)
    assert errors == []
    assert len(types) == CHECKED.count("reveal_type"), done.stdout
    assert [line for line in types if line.endswith((' is "Any"', ' is "Unknown"'))] == []
