"""How the gateway is put together from its settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from app.gateway import OUR_MODEL, build_gateway
from app.generate.smollm2 import ModelMissingError, gguf_file, model_folder
from app.generate.token_counter import TOKENIZER_FILE
from app.settings import Settings, SettingsError
from flags.provider import DEFAULT_FLAGS_PATH
from samplers.contract import InvalidOptionsError, SamplerError
from tests.app.answer_world import IndexedData, ask, build_world, running
from tests.fakes import FakeEncoderClient, FakeLanguageModel


def settings(data_dir: Path, **changes: object) -> Settings:
    return Settings.model_validate({"data_dir": data_dir, "llm_model": "fake-llm", **changes})


def test_the_shipped_flags_are_put_in_place_at_the_first_start(tmp_path: Path) -> None:
    build_world(tmp_path / "data")
    assert (tmp_path / "data/flags.json").read_bytes() == DEFAULT_FLAGS_PATH.read_bytes()


def test_the_operators_flags_stay_at_the_next_start(tmp_path: Path) -> None:
    build_world(tmp_path / "data")
    (tmp_path / "data/flags.json").write_text("{}")
    world = build_world(tmp_path / "data")

    assert (tmp_path / "data/flags.json").read_text() == "{}"
    assert world.gateway.questions.flag_file.alarm is not None


def test_a_flag_file_that_the_operator_names_is_never_made(tmp_path: Path) -> None:
    named = tmp_path / "flags" / "live.json"
    world = build_world(tmp_path / "data", flags_file=named)

    assert not named.exists()
    alarm = world.gateway.questions.flag_file.alarm
    assert alarm is not None
    assert alarm.kind == "missing"


def test_without_a_language_model_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="framegate serve"):
        build_gateway(settings(tmp_path), FakeEncoderClient())


def test_options_that_a_sampler_refuses_stop_the_start(tmp_path: Path) -> None:
    llm = FakeLanguageModel()
    for options, error in (
        ({"aks": {"depht": 1}}, InvalidOptionsError),
        ({"nonesuch": {}}, SamplerError),
    ):
        with pytest.raises(error):
            build_gateway(settings(tmp_path, sampler_options=options), FakeEncoderClient(), llm)


def word_tokenizer() -> Tokenizer:
    """One token a word: far fewer than bytes."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


@pytest.mark.anyio
async def test_prompts_are_counted_in_bytes_until_our_models_tokenizer_is_made(
    tmp_path: Path, indexed: IndexedData
) -> None:
    try:
        source = gguf_file()
    except ModelMissingError:
        pytest.skip("the language model's package is not installed (extra `demo`)")
    world = build_world(tmp_path / "data", indexed, llm_model=OUR_MODEL, llm_context_tokens=1000)
    folder = model_folder(world.gateway.base.layout.models, source)
    async with running(world) as client:
        before = (await ask(client, indexed.long_id))["evidence"]["budget"]
        folder.mkdir(parents=True)
        word_tokenizer().save(str(folder / TOKENIZER_FILE))
        after = (await ask(client, indexed.long_id))["evidence"]["budget"]

    assert before["limited_by"] == "context_tokens"
    assert after == {"frames": 10, "limited_by": "video_seconds"}
