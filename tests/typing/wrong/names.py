# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Names of fields as strings: every method and function that takes them, mappings by name, and parts."""

import torch
from torch import Tensor

from tensorclass import TensorClass, group_by, isin, omit, pick, remove_duplicates
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    weight: Float32[Tensor, "2"]


class Item(TensorClass):
    inner: Inner
    price: Float32[Tensor, ""]
    count: Int64[Tensor, ""]


def items() -> Item:
    return Item(Inner(torch.zeros(3, 2)), torch.zeros(3), torch.arange(3))


item, kind = items(), torch.arange(3)

# ---- rows by a field
item.sort_by("prices")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.sort_by("price", "cuont", descending=True)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.sort_by(("inner", "wieght"))  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
items()[:2].group_by("kind")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.unique_by("cuont", keep="last")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
group_by(item, "kind")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
isin(item, items(), "cuont")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
remove_duplicates(item, key="cuont")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key

# ---- single entries
item.get_at("prise", 0)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.set_at_("prise", torch.zeros(()), 0)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.fill_("prise", 0.0)  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.setdefault("prise", torch.zeros(3))  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.del_("prise")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.entry_class("prise")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.get_non_tensor("prise")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.set_non_tensor("prise", "low")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.is_non_tensor("prise")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.create_nested("outer")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key

# ---- several at once
item.split_keys(["price"], ["cuont"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.separates("price", "cuont")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.rename_keys({"prise": "cost"})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.rename_key_("price", "cost")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.stack_tensors("price", "prise", out_key="price")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
item.cat_tensors("price", "count", out_key="both")  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key

# ---- values by name
Item.from_dict({"inner": items().inner, "prise": torch.zeros(3), "count": kind})  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
Item.from_dict({"inner": items().inner, "count": kind})  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
Item.from_dict({"inner": items().inner, "price": kind, "count": kind})  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Item.zeros(3, fields={"prise": torch.zeros(3)})  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
Item.example(3, fields={"price": kind})  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype

# ---- parts
item.omit("prise")  # E: - | - | AttributeError | mypy+plugin: tensorclass-key
item.pick("prise", "count")  # E: - | - | AttributeError | mypy+plugin: tensorclass-key
Thin = omit(Item, "prise")  # E: - | - | AttributeError | mypy+plugin: tensorclass-key
Small = pick(Item, "prise")  # E: - | - | AttributeError | mypy+plugin: tensorclass-key
