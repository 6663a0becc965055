"""What must run in a Python process before foreign code imports torchvision: `sitecustomize.py`.

vLLM starts further interpreters of its own, some by `python -m` of its own modules, so an entry
module of ours would not reach them. A folder on `PYTHONPATH` does.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent

PRELOAD_PATH = os.pathsep.join([str(_FOLDER), str(_FOLDER.parents[2])])
"""Value of PYTHONPATH: this folder, and the one that holds the package `app`."""
