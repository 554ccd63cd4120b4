# pyright: strict
"""Modules: the fields that they read and write, and the callable between them."""

import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassModuleBase, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


def one(image: Tensor) -> Tensor:
    return image[..., :8]


def two(image: Tensor, label: Tensor) -> Tensor:
    return image[..., :8] + label[..., None]


def text(source: str) -> Tensor:
    return torch.zeros(len(source), 8)


def count(image: Tensor) -> int:
    return len(image)


digits = Digits(image=torch.zeros(2, 64), label=torch.zeros(2, dtype=torch.int64), batch_size=[2])
hidden = Hidden(h=torch.zeros(2, 8), batch_size=[2])

# ---- right: a module of torch
TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
# anchor: TensorDictModule(nn.Linear(64, 8), in_keys=["image"], out_keys=["h"])
# ---- right: a function of two fields
TensorClassModule(two, in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)
# anchor: TensorDictModule(two, in_keys=["image", "label"], out_keys=["h"])
# ---- right: a function that torch provides
TensorClassModule(torch.relu, in_fields=Hidden.h, out_fields=Hidden.h, update=True)
# anchor: TensorDictModule(torch.relu, in_keys=["h"], out_keys=["h"])
# ---- right: a lambda behind its fields
module(in_fields=Digits.image, out_fields=Hidden.h)(lambda image: image[..., :8])


# anchor: TensorDictModule(lambda image: image[..., :8], in_keys=["image"], out_keys=["h"])
# ---- right: a decorated function
@module(in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)
def weigh(image: Tensor, label: Tensor) -> Tensor:
    return two(image, label)


# anchor: none


# ---- right: a module from class to class
class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, batch: Digits, /) -> Hidden:
        return Hidden(h=one(batch.image), batch_size=batch.batch_size)


print(Encoder()(digits).h)
# anchor: none

# ---- wrong: an in field that is not there
TensorClassModule(one, in_fields=Digits.imgae, out_fields=Hidden.h)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# anchor: TensorDictModule(one, in_keys=["imgae"], out_keys=["h"])  # E
# ---- wrong: an out field that is not there
TensorClassModule(one, in_fields=Digits.image, out_fields=Hidden.hidden)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# anchor: TensorDictModule(one, in_keys=["image"], out_keys=["hidden"])  # E
# ---- wrong: a name for a field
TensorClassModule(one, in_fields="image", out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | BuildError | mypy+plugin: arg-type, tensorclass-reference | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: none
# ---- wrong: no out fields
TensorClassModule(one, in_fields=Digits.image)  # E: call-overload | reportCallIssue | TypeError | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictModule(one, in_keys=["image"])  # E
# ---- wrong: an option that is not there
TensorClassModule(one, in_field=Digits.image, out_fields=Hidden.h)  # E: call-overload | reportCallIssue | TypeError | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictModule(one, in_key=["image"], out_keys=["h"])  # E
# ---- wrong: what cannot be called
TensorClassModule(3, in_fields=Digits.image, out_fields=Hidden.h)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictModule(3, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: fewer fields than parameters
module(in_fields=Digits.image, out_fields=Hidden.h)(two)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(two, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: more fields than parameters
module(in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)(one)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(one, in_keys=["image", "label"], out_keys=["h"])  # E
# ---- wrong: a field of another type than the parameter
module(in_fields=Digits.image, out_fields=Hidden.h)(text)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(text, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: a text field for a tensor parameter
module(in_fields=Digits.source, out_fields=Hidden.h)(one)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(one, in_keys=["source"], out_keys=["h"])  # E
# ---- wrong: a return value of another type than the field
module(in_fields=Digits.image, out_fields=Hidden.h)(count)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(count, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: one value for two fields
module(in_fields=Digits.image, out_fields=(Hidden.h, Digits.label))(one)  # E: arg-type | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(one, in_keys=["image"], out_keys=["h", "label"])  # E
# ---- wrong: a parameter that a lambda does not have
module(in_fields=Digits.image, out_fields=Hidden.h)(lambda image, label: image)  # E: arg-type, misc | reportArgumentType | - | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: TensorDictModule(lambda image, label: image, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: more fields than parameters, in one step
TensorClassModule(one, in_fields=(Digits.image, Digits.label), out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictModule(one, in_keys=["image", "label"], out_keys=["h"])  # E
# ---- wrong: a field of another type than the parameter, in one step
TensorClassModule(text, in_fields=Digits.image, out_fields=Hidden.h)  # E: arg-type | reportArgumentType, reportCallIssue | - | mypy+plugin: arg-type, tensorclass-callable | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictModule(text, in_keys=["image"], out_keys=["h"])  # E
# ---- wrong: a batch of another class
Encoder()(hidden)  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: none
# ---- wrong: a field that the result does not have
print(Encoder()(digits).image)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute
# anchor: print(TensorDictModule(one, in_keys=["image"], out_keys=["h"])(digits).h.imgae)  # E


# ---- wrong: a forward that takes another class
class Swapped(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, batch: Hidden, /) -> Hidden:  # E: override | reportIncompatibleMethodOverride | - | ty: incompatible-method-override | pyrefly: bad-override
        return batch


# anchor: none
