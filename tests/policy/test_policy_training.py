"""Ways to train and to compute: adapters, half precision, recomputed activations, other attention, one tower pass."""

from functools import partial

import pytest
import torch
from small_policy import FAMILIES, config_for
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from turnwise.config import Lora, Policy
from turnwise.errors import UserError
from turnwise.policy import FrameStore, HfSampler, action_logprobs, learning_batch, load_policy, trainable_parameters
from turnwise.policy.attention import GROUPED
from turnwise.policy.loading import tower
from turnwise.protocols import NO_REPLY

LORA = Lora(rank=2, alpha=4, targets=("q_proj", "down_proj"))
SAMPLED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 5}


@pytest.fixture(params=FAMILIES)
def load(request, policy_folders):
    """A policy of a family with large weights, by changes to its configuration; or from the folder of an adapter."""

    def load(folder=None, **changes):
        config = config_for(request.param).model_copy(update={"model": str(policy_folders[request.param]), **changes})
        return load_policy(config, NO_REPLY, folder, "cpu")

    return load


@pytest.fixture(scope="session")
def policy_folders(model_folders, tmp_path_factory):
    """The small models with weights large enough that every part of them shows."""
    folders = {}
    for family, folder in model_folders.items():
        loaded = load_policy(config_for(family), NO_REPLY, folder, "cpu")
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in loaded.model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.12, generator=generator)
        folders[family] = tmp_path_factory.mktemp(family) / "model"
        loaded.save(folders[family])
    return folders


def rolled_out(policy, clips, episodes, group_size=4):
    """A store, and the pairs to learn from."""
    frames = FrameStore(clips, policy)
    sampler = HfSampler(policy, frames, max_action_tokens=5, max_context=2000)
    by_id = {episode.id: episode for episode in episodes}
    return frames, [(by_id[t.episode], t) for t in sampler.rollout(episodes, group_size, **SAMPLED)]


def loss_of(policy, batch):
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=True)
    return (logp * torch.linspace(-1, 1, logp.shape[1])).sum()


def gradients(policy):
    return {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}


def stir(policy):
    """Stands for training: an adapter starts out adding nothing."""
    with torch.no_grad():
        for parameter in trainable_parameters(policy, freeze_vision=True):
            parameter.normal_(0, 0.2)


def test_a_fresh_adapter_changes_nothing_and_is_all_that_trains(load, clips, episodes):
    plain, adapted = load(), load(lora=LORA)
    _, pairs = rolled_out(plain, clips, episodes)
    assert [t.actions for _, t in rolled_out(adapted, clips, episodes)[1]] == [t.actions for _, t in pairs]
    assert trainable_parameters(adapted, freeze_vision=False) == trainable_parameters(adapted, freeze_vision=True)
    trained = [name for name, p in adapted.model.named_parameters() if p.requires_grad]
    assert len(trained) == 2 * 2 * 2
    assert all("language_model" in name and "lora_" in name for name in trained)
    loss_of(adapted, learning_batch(adapted, FrameStore(clips, adapted), pairs)).backward()
    assert gradients(adapted).keys() == set(trained)


def test_the_base_is_the_reference(load, clips, episodes):
    plain, adapted = load(), load(lora=LORA)
    stir(adapted)
    frames, pairs = rolled_out(adapted, clips, episodes)
    batch = learning_batch(adapted, frames, pairs)
    own, _ = action_logprobs(adapted, batch, temperature=1.0, with_grad=False)
    torch.testing.assert_close(own, batch.old_logprobs, atol=1e-4, rtol=0)
    with adapted.reference():
        reference, _ = action_logprobs(adapted, batch, temperature=1.0, with_grad=False)
    base, _ = action_logprobs(
        plain, learning_batch(plain, FrameStore(clips, plain), pairs), temperature=1.0, with_grad=False
    )
    assert torch.equal(reference, base)
    assert (own - base).abs().max() > 0.1
    assert all(p.requires_grad for p in trainable_parameters(adapted, freeze_vision=True))
    with pytest.raises(ValueError, match="no reference"), plain.reference():
        pass


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_is_saved_alone_and_loaded_into_its_base(load, clips, episodes, tmp_path, dtype):
    """Whatever the base's type, the adapter's float32 comes back as it was, ready to be trained on."""
    adapted = load(lora=LORA, dtype=dtype)
    stir(adapted)
    adapted.save(tmp_path / "adapter")
    assert not list((tmp_path / "adapter").glob("model*"))
    again = load(tmp_path / "adapter", dtype=dtype)
    before, after = dict(adapted.model.named_parameters()), dict(again.model.named_parameters())
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    trained = trainable_parameters(again, freeze_vision=True)
    assert len(trained) == 8
    assert {p.dtype for p in trained} == {torch.float32}
    assert rolled_out(again, clips, episodes)[1] == rolled_out(adapted, clips, episodes)[1]


