"""The picture tower: EfficientNet-lite0 (Apache-2.0), whole pictures to label distributions.

A picture is scaled to a short side of 224 pixels and goes through the convolutions as a whole; its
feature map is averaged in each cell of a 2 x 2 grid and classified there. So the sides of a wide
picture count, which a centre crop would lose, and every aspect ratio has the same number of cells.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from app.encoders.contract import Picture

NUM_LABELS = 1000
GRID = 2
SHORT_SIDE_PX = 224
MAX_LONG_SIDE_PX = 448
"""A wider picture is squeezed: it costs no more than one of 2 : 1."""
STRIDE_PX = 32
"""Of the feature map. Sides are multiples of it, for which the fixed paddings are right."""


class LabelClassifier:
    """uint8 pictures of any size -> float32 `[GRID * GRID, 1000]` distributions, row by row."""

    def __init__(self, weights: Path) -> None:
        net = EfficientNet.from_name("efficientnet-lite0")
        net.load_state_dict(torch.load(weights, weights_only=True))
        net.eval()
        _fuse_batch_norms(net)
        self._net = net.to(memory_format=torch.channels_last)

    def distributions(self, picture: Picture) -> Tensor:
        """One picture at a time: on a CPU that is faster than batches, and independent of them."""
        with torch.inference_mode():
            features = self._net.extract_features(prepared(picture))
            cells = functional.adaptive_avg_pool2d(features, GRID)[0].flatten(1).T
            return torch.softmax(self._net.get_submodule("_fc")(cells), dim=-1)


def prepared(picture: Picture) -> Tensor:
    """float32 `[1, 3, h, w]`: bicubic with antialiasing, then (rgb - 127) / 128."""
    height, width = picture.shape[:2]
    longest = SHORT_SIDE_PX * max(height, width) / min(height, width)
    long_px = min(MAX_LONG_SIDE_PX, round(longest / STRIDE_PX) * STRIDE_PX)
    size = (long_px, SHORT_SIDE_PX) if width >= height else (SHORT_SIDE_PX, long_px)
    scaled = Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC)
    values = (np.asarray(scaled, dtype=np.float32) - 127.0) / 128.0
    # A transposed view of height-width-channel data is what torch calls channels_last.
    return torch.from_numpy(values).permute(2, 0, 1).unsqueeze(0)


def _fuse_batch_norms(net: EfficientNet) -> None:
    """Fold each batch norm into the convolution before it: a third less work."""
    _fuse(net, "_conv_stem", "_bn0")
    for block in net.get_submodule("_blocks").children():
        if hasattr(block, "_expand_conv"):
            _fuse(block, "_expand_conv", "_bn0")
        _fuse(block, "_depthwise_conv", "_bn1")
        _fuse(block, "_project_conv", "_bn2")
    _fuse(net, "_conv_head", "_bn1")


def _fuse(owner: nn.Module, convolution: str, norm: str) -> None:
    fused = fuse_conv_bn_eval(getattr(owner, convolution), getattr(owner, norm))
    setattr(owner, convolution, fused)
    setattr(owner, norm, nn.Identity())
