"""pydantic: models, adapters, error locations, dumps, JSON Schema, FastAPI, settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import pytest
import torch
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from pydantic_settings import BaseSettings, SettingsConfigDict
from torch import Tensor

from tensorclass import PerElement, TensorClass, TensorDict, equal, field, schema, tensorclass
from tensorclass.typing import Float, Float32, Int64


@tensorclass
class Pose:
    """Where something is."""

    angle: Float32[Tensor, ""]
    axis: Float32[Tensor, "3"]


class Camera(BaseModel):
    name: str


@tensorclass
class Digits:
    image: Float32[Tensor, "1 h w"]
    label: Int64[Tensor, ""] = field(doc="the digit")
    pose: Pose
    name: PerElement[str] = "none"
    camera: Camera | None = None
    source: str = "scan"
    weight: Float32[Tensor, ""] | None = None


class Tree(TensorClass):
    left: Tree | None = None
    pose: Pose | None = None
    x: Float32[Tensor, ""] = field(kw_only=True)


class Holder(BaseModel):
    """A model around batches."""

    batch: Digits
    poses: list[Pose] = []
    by_name: dict[str, Pose] = {}


def digits(n: int = 2) -> Any:
    """A batch."""
    pose = Pose(angle=torch.rand(n), axis=torch.rand(n, 3))
    return Digits(image=torch.rand(n, 1, 2, 2), label=torch.arange(n), pose=pose, camera=Camera(name="left"))


# ---- validation --------------------------------------------------------------------------------------------------


def test_instances_pass_as_they_are():
    """An instance, or one of a child class, is not copied."""
    batch = digits()
    assert Holder(batch=batch).batch is batch

    class Child(Pose):
        z: Float32[Tensor, ""]

    child = Child(angle=torch.zeros(1), axis=torch.zeros(1, 3), z=torch.zeros(1))
    assert TypeAdapter(Pose).validate_python(child) is child


def test_instances_that_no_type_announces():
    """An instance in a field of type `Any`, in a list, as a default and in `to_json` is written as in its own field."""

    class Loose(BaseModel):
        anything: Any

    pose = Pose(angle=torch.zeros(1), axis=torch.zeros(1, 3))
    found = Loose(anything=[pose]).model_dump_json()
    assert json.loads(found) == {"anything": [json.loads(pose.to_json())]}
    assert to_json(pose).decode() == pose.to_json()
    assert Loose(anything=pose).model_dump()["anything"]["angle"] is pose.angle

    class Default(BaseModel):
        start: Pose = pose

    assert Default.model_json_schema()["properties"]["start"]["default"]["batch_size"] == [1]
    with pytest.raises(AttributeError):
        Pose.__pydantic_serializer__


def test_titles_of_errors():
    """An adapter of a list of a class names the class."""
    with pytest.raises(ValidationError, match="Pose") as caught:
        TypeAdapter(list[Pose]).validate_python([3])
    assert "functools" not in str(caught.value)
    assert "0x" not in str(caught.value)


def test_mappings_and_containers():
    """A mapping may hold tensors, lists, numbers and objects in any mix; a `TensorDict` is adopted."""
    adapter = TypeAdapter(Pose)
    assert adapter.validate_python({"angle": torch.zeros(2), "axis": [[1, 2, 3], [4, 5, 6]]}).batch_size == (2,)
    assert adapter.validate_python({"angle": 0.5, "axis": (1, 2, 3)}).batch_size == ()
    rows = TensorDict(angle=torch.zeros(2), axis=torch.zeros(2, 3), batch_size=[2])
    assert type(adapter.validate_python(rows)) is Pose
    mixed = {"image": torch.zeros(2, 1, 4, 4), "label": [1, 2], "pose": rows, "camera": {"name": "x"}}
    assert TypeAdapter(Digits).validate_python(mixed).camera == Camera(name="x")


def locations(call: Any) -> dict[tuple[Any, ...], str]:
    """Where a call goes wrong, and the type of each error."""
    with pytest.raises(ValidationError) as caught:
        call()
    return {error["loc"]: error["type"] for error in caught.value.errors()}


def test_errors_lead_to_the_field():
    """Paths through models, lists, nested classes and elements; a missing field is pydantic's own error."""
    wrong = {
        "batch": {
            "image": [[["x"]]],
            "label": [1.5],
            "pose": {"angle": [0.0], "axis": [[1, 2]], "angel": 1},
            "camera": {"name": 3},
            "size": 1,
            "batch_size": [1],
            "name": [3],
        },
        "poses": [{"angle": 0.0, "axis": [0, 0, 1]}, {"angle": 0.0}, 7],
        "by_name": {"a": {"axis": [0, 0, 1], "angle": "north"}},
    }
    expected = {
        ("batch", "image"): "tensorclass",
        ("batch", "label"): "tensorclass",
        ("batch", "pose", "axis"): "tensorclass",
        ("batch", "pose", "angel"): "tensorclass",
        ("batch", "name", 0): "tensorclass",
        ("batch", "camera", "name"): "tensorclass",
        ("batch", "size"): "tensorclass",
        ("poses", 1, "axis"): "missing",
        ("poses", 2): "tensorclass",
        ("by_name", "a", "angle"): "tensorclass",
    }
    assert locations(lambda: Holder.model_validate(wrong)) == expected
    assert locations(lambda: Holder.model_validate_json(json.dumps(wrong))) == expected


