# pyright: strict
"""Class-to-class modules, keyed modules and dispatch."""

from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import (
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    dispatch,
    set_skip_existing,
)
from tensorclass.typing import Float32


class Digits(TensorClass):
    image: Float32[Tensor, "64"]


class Page(Digits):
    page: Float32[Tensor, ""] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]


# ---- a module says what it takes and returns
class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, batch: Digits, /) -> Hidden:
        return Hidden(batch.image[..., :8], batch_size=batch.batch_size)


class Head(TensorClassModuleBase[Hidden, Prediction]):
    def forward(self, x: Hidden, /) -> Prediction:
        return Prediction(x.h.repeat(1, 2)[..., :10], batch_size=x.batch_size)


class Mirror(TensorClassModuleBase[Digits, Page]):
    def forward(self, batch: Digits) -> Page:
        return Page(batch.image.flip(-1), batch_size=batch.batch_size)


digits, page = Digits(torch.zeros(2, 64)), Page(torch.zeros(2, 64))
assert_type(Encoder()(digits), Hidden)
assert_type(Encoder()(page), Hidden)
assert_type(Mirror()(digits).page, Tensor | None)

# ---- chains: from the first input to the last output; a subclass feeds what takes the class
assert_type((Encoder() >> Head())(digits), Prediction)
assert_type((Mirror() >> Encoder() >> Head())(page), Prediction)
assert_type((Mirror() >> (Encoder() >> Head()))(digits), Prediction)
encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
pipeline = TensorClassSequential(encode, input=Digits, output=Hidden)
assert_type((pipeline >> Head())(digits), Prediction)
assert_type((Mirror() >> pipeline)(digits), Hidden)


# ---- a function that takes a module takes one of a wider input or a narrower output
def run(model: TensorClassModuleBase[Page, TensorClass]) -> TensorClass:
    return model(page)


run(Encoder())
run(Mirror())

# ---- in pipelines of either kind
assert_type(TensorClassSequential(Encoder(), Head(), input=Digits, output=Prediction)(digits), Prediction)
keyed = TensorDictSequential(Encoder(), encode, TensorDictModule(nn.Linear(8, 10), [Hidden.h], ["logits"]))
keyed(TensorDict(image=torch.zeros(2, 64), batch_size=[2]))
Encoder().as_td_module(inplace=True)


# ---- modules of one's own over keys
class Sum(TensorDictModuleBase):
    in_keys = ["a", ("b", "c")]
    out_keys = ["d"]

    @dispatch
    def forward(self, tensordict: Any) -> Any:
        return tensordict.set("d", tensordict["a"] + tensordict["b", "c"])


class Spelled(nn.Module):
    @dispatch(separator="__", source=["a"], dest=["b"], auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any) -> Any:
        return tensordict.set("b", tensordict["a"])


print(Sum().select_out_keys("d")(torch.ones(2), b_c=torch.ones(2)))
assert_type(dispatch.DEFAULT_SEPARATOR, str)
with set_skip_existing(["d"]):
    keyed.select_subsequence(out_keys=["h"]).reset_out_keys()
assert_type(keyed[1:], TensorDictSequential)
