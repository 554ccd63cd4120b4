"""The programs of tests/typing with their classes behind stubs, and torch's overlay, under the checkers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorclass.cli import main
from tests.typecheck._run import run
from tests.typing._notation import Mark, Program, programs
from tests.typing._split import split

pytestmark = pytest.mark.slow
KNOWN_ALARMS = {
    "assert_type(torch.split(batch, 2), tuple[Digits, ...])": "torch declares it in a module without a stub",
    "return Inner(torch.zeros(3), batch_size=[3])[0].numel()": "the class is local to a function",
}
PLUGIN_ALONE = ("right_made", "right_results")
"""Right with the plugin: other checkers do not know the classes."""
PYRIGHT_ALARM = "assert_type(torch.split(batch, 2), tuple[Digits, ...])"
"""A stub of the module that declares it would hide the rest of torch from pyright."""
LOST = ("torch.stack([batch, inputs])", "c.score = c.chosen()", "c.ids = c.summed", "b.corners = Box.measure(")
"""With the overlay the stack has what two classes have in common, so it is no error. The plugin reads the annotated
result of a method in the file that defines the method only."""
OVERLAY = """\
import torch
from typing import Any
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from typing_extensions import assert_type
from tensorclass import TensorClass
from tensorclass.typing import Float32


class Batch(TensorClass):
    x: Float32[Tensor, "3"]


class Rows(Dataset[Batch]):
    def __getitem__(self, index: Any) -> Batch:  # pyrefly
        raise IndexError(index)


class Loader(DataLoader[Batch]):
    pass


def images(rows: list[Batch]) -> Tensor:
    return rows[0].x


b, t = Batch(torch.zeros(4, 3)), torch.zeros(3)
assert_type(torch.stack([b, b]), Batch)
assert_type(torch.cat((b, b), 0), Batch)
assert_type(torch.clone(b), Batch)
assert_type(torch.equal(b, b), bool)
assert_type(torch.zeros_like(b), Batch)
assert_type(torch.add(b, 1), Batch)
assert_type(torch.unbind(b), tuple[Batch, ...])
assert_type(torch.where(b.x > 0, b, 0), Batch)
assert_type(torch.split(b, 2), tuple[Batch, ...])  # pyright
assert_type(torch.functional.split(b, [1, 3]), tuple[Batch, ...])  # pyright
assert_type(torch.atleast_2d(b), Batch)
assert_type(torch.stack([t, t]), Tensor)
assert_type(torch.cat((t, t)), Tensor)
assert_type(torch.stack([nn.Parameter(t), t]), Tensor)
assert_type(torch.clone(t), Tensor)
assert_type(torch.add(t, 1), Tensor)
assert_type(torch.where(t > 0, t, 0.0), Tensor)
assert_type(torch.split(t, 2), tuple[Tensor, ...])
assert_type(torch.meshgrid(t, t), tuple[Tensor, ...])
assert_type(torch.cdist(t, t), Tensor)
assert_type(torch.relu(t), Tensor)
assert_type(torch.einsum("i,i->", t, t), Tensor)
values, indices = torch.max(t, 0)
for part in DataLoader(b, batch_size=2, shuffle=True, num_workers=0):
    assert_type(part, Batch)
for number, part in enumerate(DataLoader(Rows(), 2, drop_last=True)):
    assert_type(part, Batch)  # ty
loader: DataLoader[Batch] = DataLoader(b)
assert_type(next(iter(loader)), Batch)  # ty
for part in DataLoader(b, collate_fn=images):
    assert_type(part, Any)
for part in DataLoader(TensorDataset(t), batch_size=3):
    assert_type(part, Any)
for part in Loader(b, 2):
    assert_type(part.x, Tensor)
DataLoader(3)  # wrong
DataLoader(b, batchsize=3)  # wrong
torch.stack([t, 3])  # wrong
torch.cat(t)  # wrong
torch.stack([b, t])  # wrong
torch.clone("a")  # wrong
"""


REPLACED = """\
from typing import TypeVar
import torch
from typing_extensions import assert_type
from tensorclass import TensorClass
from batches import Inputs


class Child(Inputs):
    more: torch.Tensor


class Late(Child):
    pass


D = TypeVar("D", bound=Inputs)
x = torch.zeros(3)


def kept(inputs: D, child: Child, late: Late, some: TensorClass) -> D:
    assert_type(child.replace(more=x, image=x), Child)
    assert_type(late.replace(more=x), Late)
    some.replace(more=x)
    assert_type([one.replace(image=x) for one in [child, child]], list[Child])
    return inputs.replace(image=x)


