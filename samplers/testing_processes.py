"""Does a sampler select the same in every process? Python's `hash()` and sets differ in each.

Use it through `samplers.testing`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from samplers.contract import ContractViolationError, Sampler, SamplerOptions

HASH_SEEDS = (1, 2)
_PROGRAM = (
    "import base64, pickle, sys; from samplers.testing import selection_digest; "
    "sampler, options, encoder = pickle.loads(base64.b64decode(sys.stdin.read())); "
    "print(selection_digest(sampler, options, encoder=encoder))"
)


def check_processes(
    sampler: Callable[..., Sampler],
    options: SamplerOptions | None = None,
    *,
    encoder: str = "default",
) -> None:
    """Raise `ContractViolationError` where two processes select differently, or return None.

    The two run every case of the kit under another `PYTHONHASHSEED`. `sampler` is a class, or a
    function without arguments, that can be imported from a module.
    """
    try:
        called = b64encode(pickle.dumps((sampler, options, encoder)))
    except (pickle.PicklingError, AttributeError, TypeError) as exc:
        raise ContractViolationError(f"a sampler is imported from a module: {exc}") from exc
    with ThreadPoolExecutor(len(HASH_SEEDS)) as pool:
        digests = set(pool.map(lambda seed: _digest(called, seed), HASH_SEEDS))
    if len(digests) > 1:
        raise ContractViolationError(
            "the same input gave other selections in another process: "
            "they hang on hash() or on the order of a set; use sha256, and sort"
        )


def _digest(called: bytes, hash_seed: int) -> str:
    # By `env`, which leaves the rest of the environment as it is.
    changed = (f"PYTHONHASHSEED={hash_seed}", f"PYTHONPATH={os.pathsep.join(sys.path)}")
    done = subprocess.run(
        ["env", *changed, sys.executable, "-P", "-c", _PROGRAM],
        input=called,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ContractViolationError(f"in a process of its own, the sampler failed: {last}")
    return done.stdout.decode()
