# pyright: strict
"""Pipelines: the order of modules, and what goes in and comes out."""

import torch
from torch import Tensor, nn
from typing_extensions import assert_type

from tensorclass import TensorClass, produced
from tensorclass.nn import TensorClassModule, TensorClassModuleBase, TensorClassSequential, module
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


class State(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()


class Reader(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, batch: Digits, /) -> Hidden:
        return Hidden(h=batch.image[..., :8], batch_size=batch.batch_size)


class Writer(TensorClassModuleBase[Hidden, Prediction]):
    def forward(self, batch: Hidden, /) -> Prediction:
        logits = batch.h.repeat(1, 2)[..., :10]
        return Prediction(logits=logits, digit=logits.argmax(-1), batch_size=batch.batch_size)


@module(in_fields=Prediction.logits, out_fields=Prediction.digit)
def choose(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


encode = TensorClassModule(nn.Linear(64, 8), in_fields=Digits.image, out_fields=Hidden.h)
head = TensorClassModule(nn.Linear(8, 10), in_fields=Hidden.h, out_fields=Prediction.logits)
pipe = TensorClassSequential(encode, head, choose, input=Digits, output=Prediction)
digits = Digits(image=torch.zeros(2, 64), label=torch.zeros(2, dtype=torch.int64), batch_size=[2])
hidden = Hidden(h=torch.zeros(2, 8), batch_size=[2])
# anchor: encode = TensorDictModule(nn.Linear(64, 8), in_keys=["image"], out_keys=["h"])
# anchor: head = TensorDictModule(nn.Linear(8, 10), in_keys=["h"], out_keys=["logits"])
# anchor: choose = TensorDictModule(torch.argmax, in_keys=["logits"], out_keys=["digit"])
# anchor: pipe = TensorDictSequential(encode, head, choose)

# ---- right: a pipeline goes from its input class to its output class
assert_type(pipe(digits), Prediction)
assert_type(pipe(digits[:1]).digit, Tensor)
# anchor: print(pipe(digits))
# anchor: print(pipe(digits[:1])["digit"])
# ---- right: a pipeline over one state class
first = TensorClassModule(nn.Linear(64, 8), in_fields=State.image, out_fields=State.hidden)
assert_type(TensorClassSequential(first, input=State)(State(image=torch.zeros(2, 64), batch_size=[2])), State)
# anchor: first = TensorDictModule(nn.Linear(64, 8), in_keys=["image"], out_keys=["hidden"])
# anchor: print(TensorDictSequential(first)(State(image=torch.zeros(2, 64), batch_size=[2])))
# ---- right: modules in any order, sorted
TensorClassSequential(choose, head, encode, input=Digits, output=Prediction, sort=True)
# anchor: none
# ---- right: a pipeline in a pipeline
assert_type(TensorClassSequential(pipe, input=Digits, output=Prediction)(digits), Prediction)
# anchor: print(TensorDictSequential(pipe)(digits))
# ---- right: modules from class to class in a chain
assert_type((Reader() >> Writer())(digits), Prediction)
# anchor: none
# ---- right: a pipeline is a module of torch
pipe.train().to("cpu").load_state_dict(pipe.state_dict())

# ---- wrong: a module reads what a later one writes
TensorClassSequential(head, encode, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
# anchor: TensorDictSequential(head, encode, choose)(digits)  # E
# ---- wrong: a module reads what no module writes
TensorClassSequential(head, choose, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
# anchor: TensorDictSequential(head, choose)(digits)  # E
# ---- wrong: an output that no module writes
TensorClassSequential(encode, head, input=Digits, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
# anchor: TensorDictSequential(encode, head)(digits)["digit"]  # E
# ---- wrong: the input is another class
TensorClassSequential(encode, head, choose, input=Hidden, output=Prediction)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
# anchor: none
# ---- wrong: an option is misspelt
TensorClassSequential(encode, head, choose, input=Digits, output=Prediction, prob=False)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError | ty: - | pyrefly: no-matching-overload
# anchor: none
# ---- wrong: the input is an instance
TensorClassSequential(encode, head, choose, input=digits, output=Prediction)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: none
# ---- wrong: an option that is not there
TensorClassSequential(encode, head, choose, input=Digits, output=Prediction, order=True)  # E: call-overload | reportArgumentType, reportCallIssue | TypeError | pyrefly: no-matching-overload
# anchor: TensorDictSequential(encode, head, choose, order=True)  # E
# ---- wrong: a module of torch without fields
TensorClassSequential(nn.Linear(64, 8), input=Digits, output=Hidden)  # E: misc | reportArgumentType, reportCallIssue | BuildError | ty: no-matching-overload | pyrefly: no-matching-overload
# anchor: TensorDictSequential(nn.Linear(64, 8))  # E
# ---- wrong: a batch of another class
pipe(hidden)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a tensor for a batch
pipe(digits.image)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: no batch
pipe()  # E: call-arg | reportCallIssue | TypeError | ty: missing-argument | pyrefly: missing-argument
# ---- wrong: a result of another class
result: Hidden = pipe(digits)  # E: assignment | reportAssignmentType | - | ty: invalid-assignment | pyrefly: bad-assignment
# ---- wrong: a field that the result does not have
print(pipe(digits).digits)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError | ty: missing-attribute | pyrefly: missing-attribute


# ---- wrong: a pipeline of other classes for a parameter
def run(model: TensorClassSequential[Hidden, Prediction]) -> None:
    model(hidden)


run(pipe)  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: none
# ---- wrong: a chain whose ends do not meet
print(Writer() >> Reader())  # E: operator | reportOperatorIssue | BuildError | ty: unsupported-operator | pyrefly: unsupported-operation
# anchor: none
# ---- wrong: a chain is called with another class
(Reader() >> Writer())(hidden)  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# anchor: none
