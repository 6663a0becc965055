"""Becomes the vLLM server, after making the model it serves if that is missing.

Run as `python -m app.generate.vllm_server --models DIR -- COMMAND ...`: the process is replaced by
COMMAND, so that its pid is the server's.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from app.generate.smollm2 import ModelMissingError, make_model


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description="Make the model if needed, then run a command.")
    parser.add_argument("--models", type=Path, required=True, help="folder of models")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        make_model(arguments.models, lambda line: sys.stderr.write(f"{line}\n"))
    except (ModelMissingError, OSError) as exc:
        sys.exit(str(exc))
    sys.stderr.flush()
    os.execv(arguments.command[0], arguments.command)


if __name__ == "__main__":
    main()