def test_errors_carry_what_was_declared():
    """Message, context and input of an error."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Pose).validate_python({"angle": torch.zeros(2, dtype=torch.int64), "axis": torch.zeros(2, 3)})
    (error,) = caught.value.errors()
    assert error["ctx"]["declared"] == 'Float32[""]'
    assert error["ctx"]["given"] == "int64 [2]"
    assert "convert with `.to(torch.float32)`" in error["msg"]
    assert error["input"].dtype is torch.int64


def test_python_values_follow_pydantic():
    """Conversions in the JSON manner, unless the field is strict."""

    class Config(TensorClass):
        lr: float
        steps: int = field(coerce="strict", default=1)

    adapter = TypeAdapter(Config)
    assert adapter.validate_python({"lr": "0.5"}).lr == 0.5
    assert locations(lambda: adapter.validate_python({"lr": 1, "steps": "2"})) == {("steps",): "tensorclass"}
    assert locations(lambda: adapter.validate_json('{"lr": 1, "steps": "2"}')) == {("steps",): "tensorclass"}


# ---- dumps -------------------------------------------------------------------------------------------------------


def test_models_survive_json_and_python():
    """`model_dump_json` and `model_dump` both come back."""
    holder = Holder(batch=digits(), poses=[Pose(angle=torch.tensor(1.0), axis=torch.ones(3))])
    for again in (
        Holder.model_validate_json(holder.model_dump_json()),
        Holder.model_validate(holder.model_dump()),
        Holder.model_validate(holder.model_dump(mode="json")),
        Holder.model_validate(json.loads(json.dumps(holder.model_dump(mode="json")))),
    ):
        assert again.batch.to_json() == holder.batch.to_json()
        assert again.batch.camera == Camera(name="left")
        assert again.poses[0].batch_size == ()


def test_python_dumps_hold_tensors():
    """In Python mode tensors stay tensors, nested classes become dicts."""
    batch = digits()
    found = TypeAdapter(Digits).dump_python(batch)
    assert found["image"] is batch.image
    assert found["pose"]["angle"] is batch.pose.angle
    assert found["batch_size"] == [2]


def test_options_of_dumps():
    """The context asks for lists; include, exclude and exclude_none work on fields."""
    adapter = TypeAdapter(Pose)
    pose = Pose(angle=torch.zeros(1), axis=torch.zeros(1, 3))
    text = adapter.dump_json(pose, context={"tensors": "lists"})
    assert text == b'{"angle":[0.0],"axis":[[0.0,0.0,0.0]],"batch_size":[1]}'
    assert list(adapter.dump_python(pose, include={"axis"})) == ["axis", "batch_size"]
    assert list(adapter.dump_python(pose, exclude={"axis"})) == ["angle", "batch_size"]
    everything = TypeAdapter(Digits)
    assert "weight" in everything.dump_python(digits())
    assert "weight" not in everything.dump_python(digits(), exclude_none=True)
    assert "weight" not in json.loads(everything.dump_json(digits(), exclude_none=True))


@pytest.mark.parametrize("mode", ["python", "json"])
def test_options_of_dumps_reach_nested_classes(mode):
    """Parts of a nested class are included and excluded, and its absent fields; the batch sizes stay."""

    class Inner(TensorClass):
        x: Float32[Tensor, ""]
        y: Float32[Tensor, ""] | None = None

    class Outer(TensorClass):
        inner: Inner
        z: Float32[Tensor, ""]

    def keys(**options: Any) -> tuple[set[str], set[str]]:
        found = TypeAdapter(Outer).dump_python(batch, mode=mode, **options)
        return set(found), set(found.get("inner", ()))

    batch = Outer(inner=Inner(x=torch.zeros(1)), z=torch.zeros(1))
    size = {"batch_size"}
    assert keys() == ({"inner", "z"} | size, {"x", "y"} | size)
    assert keys(exclude_none=True) == ({"inner", "z"} | size, {"x"} | size)
    assert keys(include={"inner": {"x"}}) == ({"inner"} | size, {"x"} | size)
    assert keys(include={"inner": True}) == ({"inner"} | size, {"x", "y"} | size)
    assert keys(include={"inner"}, exclude={"inner": {"x"}}) == ({"inner"} | size, {"y"} | size)
    assert keys(exclude={"inner": True, "z": ...}) == (size, set())


# ---- JSON Schema -------------------------------------------------------------------------------------------------

TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def references(part: Any) -> Iterator[str]:
    """Every reference in a JSON Schema."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def assert_is_schema(part: Any, root: Any) -> None:
    """The keywords of the 2020-12 metaschema hold what it asks of them, and references lead somewhere."""
    if isinstance(part, bool):
        return
    assert isinstance(part, dict)
    types = part.get("type", [])
    assert set([types] if isinstance(types, str) else types) <= TYPES
    for key in ("properties", "$defs"):
        assert isinstance(part.get(key, {}), dict)
        for inner in part.get(key, {}).values():
            assert_is_schema(inner, root)
    for inner in part.get("anyOf", []):
        assert_is_schema(inner, root)
    assert part.get("anyOf", [0]) != []
    for key in ("items", "additionalProperties"):
        if key in part:
            assert_is_schema(part[key], root)
    required = part.get("required", [])
    assert len(set(required)) == len(required)
    assert set(required) <= part.get("properties", {}).keys()
    for key in ("title", "description", "contentEncoding"):
        assert isinstance(part.get(key, ""), str)
    for key in ("minimum", "maximum", "multipleOf"):
        assert isinstance(part.get(key, 0), int | float)
    if "enum" in part:
        assert part["enum"]
    for ref in references(part):
        name = ref.removeprefix("#/$defs/")
        assert name in root["$defs"]