def first(inputs: Inputs) -> Inputs:
    assert_type(inputs.replace({"image": x}).replace(), Inputs)
    inputs.replace(more=x)  # wrong
    inputs.replace(image="one")  # wrong
    return inputs.replace(image=x)
"""


STRICT = """\
import torch
from torch import Tensor
from tensorclass import PerElement, produced, tensorclass
from tensorclass.typing import Float32


@tensorclass
class User:
    age: Float32[Tensor, ""]
    name: PerElement[str]
    height: Float32[Tensor, ""] | None = None


@tensorclass
class Child(User):
    size_: Float32[Tensor, ""] | None = None


@tensorclass
class Scan:
    image: Float32[Tensor, "3"]
    path: str = ""


@tensorclass
class Visit:
    user: User
    cost: Float32[Tensor, ""]


@tensorclass
class State:
    x: Float32[Tensor, "3"]
    hidden: Float32[Tensor, "3"] = produced()
    sample: PerElement[str]
"""
USED = """\
from torch import Tensor, nn
from typing_extensions import assert_type
from tensorclass import TensorClass, merge, omit, partial, pick
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from visits import Child, Scan, State, User, Visit

encode = TensorClassModule(nn.Identity(), in_fields=State.x, out_fields=State.hidden)
decode = TensorClassModule(nn.Identity(), in_fields=State.hidden, out_fields=State.hidden, update=True)


def double(x: Tensor) -> Tensor:
    return 2 * x


