"""Every built-in sampler selects the same frames in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from samplers.registry import BUILT_IN
from tests.samplers.plugins import write_module

DIGESTS = """
import json, sys
from importlib import import_module
from samplers.testing import selection_digest
for target in sys.argv[1:]:
    module, _, name = target.partition(":")
    print(json.dumps([target, selection_digest(getattr(import_module(module), name))]))
"""

HASHES_ITS_QUESTION = """
    from samplers.selection import finalise
    from samplers.uniform import UniformSampler

    class HashesItsQuestion(UniformSampler):
        def select(self, video, query, budget, scenes):
            row = hash(query) % max(1, len(video.candidates))
            return finalise([row], video, budget)
"""


def digests(targets: list[str], *, hash_seed: str, folder: Path | None = None) -> dict[str, str]:
    """Target -> digest of its selections, in a process with this `PYTHONHASHSEED`."""
    path = [*([str(folder)] if folder else []), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS, *targets],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_every_built_in_selects_the_same_in_every_process() -> None:
    targets = list(BUILT_IN.values())
    first = digests(targets, hash_seed="1")
    assert set(first) == set(targets)
    assert digests(targets, hash_seed="2") == first


def test_a_sampler_that_hashes_its_question_is_found_out(tmp_path: Path) -> None:
    write_module(tmp_path, "hashes_its_question", HASHES_ITS_QUESTION)
    target = "hashes_its_question:HashesItsQuestion"
    first = digests([target], hash_seed="1", folder=tmp_path)
    assert digests([target], hash_seed="2", folder=tmp_path) != first
