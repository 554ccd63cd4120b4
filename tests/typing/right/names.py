# pyright: strict
# checkers: mypy, mypy+plugin
"""Names of fields as strings: fields, former names, names with a default behind them, names that are not known."""

import torch
from torch import Tensor

from tensorclass import TensorClass, field, group_by, isin
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    weight: Float32[Tensor, "2"]


class Item(TensorClass):
    inner: Inner
    price: Float32[Tensor, ""]
    count: Int64[Tensor, ""]
    note: str = ""


class Renamed(TensorClass):
    price: Float32[Tensor, ""] = field(renamed_from="cost")


class Shorter(TensorClass, removed=("cost",)):
    price: Float32[Tensor, ""]


def items() -> Item:
    return Item(Inner(torch.zeros(3, 2)), torch.zeros(3), torch.arange(3))


item, kind = items(), torch.arange(3)
by = "price" if len(item) else "count"

# ---- fields
item.sort_by("count", Item.price).sort_by(by)
item.unique_by("count")
for _, rows in item.group_by("count"):
    print(rows.price)
group_by(item, "count")
isin(item, items(), "count")
item.get_at("price", 0)
item.set_at_("price", torch.zeros(()), 0)
item.fill_("price", 0.0)
item.fill_(("inner", "weight"), 0.0)
item.split_keys(["price"], ["count", ("inner", "weight")])

# ---- what may be missing, and containers that have no fields
item.get_at("absent", 0, None)
item.get_non_tensor("absent", None)
item.split_keys(["absent"], default=None)
item.separates("absent", strict=False)
item.exclude("absent")
item.rename_keys({"price": "cost"})
item.to_tensordict().sort_by("price").create_nested("more")

# ---- values by name
Item.from_dict({"inner": {"weight": torch.zeros(3, 2)}, "price": torch.zeros(3), "count": kind})
Item.from_dict({"inner": items().inner, "price": torch.zeros(3), "count": kind, "note": "x"})
Item.from_dict({**items().to_dict()})
Renamed.from_dict({"cost": torch.zeros(3)})
Shorter.from_dict({"price": torch.zeros(3), "cost": 3})
Item.zeros(3, fields={"price": torch.ones(3)})

# ---- parts
thin = item.omit("note", "inner")
small = item.pick("price")
