"""Expands a quantised GGUF model to a bf16 safetensors folder with tokenizer and chat template.

Run by `smollm2.py` with `preload/` on the path, so that `transformers` can be imported.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(source: Path, folder: Path) -> None:
    """Write the model of the GGUF file `source` into the existing `folder`."""
    place: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **place)
    model: Any = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.bfloat16, **place)
    # Loading expanded the weights; while these three remain, saving still takes them for packed.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
