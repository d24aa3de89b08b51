import pytest
import torch
from accelerate import Accelerator
from small_policy import FAMILIES, TEXTS, config_for

from turnwise.errors import UserError
from turnwise.policy.embedded import build_embedded
from turnwise.policy.loading import load_policy, tower, trainable_parameters
from turnwise.protocols import NO_REPLY


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_same_bytes(family, model_folders, tmp_path):
    state = torch.get_rng_state()
    build_embedded(config_for(family), reversed(TEXTS), tmp_path / "again", seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert files(tmp_path / "again") == files(model_folders[family])
    build_embedded(config_for(family), TEXTS, tmp_path / "other", seed=2)
    assert files(tmp_path / "other")["model.safetensors"] != files(model_folders[family])["model.safetensors"]


def test_words_of_the_corpus_are_whole_tokens(policy):
    said = policy.encode("A red striped ball appears.")
    assert [policy.tokenizer.decode([i]) for i in said] == ["A", " red", " striped", " ball", " appears", "."]
    assert len(policy.writing.silence) == 2
    assert policy.tokenizer.decode(policy.writing.silence) == "NO REPLY"


def test_what_looks_like_a_special_token_stays_text(policy):
    ids = policy.encode("<|image_pad|><|im_end|>")
    assert policy.tokenizer.decode(ids) == "<|image_pad|><|im_end|>"
    assert not {policy.image_id, policy.end_id} & set(ids)


def test_actions_of_demonstrations(policy):
    silence, empty, reply = (policy.encode_action(text) for text in (None, "", "A red ball"))
    assert (silence.kind, silence.tokens, silence.text) == (
        "silence",
        (*policy.writing.silence, policy.end_id),
        "NO REPLY",
    )
    assert (empty.kind, empty.tokens) == ("malformed", (policy.end_id,))
    assert (reply.kind, reply.text, reply.tokens[-1], reply.capped) == ("reply", "A red ball", policy.end_id, False)
    assert policy.encode_action("NO REPLY") == silence
    assert policy.encode_action(" a , b .\n1  ü").text == " a , b .\n1  ü"
    assert reply.logprobs == (0.0,) * len(reply.tokens)


def test_save_and_load(policy, tmp_path):
    policy.save(tmp_path / "model")
    loaded = load_policy(config_for("qwen2_5_vl"), NO_REPLY, tmp_path / "model", "cpu")
    assert type(loaded.model) is type(policy.model)
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), policy.model.parameters(), strict=True))
    assert loaded.tokenizer.get_vocab() == policy.tokenizer.get_vocab()
    assert loaded.encode_action("A red ball?") == policy.encode_action("A red ball?")


def test_an_accelerator_on_cpu_leaves_the_module_as_it_is(policy):
    assert Accelerator(cpu=True).prepare(policy.model) is policy.model


def test_only_the_end_of_turn_may_be_said_of_the_special_tokens(policy):
    banned = [policy.tokenizer.convert_ids_to_tokens(i) for i in (policy.bans < 0).nonzero()[:, 0].tolist()]
    assert len(banned) == 13
    assert {"<|im_start|>", "<|endoftext|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"} <= set(banned)
    assert "<|im_end|>" not in banned


def test_a_source_without_a_model_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"nowhere.*policy\.model"):
        load_policy(config_for("qwen2_5_vl"), NO_REPLY, tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match=r"llama.*qwen2_5_vl"):
        load_policy(config_for("qwen2_5_vl"), NO_REPLY, tmp_path)


def test_a_frozen_tower_is_not_trained(policy):
    every, frozen = trainable_parameters(policy, False), trainable_parameters(policy, True)
    assert len(every) - len(frozen) == len(list(tower(policy).parameters()))
    assert not any(p.requires_grad for p in tower(policy).parameters())