@pytest.mark.parametrize("cls", [Pose, Digits, Tree])
def test_json_schemas_are_schemas(cls):
    """Of a schema, an adapter in both modes and a model; with dtype, dims and shape at every tensor."""

    class Model(BaseModel):
        one: cls
        many: list[cls]

    found = [schema(cls).json_schema(), Model.model_json_schema(), TypeAdapter(cls).json_schema()]
    found.append(TypeAdapter(cls).json_schema(mode="serialization") or {"$defs": {}})
    for root in found:
        assert_is_schema(root, root)
        assert json.loads(json.dumps(root)) == root


def test_definitions_of_nested_classes():
    """Nested classes, recursive ones and models stand once under `$defs`."""
    for found in (schema(Digits).json_schema(), TypeAdapter(Digits).json_schema()):
        assert found["$defs"].keys() == {"Pose", "Camera"}
        assert found["properties"]["pose"] == {"$ref": "#/$defs/Pose"}
        assert found["properties"]["label"]["description"] == "the digit"
        assert found["required"] == ["image", "label", "pose"]
        axis = found["$defs"]["Pose"]["properties"]["axis"]
        assert (axis["dtype"], axis["dims"], axis["shape"]) == ("Float32", "3", [3])
        assert found["properties"]["image"]["shape"] == [1, "h", "w"]
    for found in (schema(Tree).json_schema(), TypeAdapter(Tree).json_schema()):
        assert found["$ref"] == "#/$defs/Tree"
        left = found["$defs"]["Tree"]["properties"]["left"]
        assert left["anyOf"] == [{"$ref": "#/$defs/Tree"}, {"type": "null"}]
    assert Holder.model_json_schema()["$defs"].keys() == {"Pose", "Camera", "Digits"}
    assert TypeAdapter(Pose).json_schema()["description"] == "Where something is."


T = TypeVar("T")


class Pair(TensorClass, Generic[T]):
    first: T
    second: T


