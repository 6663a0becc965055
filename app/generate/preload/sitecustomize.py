"""Python imports this by name at start when its folder is on PYTHONPATH; it must stay cheap.

Defines torchvision's missing operators just before torchvision is first imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class BeforeTorchvision:
    """A finder that finds nothing: being asked is the signal."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            # Late, as it imports torch, and most short-lived children never need it.
            from app.encoders.torchvision_ops import (  # noqa: PLC0415
                define_missing_torchvision_ops,
            )

            define_missing_torchvision_ops()
        return None


sys.meta_path.insert(0, BeforeTorchvision())
