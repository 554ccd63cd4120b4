# pyright: strict
"""Operators of every class that has some: what they take and what they give."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    RaggedTensor,
    TensorClass,
    TensorDict,
    TensorDictParams,
    TypedTensorDict,
    lazy_stack,
    schema,
)
from tensorclass.nn import TensorClassModuleBase, TensorClassSequential
from tensorclass.typing import Float32


class Point(TensorClass):
    x: Float32[Tensor, ""]


class Fixed(TensorClass, frozen=True):
    x: Float32[Tensor, ""]


class Typed(TypedTensorDict):
    x: Tensor


class First(TensorClassModuleBase[Point, Point]):
    def forward(self, batch: Point) -> Point:
        return batch


# ---- Point
point = Point(torch.ones(3))
point_mask = point > 0
assert_type(point < 1, Point)
assert_type(point < point, Point)
assert_type(point <= 1, Point)
assert_type(point <= point, Point)
assert_type(point > 1, Point)
assert_type(point > point, Point)
assert_type(point >= 1, Point)
assert_type(point >= point, Point)
assert_type(point == 1, Point)
assert_type(point == point, Point)
assert_type(point != 1, Point)
assert_type(point != point, Point)
assert_type(point + 2, Point)
assert_type(point + point, Point)
assert_type(point - 2, Point)
assert_type(point - point, Point)
assert_type(point * 2, Point)
assert_type(point * point, Point)
assert_type(point / 2, Point)
assert_type(point / point, Point)
assert_type(point // 2, Point)
assert_type(point // point, Point)
assert_type(point % 2, Point)
assert_type(point % point, Point)
assert_type(point**2, Point)
assert_type(point**point, Point)
assert_type(2 + point, Point)
assert_type(2 - point, Point)
assert_type(2 * point, Point)
assert_type(2 / point, Point)
assert_type(2 // point, Point)
assert_type(2 % point, Point)
assert_type(2**point, Point)
assert_type(len(point), int)
assert_type("x" in point, bool)
assert_type(point[0], Point)
point[0] = point[1]
assert_type(list(point), list[Point])
assert_type(point * torch.ones(()), Point)
assert_type(point_mask & True, Point)
assert_type(point_mask & point_mask, Point)
assert_type(point_mask | True, Point)
assert_type(point_mask | point_mask, Point)
assert_type(point_mask ^ True, Point)
assert_type(point_mask ^ point_mask, Point)
assert_type(True & point_mask, Point)
assert_type(True | point_mask, Point)
assert_type(True ^ point_mask, Point)
assert_type(-point, Point)
assert_type(abs(point), Point)
assert_type(~point_mask, Point)
point += 2
point -= 2
point *= 2
point /= 2
point **= 2
point_mask &= True
point_mask |= True
point_mask ^= True

# ---- Fixed
fixed = Fixed(torch.ones(3))
fixed_mask = fixed > 0
assert_type(fixed < 1, Fixed)
assert_type(fixed < fixed, Fixed)
assert_type(fixed <= 1, Fixed)
assert_type(fixed <= fixed, Fixed)
assert_type(fixed > 1, Fixed)
assert_type(fixed > fixed, Fixed)
assert_type(fixed >= 1, Fixed)
assert_type(fixed >= fixed, Fixed)
assert_type(fixed == 1, Fixed)
assert_type(fixed == fixed, Fixed)
assert_type(fixed != 1, Fixed)
assert_type(fixed != fixed, Fixed)
assert_type(fixed + 2, Fixed)
assert_type(fixed + fixed, Fixed)
assert_type(fixed - 2, Fixed)
assert_type(fixed - fixed, Fixed)
assert_type(fixed * 2, Fixed)
assert_type(fixed * fixed, Fixed)
assert_type(fixed / 2, Fixed)
assert_type(fixed / fixed, Fixed)
assert_type(fixed // 2, Fixed)
assert_type(fixed // fixed, Fixed)
assert_type(fixed % 2, Fixed)
assert_type(fixed % fixed, Fixed)
assert_type(fixed**2, Fixed)
assert_type(fixed**fixed, Fixed)
assert_type(2 + fixed, Fixed)
assert_type(2 - fixed, Fixed)
assert_type(2 * fixed, Fixed)
assert_type(2 / fixed, Fixed)
assert_type(2 // fixed, Fixed)
assert_type(2 % fixed, Fixed)
assert_type(2**fixed, Fixed)
assert_type(len(fixed), int)
assert_type("x" in fixed, bool)
assert_type(fixed[0], Fixed)
assert_type(list(fixed), list[Fixed])
assert_type(fixed * torch.ones(()), Fixed)
assert_type(fixed_mask & True, Fixed)
assert_type(fixed_mask & fixed_mask, Fixed)
assert_type(fixed_mask | True, Fixed)
assert_type(fixed_mask | fixed_mask, Fixed)
assert_type(fixed_mask ^ True, Fixed)
assert_type(fixed_mask ^ fixed_mask, Fixed)
assert_type(True & fixed_mask, Fixed)
assert_type(True | fixed_mask, Fixed)
assert_type(True ^ fixed_mask, Fixed)
assert_type(-fixed, Fixed)
assert_type(abs(fixed), Fixed)
assert_type(~fixed_mask, Fixed)

# ---- TensorDict
plain = TensorDict(x=torch.ones(3), batch_size=[3])
plain_mask = plain > 0
assert_type(plain < 1, TensorDict)
assert_type(plain < plain, TensorDict)
assert_type(plain <= 1, TensorDict)
assert_type(plain <= plain, TensorDict)
assert_type(plain > 1, TensorDict)
assert_type(plain > plain, TensorDict)
assert_type(plain >= 1, TensorDict)
assert_type(plain >= plain, TensorDict)
assert_type(plain == 1, TensorDict)
assert_type(plain == plain, TensorDict)
assert_type(plain != 1, TensorDict)
assert_type(plain != plain, TensorDict)
assert_type(plain + 2, TensorDict)
assert_type(plain + plain, TensorDict)
assert_type(plain - 2, TensorDict)
assert_type(plain - plain, TensorDict)
assert_type(plain * 2, TensorDict)
assert_type(plain * plain, TensorDict)
assert_type(plain / 2, TensorDict)
assert_type(plain / plain, TensorDict)
assert_type(plain // 2, TensorDict)
assert_type(plain // plain, TensorDict)
assert_type(plain % 2, TensorDict)
assert_type(plain % plain, TensorDict)
assert_type(plain**2, TensorDict)
assert_type(plain**plain, TensorDict)
assert_type(2 + plain, TensorDict)
assert_type(2 - plain, TensorDict)
assert_type(2 * plain, TensorDict)
assert_type(2 / plain, TensorDict)
assert_type(2 // plain, TensorDict)
assert_type(2 % plain, TensorDict)
assert_type(2**plain, TensorDict)
assert_type(len(plain), int)
assert_type("x" in plain, bool)
assert_type(plain[0], TensorDict)
plain[0] = plain[1]
assert_type(list(plain), list[TensorDict])
assert_type(plain * torch.ones(()), TensorDict)
assert_type(plain_mask & True, TensorDict)
assert_type(plain_mask & plain_mask, TensorDict)
assert_type(plain_mask | True, TensorDict)
assert_type(plain_mask | plain_mask, TensorDict)
assert_type(plain_mask ^ True, TensorDict)
assert_type(plain_mask ^ plain_mask, TensorDict)
assert_type(True & plain_mask, TensorDict)
assert_type(True | plain_mask, TensorDict)
assert_type(True ^ plain_mask, TensorDict)
assert_type(-plain, TensorDict)
assert_type(abs(plain), TensorDict)
assert_type(~plain_mask, TensorDict)
plain += 2
plain -= 2
plain *= 2
plain /= 2
plain **= 2
plain_mask &= True
plain_mask |= True
plain_mask ^= True

# ---- LazyStackedTensorDict
lazy: LazyStackedTensorDict = lazy_stack([TensorDict(x=torch.ones(2)), TensorDict(x=torch.ones(2))])
lazy_mask = lazy > 0
assert_type(lazy < 1, LazyStackedTensorDict)
assert_type(lazy < lazy, LazyStackedTensorDict)
assert_type(lazy <= 1, LazyStackedTensorDict)
assert_type(lazy <= lazy, LazyStackedTensorDict)
assert_type(lazy > 1, LazyStackedTensorDict)
assert_type(lazy > lazy, LazyStackedTensorDict)
assert_type(lazy >= 1, LazyStackedTensorDict)
assert_type(lazy >= lazy, LazyStackedTensorDict)
assert_type(lazy == 1, LazyStackedTensorDict)
assert_type(lazy == lazy, LazyStackedTensorDict)
assert_type(lazy != 1, LazyStackedTensorDict)
assert_type(lazy != lazy, LazyStackedTensorDict)
assert_type(lazy + 2, LazyStackedTensorDict)
assert_type(lazy + lazy, LazyStackedTensorDict)
assert_type(lazy - 2, LazyStackedTensorDict)
assert_type(lazy - lazy, LazyStackedTensorDict)
assert_type(lazy * 2, LazyStackedTensorDict)
assert_type(lazy * lazy, LazyStackedTensorDict)
assert_type(lazy / 2, LazyStackedTensorDict)
assert_type(lazy / lazy, LazyStackedTensorDict)
assert_type(lazy // 2, LazyStackedTensorDict)
assert_type(lazy // lazy, LazyStackedTensorDict)
assert_type(lazy % 2, LazyStackedTensorDict)
assert_type(lazy % lazy, LazyStackedTensorDict)
assert_type(lazy**2, LazyStackedTensorDict)
assert_type(lazy**lazy, LazyStackedTensorDict)
assert_type(2 + lazy, LazyStackedTensorDict)
assert_type(2 - lazy, LazyStackedTensorDict)
assert_type(2 * lazy, LazyStackedTensorDict)
assert_type(2 / lazy, LazyStackedTensorDict)
assert_type(2 // lazy, LazyStackedTensorDict)
assert_type(2 % lazy, LazyStackedTensorDict)
assert_type(2**lazy, LazyStackedTensorDict)
assert_type(len(lazy), int)
assert_type("x" in lazy, bool)
print(lazy[0])
lazy[0] = lazy[1]
print(list(lazy))
assert_type(lazy * torch.ones(()), LazyStackedTensorDict)
assert_type(lazy_mask & True, LazyStackedTensorDict)
assert_type(lazy_mask & lazy_mask, LazyStackedTensorDict)
assert_type(lazy_mask | True, LazyStackedTensorDict)
assert_type(lazy_mask | lazy_mask, LazyStackedTensorDict)
assert_type(lazy_mask ^ True, LazyStackedTensorDict)
assert_type(lazy_mask ^ lazy_mask, LazyStackedTensorDict)
assert_type(True & lazy_mask, LazyStackedTensorDict)
assert_type(True | lazy_mask, LazyStackedTensorDict)
assert_type(True ^ lazy_mask, LazyStackedTensorDict)
assert_type(-lazy, LazyStackedTensorDict)
assert_type(abs(lazy), LazyStackedTensorDict)
assert_type(~lazy_mask, LazyStackedTensorDict)
lazy += 2
lazy -= 2
lazy *= 2
lazy /= 2
lazy **= 2
lazy_mask &= True
lazy_mask |= True
lazy_mask ^= True

# ---- TensorDictParams
held = TensorDictParams(TensorDict(x=torch.ones(3)))
held_mask = held > 0
print(held < 1)
print(held < held)
print(held <= 1)
print(held <= held)
print(held > 1)
print(held > held)
print(held >= 1)
print(held >= held)
print(held == 1)
print(held == held)
print(held != 1)
print(held != held)
print(held + 2)
print(held + held)
print(held - 2)
print(held - held)
print(held * 2)
print(held * held)
print(held / 2)
print(held / held)
print(held // 2)
print(held // held)
print(held % 2)
print(held % held)
print(held**2)
print(held**held)
print(2 + held)
print(2 - held)
print(2 * held)
print(2 / held)
print(2 // held)
print(2 % held)
print(2**held)
print(len(held), held["x"], "x" in held)
print(held * torch.ones(()))
print(held_mask & True)
print(held_mask & held_mask)
print(held_mask | True)
print(held_mask | held_mask)
print(held_mask ^ True)
print(held_mask ^ held_mask)
print(True & held_mask)
print(True | held_mask)
print(True ^ held_mask)
print(-held)
print(abs(held))
print(~held_mask)

# ---- Typed
typed = Typed(x=torch.ones(3), batch_size=[3])
typed_mask = typed > 0
assert_type(typed < 1, Typed)
assert_type(typed < typed, Typed)
assert_type(typed <= 1, Typed)
assert_type(typed <= typed, Typed)
assert_type(typed > 1, Typed)
assert_type(typed > typed, Typed)
assert_type(typed >= 1, Typed)
assert_type(typed >= typed, Typed)
assert_type(typed == 1, Typed)
assert_type(typed == typed, Typed)
assert_type(typed != 1, Typed)
assert_type(typed != typed, Typed)
assert_type(typed + 2, Typed)
assert_type(typed + typed, Typed)
assert_type(typed - 2, Typed)
assert_type(typed - typed, Typed)
assert_type(typed * 2, Typed)
assert_type(typed * typed, Typed)
assert_type(typed / 2, Typed)
assert_type(typed / typed, Typed)
assert_type(typed // 2, Typed)
assert_type(typed // typed, Typed)
assert_type(typed % 2, Typed)
assert_type(typed % typed, Typed)
assert_type(typed**2, Typed)
assert_type(typed**typed, Typed)
assert_type(2 + typed, Typed)
assert_type(2 - typed, Typed)
assert_type(2 * typed, Typed)
assert_type(2 / typed, Typed)
assert_type(2 // typed, Typed)
assert_type(2 % typed, Typed)
assert_type(2**typed, Typed)
assert_type(len(typed), int)
assert_type("x" in typed, bool)
assert_type(typed[0], Typed)
assert_type(list(typed), list[Typed])
assert_type(typed * torch.ones(()), Typed)
assert_type(typed_mask & True, Typed)
assert_type(typed_mask & typed_mask, Typed)
assert_type(typed_mask | True, Typed)
assert_type(typed_mask | typed_mask, Typed)
assert_type(typed_mask ^ True, Typed)
assert_type(typed_mask ^ typed_mask, Typed)
assert_type(True & typed_mask, Typed)
assert_type(True | typed_mask, Typed)
assert_type(True ^ typed_mask, Typed)
assert_type(-typed, Typed)
assert_type(abs(typed), Typed)
assert_type(~typed_mask, Typed)
typed += 2
typed -= 2
typed *= 2
typed /= 2
typed **= 2
typed_mask &= True
typed_mask |= True
typed_mask ^= True

# ---- RaggedTensor
ragged = RaggedTensor([torch.ones(3), torch.ones(2)])
ragged_mask = ragged > 0
assert_type(ragged < 1, RaggedTensor)
assert_type(ragged < ragged, RaggedTensor)
assert_type(ragged <= 1, RaggedTensor)
assert_type(ragged <= ragged, RaggedTensor)
assert_type(ragged > 1, RaggedTensor)
assert_type(ragged > ragged, RaggedTensor)
assert_type(ragged >= 1, RaggedTensor)
assert_type(ragged >= ragged, RaggedTensor)
print(ragged == 1, ragged == ragged)
print(ragged != 1, ragged != ragged)
assert_type(ragged + 2, RaggedTensor)
assert_type(ragged + ragged, RaggedTensor)
assert_type(ragged - 2, RaggedTensor)
assert_type(ragged - ragged, RaggedTensor)
assert_type(ragged * 2, RaggedTensor)
assert_type(ragged * ragged, RaggedTensor)
assert_type(ragged / 2, RaggedTensor)
assert_type(ragged / ragged, RaggedTensor)
assert_type(ragged**2, RaggedTensor)
assert_type(ragged**ragged, RaggedTensor)
assert_type(2 + ragged, RaggedTensor)
assert_type(2 - ragged, RaggedTensor)
assert_type(2 * ragged, RaggedTensor)
assert_type(2 / ragged, RaggedTensor)
print(len(ragged), ragged[0], list(ragged))
assert_type(ragged * torch.ones(()), RaggedTensor)
assert_type(ragged_mask & True, RaggedTensor)
assert_type(ragged_mask & ragged_mask, RaggedTensor)
assert_type(ragged_mask | True, RaggedTensor)
assert_type(ragged_mask | ragged_mask, RaggedTensor)
assert_type(-ragged, RaggedTensor)
assert_type(abs(ragged), RaggedTensor)
assert_type(~ragged_mask, RaggedTensor)
ragged += 2
ragged -= 2
ragged *= 2
ragged /= 2
ragged **= 2
ragged_mask &= True
ragged_mask |= True

# ---- NonTensorData
datum = NonTensorData(True, batch_size=[2])
print(datum == datum, datum != 3, datum | False, datum ^ True, datum[0], len(datum), list(datum))
called = NonTensorData(len, batch_size=[2])("abc")

# ---- MetaData
meta = MetaData(True, batch_size=[2])
print(meta == meta, meta != 3, meta | False, meta ^ True, meta[0], len(meta), list(meta))
named = MetaData(len, batch_size=[2])("abc")

# ---- NonTensorStack
objects: NonTensorStack[str] = NonTensorStack("a", "b")
print(objects == objects, objects != "a", objects[0], len(objects), list(objects), bool(objects))

# ---- Schema
declared = schema(Point)
assert_type(declared == schema(Point), bool)
assert_type("x" in declared, bool)
print(len(declared), declared["x"], list(declared))

# ---- TensorClassModuleBase
assert_type((First() >> First())(Point(torch.ones(3))), Point)

# ---- TensorClassSequential
pipe = TensorClassSequential(First(), First(), input=Point, output=Point)
print(pipe[0], pipe[:1], len(pipe), list(pipe))