def both(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def pair(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, 2 * x


layers = {"one": nn.Identity(), "two": nn.Tanh()}
direct = TensorClassSequential[State, Scan](
    one=stage(double, State.x, out=State.hidden), two=stage(lambda x: x, out=Scan.image)
)
stage(both, State.x, Scan.image, out=State.hidden, update=True)
stage(both, x=State.x, y=Scan.image, out=State.hidden)
stage(pair, State.x, out=(State.hidden, Scan.image))
stage(pair, State.x, out=(State.hidden, None))
stage(layers["one"], State.x, out=State.hidden)
stage(double, stage(double, State.x), out=State.hidden)
stage(lambda a, b, c, d, e: a, *([State.x] * 5), out=State.hidden)
stage(both, State.x, out=State.hidden)  # wrong
stage(double, State.x, Scan.image, out=State.hidden)  # wrong
stage(double, State.z, out=State.hidden)  # wrong


def right(user: User, visit: Visit, scan: Scan, child: Child) -> list[str]:
    assert_type(user.sort_by("age", User.name, User.height, descending=True), User)
    print(user.pick(User.height, User.name), scan.pick(Scan.path, "image"), scan.sort_by(Scan.image, "image"))
    assert_type(visit.sort_by(("user", "age")).unique_by("cost", keep="last"), Visit)
    print(visit.group_by("cost"), user.pick("age"), visit.pick("user.age"), user.pick(User).name)
    print(visit.pick("user", ("user", "name"), Visit.user, Visit.user.age, "cost").batch_size)
    visit.update({"cost": visit.cost}).update(visit[:]).update(visit.to_tensordict())
    child.update(user)
    user.update(child)
    assert_type(user + user * 2 - 1 == user, User)
    some: type[TensorClass] = Scan
    print(merge(User, Scan), merge(User, Scan, State), pick(Visit, "cost"), omit(User, User.age), partial(some))
    print(TensorClassSequential(encode, decode, input=State), {name: 1 for name in user.keys()})
    assert_type({name: 1 for name, value in user.items()}, dict[str, int])
    assert_type({name: 1 for name, value in user.items(True)}, dict[str | tuple[str, ...], int])
    return user.name.tolist()


def wrong(user: User, visit: Visit, scan: Scan) -> None:
    user.sort_by("agee")  # wrong
    visit.group_by(("user", "agee"))  # wrong
    visit.unique_by("price")  # wrong
    user.pick("age", "title")  # wrong
    print(user + visit)  # wrong
    print(user == visit, 2)  # wrong
    print(user < visit)  # wrong
    user.update(visit)  # wrong
    user.update(3)  # wrong
    visit.update_(scan)  # wrong
    visit.pick("user", "price")  # wrong
    visit.pick("user.agee")  # wrong
    visit.apply(lambda x, y: x, 3)  # wrong
    merge(User, dict)  # wrong
    merge(User, "Scan")  # wrong
    pick(3, "age")  # wrong
    omit(user, "age")  # wrong
    partial(int)  # wrong
    user.pick(int)  # wrong
    user.merge(visit, dict)  # wrong
    user.extend(dict)  # wrong
    user.extend({"cost": 3})  # wrong
    TensorClassSequential(decode, encode, input=State)  # wrong
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with torch's overlay."""
    found = tmp_path_factory.mktemp("stubbed")
    assert main(["stubs", "--torch", "--out", str(found)]) == 0
    return found


@pytest.fixture(scope="module")
def split_programs(folder: Path) -> dict[str, Program]:
    """The programs with their classes in modules of their own, behind stubs."""
    return {path.stem: program for path, program in split(programs("right", "wrong"), folder).items()}


@pytest.mark.parametrize("checker", ["mypy", "pyright", "ty", "pyrefly"])
def test_overlay(folder: Path, checker: str) -> None:
    """Torch's functions give the class of a container, and say of tensors what they said before."""
    (folder / "overlay_program.py").write_text(OVERLAY, "utf-8")
    marks = {number: line.partition("  # ")[2].split() for number, line in enumerate(OVERLAY.splitlines(), 1)}
    wrong = {number for number, mark in marks.items() if mark and (mark == ["wrong"] or checker in mark)}
    found = {line for line in run(checker, folder, ["overlay_program"])["overlay_program"] if line != 0}
    assert found == wrong


@pytest.mark.parametrize("checker", ["mypy", "pyright", "ty"])
def test_replace(folder: Path, checker: str) -> None:
    """A stub says what `replace` takes; of a class that it does not know it says less."""
    for file in ("batches.py", "batches.pyi"):
        (folder / file).write_text((Path(__file__).parent / "golden" / file).read_text("utf-8"), "utf-8")
    (folder / "replaced_program.py").write_text(REPLACED, "utf-8")
    wrong = {number for number, line in enumerate(REPLACED.splitlines(), 1) if line.endswith("# wrong")}
    assert set(run(checker, folder, ["replaced_program"])["replaced_program"]) == wrong


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_strict_keys(folder: Path, checker: str) -> None:
    """Names of fields are compared wherever a method takes them, and two classes meet in no operator."""
    (folder / "visits.py").write_text(STRICT, "utf-8")
    assert main(["stubs", "--strict-keys", str(folder / "visits.py")]) == 0
    (folder / "visits_program.py").write_text(USED, "utf-8")
    wrong = {number for number, line in enumerate(USED.splitlines(), 1) if line.endswith("# wrong")}
    assert set(run(checker, folder, ["visits_program"])["visits_program"]) == wrong


def _types_show(program: Program, mark: Mark) -> bool:
    """Whether a checker reports the line without the plugin, by itself or with stubs."""
    others = ("mypy", "pyright", "mypy+stubs", "pyright+stubs")
    return program.checkers != ("mypy+plugin",) and any(mark.codes(name) for name in others)


@pytest.mark.parametrize("checker", ["mypy", "pyright", "mypy+plugin"])
def test_programs(folder: Path, split_programs: dict[str, Program], checker: str) -> None:
    """Right lines are clean but for those that are known, and the wrong ones that a type can show are reported."""
    found = run(checker, folder, split_programs)
    alarms, missed, count = [], [], 0
    for stem, program in split_programs.items():
        said, text = found[stem], program.text.splitlines()
        meant = checker == "mypy+plugin" or stem not in PLUGIN_ALONE
        lines = [text[number - 1].strip() for number in said if number not in program.marks and meant]
        known = {*KNOWN_ALARMS, *((PYRIGHT_ALARM,) if checker == "pyright" else ())}
        alarms += [f"{stem}: {line}" for line in lines if line not in known]
        every = checker == "mypy+plugin"
        shown = [number for number, mark in program.marks.items() if every or _types_show(program, mark)]
        count += len(shown)
        missed += [f"{stem}:{number}" for number in shown if number not in said]
        seen = [number for number, mark in program.marks.items() if checker in program.checkers and mark.codes(checker)]
        lost = [text[number - 1] for number in seen if number not in said and not text[number - 1].startswith(LOST)]
        assert not lost, f"{stem}: {checker} without stubs sees {lost}"
    assert alarms == []
    assert len(missed) <= 0.03 * count, missed


@pytest.mark.parametrize("checker", ["mypy", "pyright", "ty", "pyrefly"])
def test_a_stub_is_clean_itself(folder: Path, checker: str) -> None:
    """A checker that looks into the golden stub finds nothing but the function that says no types."""
    golden = Path(__file__).parent / "golden"
    for file in ("batches.py", "batches.pyi"):
        (folder / file).write_text((golden / file).read_text("utf-8"), "utf-8")
    (folder / "use_of_it.py").write_text("import batches\nprint(batches.Digits)\n", "utf-8")
    found = run(checker, folder, ["use_of_it"])
    text = (golden / "batches.pyi").read_text("utf-8").splitlines()
    assert {text[line - 1] for line in found["batches"]} <= {"def untyped(x, y=None):"}
    assert found["use_of_it"] == {}