def test_an_adapter_whose_base_has_gone_names_it(load, tmp_path):
    adapted = load(lora=LORA)
    adapted.save(tmp_path / "adapter")
    settings = tmp_path / "adapter" / "adapter_config.json"
    settings.write_text(settings.read_text().replace(str(adapted.model.name_or_path), str(tmp_path / "gone")))
    with pytest.raises(UserError, match=r"gone: no such directory"):
        load(tmp_path / "adapter")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lora": LORA.model_dump()}, "lora: .*embedded"),
        ({"lora": LORA.model_dump(), "model": "x", "freeze_vision": False}, "freeze_vision: must be true"),
        ({"attention": "flash_attention_2"}, "needs dtype: bfloat16"),
    ],
)
def test_settings_that_do_not_go_together(changes, reason):
    with pytest.raises(ValueError, match=reason):
        Policy.model_validate(config_for("qwen3_vl").model_dump() | changes)


def test_bfloat16_rolls_out_and_learns_with_a_gap_that_is_seen(load, clips, episodes):
    """Scores are summed up in float32 whatever the weights: each distribution adds up to one."""
    policy = load(dtype="bfloat16")
    frames, pairs = rolled_out(policy, clips, episodes)
    batch = learning_batch(policy, frames, pairs)
    parameters = trainable_parameters(policy, freeze_vision=True)
    logp, entropy = action_logprobs(policy, batch, temperature=1.0, with_grad=True)
    assert {p.dtype for p in parameters} == {torch.bfloat16}
    assert (logp.dtype, entropy.dtype) == (torch.float32, torch.float32)
    gap = (logp - batch.old_logprobs)[batch.mask].abs()
    assert 0 < gap.max() < 0.2
    assert gap.mean() < 0.02
    logp.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in parameters)


def kept_for_backward(policy, batch):
    """Bytes that autograd holds between a forward and its backward pass, each storage once; and the gradients."""
    held = {}

    def pack(tensor):
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    policy.model.zero_grad(set_to_none=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(policy, batch)
    loss.backward()
    return sum(held.values()), gradients(policy)


@pytest.mark.parametrize("lora", [None, LORA])
def test_recomputed_activations_give_the_same_gradient_with_less_memory(load, clips, episodes, lora):
    plain, thrifty = load(lora=lora), load(lora=lora, gradient_checkpointing=True)
    _, pairs = rolled_out(plain, clips, episodes)
    results = []
    for policy in (plain, thrifty):
        trainable_parameters(policy, freeze_vision=lora is not None)
        batch = learning_batch(policy, FrameStore(clips, policy), pairs)
        policy.model.train()
        results.append(kept_for_backward(policy, batch))
    (much, expected), (little, found) = results
    assert expected.keys() == found.keys()
    assert all(torch.allclose(expected[name], found[name], rtol=1e-4, atol=1e-6) for name in expected)
    assert little < 0.7 * much


def test_roll_out_has_a_kernel_of_its_own_and_learning_the_one_asked_for(load, clips, episodes, monkeypatch):
    """`eager` stands for flash attention, which needs CUDA: what masks is left to ours, and the log-probs agree."""
    policy, used = load(), []
    for name in (GROUPED, "eager"):
        kernel = ALL_ATTENTION_FUNCTIONS["sdpa" if name == "eager" else name]
        spy = partial(lambda name, kernel, *args, **kwargs: used.append(name) or kernel(*args, **kwargs), name, kernel)
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, name, spy)
    policy.attention = "eager"
    frames, pairs = rolled_out(policy, clips, episodes)
    batch = learning_batch(policy, frames, pairs)
    assert set(used) == {GROUPED}
    used.clear()
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    assert set(used) == {"eager"}
    torch.testing.assert_close(logp, batch.old_logprobs, atol=1e-4, rtol=0)