def test_generics_and_bases():
    """An argument makes a class of its own; a field of the base class takes any instance."""
    pose = Pose(angle=torch.zeros(1), axis=torch.zeros(1, 3))
    adapter = TypeAdapter(Pair[Pose])
    pair = Pair[Pose](first=pose, second=pose)
    assert equal(adapter.validate_json(adapter.dump_json(pair)).first, pose)
    assert TypeAdapter(TensorClass).validate_python(pose) is pose
    assert locations(lambda: TypeAdapter(TensorClass).validate_python({})) == {(): "is_instance_of"}


class Later(TensorClass):
    """A class whose names are known later."""

    inner: Behind
    x: Float[Tensor, "n"]


class Behind(TensorClass):
    """The name."""

    y: Float32[Tensor, ""]


def test_forward_references():
    """A postponed class is finished when pydantic or JSON asks for it."""
    text = '{"inner": {"y": [1]}, "x": [[1, 2]]}'
    assert TypeAdapter(Later).validate_json(text).inner.y.tolist() == [1.0]


# ---- FastAPI and settings ----------------------------------------------------------------------------------------

app = FastAPI()


@app.post("/double")
def double(batch: Digits) -> Digits:
    """A batch in, a batch out."""
    return batch.replace(image=batch.image * 2)


@app.post("/holder")
def holder(given: Holder) -> Holder:
    """A model around batches in and out."""
    return given


def test_fastapi_round_trip():
    """Request bodies are validated, responses written, errors located, the API described."""
    client, batch = TestClient(app), digits()
    headers = {"content-type": "application/json"}
    for mode in ("base64", "lists"):
        answer = client.post("/double", content=batch.to_json(mode=mode), headers=headers)
        assert answer.status_code == 200
        again = Digits.from_json(answer.text)
        assert torch.equal(again.image, batch.image * 2)
        assert again.camera == Camera(name="left")
    model = Holder(batch=batch, poses=[batch.pose])
    answer = client.post("/holder", content=model.model_dump_json(), headers=headers)
    assert Holder.model_validate_json(answer.text).model_dump_json() == model.model_dump_json()
    wrong = client.post("/double", json={"image": [[["x"]]], "label": [1], "pose": {"angle": "x", "axis": [0, 0, 0]}})
    assert wrong.status_code == 422
    assert [error["loc"] for error in wrong.json()["detail"]] == [["body", "image"], ["body", "pose", "angle"]]
    parts = client.get("/openapi.json").json()["components"]["schemas"]
    assert parts["Pose"]["properties"]["axis"]["dims"] == "3"


@tensorclass
class Training:
    lr: float
    layers: list[int] = field(default_factory=lambda: [64])
    name: str = "run"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_nested_delimiter="__")
    training: Training
    debug: bool = False


def test_settings_from_the_environment(monkeypatch):
    """A class without tensors reads its fields from variables, one by one or as one JSON object."""
    monkeypatch.setenv("TRAINING__LR", "0.25")
    monkeypatch.setenv("TRAINING__LAYERS", "[8, 8]")
    found = Settings().training
    assert (found.lr, found.layers, found.name) == (0.25, [8, 8], "run")
    monkeypatch.delenv("TRAINING__LR")
    monkeypatch.delenv("TRAINING__LAYERS")
    monkeypatch.setenv("TRAINING", '{"lr": 1, "name": "other"}')
    assert (Settings().training.lr, Settings().training.name) == (1.0, "other")
    monkeypatch.setenv("TRAINING", '{"lr": "fast"}')
    assert locations(Settings) == {("training", "lr"): "tensorclass"}


@pytest.mark.parametrize("size", [(3,), (1,), (), (2, 2)])
def test_models_of_other_batch_sizes_differ(size: tuple[int, ...]) -> None:
    """Comparing models, dataclasses and tuples of fields gives a bool, where comparing containers is elementwise."""

    class Point(TensorClass):
        x: Tensor

    class Model(BaseModel):
        points: Point

    @dataclasses.dataclass
    class Record:
        points: Point

    a, b = Point(torch.zeros(2), batch_size=[2]), Point(torch.zeros(size), batch_size=size)
    for kind in (Model, Record):
        assert kind(points=a) == kind(points=a.clone())
        assert kind(points=a) != kind(points=b)
        assert not kind(points=a) == kind(points=b)  # noqa: SIM201  # `==` is what is asked
    assert (a == Point(torch.zeros(1), batch_size=[1])).x.tolist() == [True, True]
