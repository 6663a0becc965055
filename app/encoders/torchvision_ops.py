"""Lets `import torchvision` succeed beside a torch build that its compiled part does not fit.

PyPI's torchvision is built against CUDA torch. Beside the CPU torch its library does not load, its
operators are missing, and the import fails with "operator torchvision::nms does not exist" — and
with it vLLM, open_clip and transformers' models. Its transforms are pure Python and work once the
two operators that are referred to at import have a schema. They can then be imported, not called.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path

import torch

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
OPERATORS = ("torchvision::nms", "torchvision::qnms")


@functools.cache
def define_missing_torchvision_ops() -> bool:
    """Define the schemas if torchvision's own library does not load; call before importing it.

    Does nothing beside a torchvision that fits. Returns whether the schemas were missing.
    """
    if _own_library_loads():
        return False
    for operator in OPERATORS:
        torch.library.define(operator, SIGNATURE)
    return True


def _own_library_loads() -> bool:
    """Loads it, as torchvision itself will: defining a schema first would make that fail."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    libraries = sorted(Path(spec.origin).parent.glob("_C*.so"))
    try:
        for library in libraries:
            ctypes.CDLL(str(library))
    except OSError:
        return False
    return bool(libraries)