def test_roll_out_leaves_the_models_own_forward_as_it_was(load, clips, episodes):
    policy = load()
    ids = torch.arange(24).reshape(2, 12) + 5
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    with torch.no_grad():
        before = [policy.model(input_ids=ids, attention_mask=given).logits for given in (None, mask)]
        rolled_out(policy, clips, episodes)
        assert policy.model.model.language_model.config._attn_implementation == GROUPED
        for given, expected in zip((None, mask), before, strict=True):
            found = policy.model(input_ids=ids, attention_mask=given).logits
            torch.testing.assert_close(found[:, 4:], expected[:, 4:], atol=1e-5, rtol=0)


def test_attention_that_is_not_there_is_refused(load):
    with pytest.raises(UserError, match=r"policy\.attention: flash_attention_2 cannot be used .*use sdpa"):
        load(attention="flash_attention_2", dtype="bfloat16")


def learn(policy, store, pairs, *, share):
    """Micro-batches of one trajectory, like an update's; returns the gradients."""
    policy.model.zero_grad(set_to_none=True)
    trainable_parameters(policy, freeze_vision=False)
    whole = learning_batch(policy, store, pairs)

    def passes():
        for row in range(len(pairs)):
            loss_of(policy, whole.select(slice(row, row + 1))).backward()

    if share:
        with store.one_backward_pass():
            passes()
    else:
        passes()
    return gradients(policy)


def test_a_tower_in_training_sees_each_frame_once_more(load, clips, episodes):
    """12 distinct frames: once for the roll-out of the whole group, once for all micro-batches of a step."""
    policy = load()
    store, pairs = rolled_out(policy, clips, episodes)
    assert store.tower_frames == 12
    shared = learn(policy, store, pairs, share=True)
    assert store.tower_frames == 12 + 12
    direct = learn(policy, store, pairs, share=False)
    assert store.tower_frames == 24 + 4 * 12
    assert shared.keys() == direct.keys() == {name for name, _ in policy.model.named_parameters()}
    assert all(torch.allclose(shared[name], direct[name], rtol=1e-3, atol=1e-5) for name in direct)
    assert any(shared[f"model.visual.{name}"].abs().max() > 0 for name, _ in tower(policy).named_parameters())


def test_a_frozen_tower_sees_each_frame_once_in_all(load, clips, episodes):
    policy = load()
    store, pairs = rolled_out(policy, clips, episodes)
    trainable_parameters(policy, freeze_vision=True)
    for _ in range(2):
        whole = learning_batch(policy, store, pairs)
        with store.one_backward_pass():
            for row in range(len(pairs)):
                loss_of(policy, whole.select(slice(row, row + 1))).backward()
    assert store.tower_frames == 12


def test_deepstack_features_reach_the_decoder(load, clips, episodes):
    """Qwen3-VL's alone has them; without them its log-probs are others, in roll-out as in learning."""
    policy = load()
    frames, pairs = rolled_out(policy, clips, episodes)
    batch = learning_batch(policy, frames, pairs)
    features = frames.features(batch.rows.frames)
    assert len(features.deepstack) == (1 if policy.model.config.model_type == "qwen3_vl" else 0)
    if features.deepstack:
        for kept in frames._features.values():
            kept.deepstack[0].zero_()
        logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
        assert (logp - batch.old_logprobs)[batch.mask].abs().max() > 1e-2
