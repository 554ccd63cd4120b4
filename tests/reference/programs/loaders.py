"""A data loader over a declared class."""

import torch
from tensordict import tensorclass
from torch.utils.data import DataLoader


@tensorclass
class Data:
    images: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def from_list(cls, rows):
        return cls(
            images=torch.stack([r[0] for r in rows]), targets=torch.tensor([r[1] for r in rows]), batch_size=[len(rows)]
        )


data = Data.from_list([(torch.randn(3, 8, 8), i % 10) for i in range(100)])
loader = DataLoader(data, batch_size=10, collate_fn=lambda x: x)
n = 0
for b in loader:
    assert b.images.shape == (10, 3, 8, 8)
    n += len(b)
assert n == 100
