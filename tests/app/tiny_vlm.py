"""A vision-language model of some hundred thousand random weights, made here without a network.

LLaVA's architecture, so that vLLM serves it with pictures. It understands nothing; but its first
token is always some spelling of yes or no, how likely each is depends on the picture, and at
temperature 0 it says the same thing every time.

Run as `python -m tests.app.tiny_vlm FOLDER`, with `PRELOAD_PATH` as PYTHONPATH: torch and
transformers stay out of the tests' own process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

WIDTH = 64
PICTURE_PX = 56
PATCH_PX = 14
TOKENS_PER_PICTURE = (PICTURE_PX // PATCH_PX) ** 2
CONTEXT_TOKENS = 8192
VERDICTS = ("yes", "Yes", "Ġyes", "ĠYes", "no", "No", "Ġno", "ĠNo")
"""Tokens, with the spaces before them as the tokenizer writes them."""
IMAGE, START, END, PAD = "<image>", "<s>", "</s>", "<pad>"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}:"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %} {{ part['text'] }}{% else %} <image>{% endif %}"
    "{% endfor %} {% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
SENTENCES = (
    "Does this frame help to answer the viewer's question? Reply with one word, yes or no.",
    "yes no Yes No yes no Yes No, is it yes? Yes. Is it no? No. 0 1 2 3 4 5 6 7 8 9",
    "Look at this one frame of the video. A viewer asks about a video: what animals are there?",
)


def make_tiny_vlm(folder: Path) -> None:
    """Write the model, its tokenizer and its processor into `folder`, for vLLM to serve."""
    tokenizer = _tokenizer()
    model = LlavaForConditionalGeneration(_config(tokenizer))
    _draw_weights(model, tokenizer)
    model.save_pretrained(folder)
    _name_weights_as_served(folder / "model.safetensors")
    processor = LlavaProcessor(  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": PICTURE_PX},
            crop_size={"height": PICTURE_PX, "width": PICTURE_PX},
        ),
        tokenizer=tokenizer,
        patch_size=PATCH_PX,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    processor.save_pretrained(folder)


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[START, END, PAD, IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 20, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # as above
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens={"image_token": IMAGE},
        chat_template=TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
    )


def _config(tokenizer: PreTrainedTokenizerFast) -> LlavaConfig:
    return LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=3,
            num_attention_heads=2,
            image_size=PICTURE_PX,
            patch_size=PATCH_PX,
            projection_dim=WIDTH,
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT_TOKENS,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=False,
        ),
        image_token_index=tokenizer.get_vocab()[IMAGE],
        image_seq_length=TOKENS_PER_PICTURE,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )


@torch.no_grad()
def _draw_weights(model: LlavaForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Random, but for the first dimension: it says "this is text" in every layer, and the verdicts
    alone answer to it."""
    generator = torch.Generator().manual_seed(7)
    for name, weights in sorted(model.named_parameters()):
        if weights.dim() > 1:
            weights.copy_(torch.randn(weights.shape, generator=generator) * 0.3)
        elif "norm" not in name:
            weights.zero_()
    text = model.model.language_model
    text.embed_tokens.weight[:, 0] = 24.0
    for layer in text.layers:
        layer.self_attn.o_proj.weight[0] = 0.0
        layer.mlp.down_proj.weight[0] = 0.0
    verdicts = tokenizer.convert_tokens_to_ids(list(VERDICTS))
    head = model.lm_head.weight
    head[:, 0] = -8.0
    head[verdicts, 0] = 8.0


def _name_weights_as_served(file: Path) -> None:
    """transformers leaves out a level of the vision tower's names that vLLM has."""
    tower = "vision_tower."
    weights = {
        name.replace(tower, f"{tower}vision_model."): value
        for name, value in load_file(file).items()
    }
    save_file(weights, file, metadata={"format": "pt"})


if __name__ == "__main__":
    make_tiny_vlm(Path(sys.argv[1]))
