"""Models of transformers, timm and torchvision with random weights, and layers that people put around them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Late:
    """A library that is imported when a model is made, which takes seconds: a run of quick tests makes none."""

    def __init__(self, name: str) -> None:
        self._library = name

    def __getattr__(self, name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(self._library), name)


timm, tf, tv = Late("timm"), Late("transformers"), Late("torchvision.models")
TEXT = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 64,
}  # fmt: skip
T5 = {"vocab_size": 100, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}


class Packed(nn.Module):
    """A GRU over a packed sequence."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.rnn, self.first = nn.GRU(8, 16, batch_first=True), batch_first

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The padded states."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=self.first)[0]


class UNet(nn.Module):
    """Two levels with a skip connection and the embedding of a time step."""

    def __init__(self, skip: bool = True) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)])
        self.time = nn.Linear(4, 16)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ConvTranspose2d(16 if skip else 8, 3, 4, 2, 1)])

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The noise."""
        first = self.down[0](x).relu()
        middle = self.down[1](first) + self.time(time)[:, :, None, None]
        noise: Tensor = self.up[1](torch.cat([self.up[0](middle).relu(), first], 1))
        return noise


class Adapted(nn.Module):
    """A linear layer with a low-rank one beside it, as peft wraps them: its attributes are those of the layer."""

    def __init__(self, base: nn.Linear, out: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Linear(base.in_features, 4, bias=False), nn.Linear(4, out, bias=False)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base, name)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both."""
        return self.base(x) + self.b(self.a(x))  # type: ignore[no-any-return]  # of torch


def bert(**options: Any) -> Any:
    """A BERT of two layers."""
    return tf.BertModel(tf.BertConfig(**TEXT, **options))


def adapted(out: int = 64) -> Any:
    """A BERT with an adapted layer."""
    model = bert()
    layer = model.encoder.layer[0].intermediate
    layer.dense = Adapted(layer.dense, out)
    return model


def gpt2() -> Any:
    """A GPT-2, whose second parameter is a cache."""
    return tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=100, n_embd=32, n_layer=1, n_head=2, n_positions=64))


def llama() -> Any:
    """A Llama with grouped heads."""
    return tf.LlamaForCausalLM(tf.LlamaConfig(**TEXT, num_key_value_heads=1))


def weight_normed(width: int = 16) -> nn.Module:
    """Convolutions with parametrised weights."""
    norms = parametrizations
    last = norms.spectral_norm(nn.Conv1d(width, 16, 1))
    return nn.Sequential(norms.weight_norm(nn.Conv1d(8, 16, 3, padding=1)), nn.ReLU(), last)


MODELS: dict[str, tuple[Callable[[], Any], dict[str, str], str]] = {
    "BERT": (bert, {"input_ids": "i 12", "attention_mask": "i 12"}, "last_hidden_state 12 32"),
    "BERT with an adapter": (adapted, {"input_ids": "i t"}, "last_hidden_state t 32"),
    "GPT-2": (gpt2, {"input_ids": "i t", "attention_mask": "i t"}, "logits t 100"),
    "Llama": (llama, {"input_ids": "i t", "attention_mask": "i t"}, "logits t 100"),
    "DistilBERT": (
        lambda: tf.DistilBertModel(tf.DistilBertConfig(vocab_size=100, dim=32, n_layers=1, n_heads=2, hidden_dim=64)),
        {"input_ids": "i t"}, "last_hidden_state t 32",
    ),
    "T5": (
        lambda: tf.T5ForConditionalGeneration(tf.T5Config(**T5)),
        {"input_ids": "i s", "decoder_input_ids": "i t"}, "logits t 100",
    ),
    "ViT": (
        lambda: tf.ViTModel(tf.ViTConfig(**TEXT, image_size=16, patch_size=8)),
        {"pixel_values": "f 3 16 16"}, "pooler_output 32",
    ),
    "timm vit": (
        lambda: timm.create_model("vit_tiny_patch16_224", depth=1, img_size=32, embed_dim=48, num_classes=5),
        {"x": "f 3 32 32"}, "logits 5",
    ),
    "timm convnext": (
        lambda: timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), num_classes=5),
        {"x": "f 3 64 64"}, "logits 5",
    ),
    "torchvision mobilenet": (
        lambda: tv.mobilenet_v3_small(num_classes=5, width_mult=0.25).eval(), {"x": "f 3 64 64"}, "logits 5",
    ),
    "torchvision vit": (
        lambda: tv.VisionTransformer(16, 8, 1, 2, 32, 64, num_classes=5), {"x": "f 3 16 16"}, "logits 5",
    ),
    "torchvision swin": (
        lambda: tv.SwinTransformer([4, 4], 8, [2], [2], [4, 4], num_classes=5), {"x": "f 3 32 32"}, "logits 5",
    ),
    "UNet": (UNet, {"x": "f 3 16 16", "time": "f 4"}, "noise 3 16 16"),
    "weight norm": (weight_normed, {"input": "f 8 t"}, "y 16 t"),
    "attention with a mask": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        {"query": "f t 8", "key": "f s 8", "value": "f s 8", "key_padding_mask": "b s"}, "y t 8",
    ),
    "packed GRU": (Packed, {"x": "f t 8", "lengths": "i "}, "y t 16"),
}  # fmt: skip
"""For each model its in fields by parameter, as in `_zoo`, and the out field with its dims."""
