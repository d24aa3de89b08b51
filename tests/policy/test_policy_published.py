"""The published checkpoints as far as they go without their weights: configuration, names, ids, image budget, layout."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import qwen_vocabulary
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_policy import config_for
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig

from turnwise.config import compose, validate
from turnwise.errors import UserError
from turnwise.policy import FrameStore, HfSampler, action_logprobs, learning_batch, load_policy
from turnwise.policy.loading import FAMILIES
from turnwise.protocols import NO_REPLY
from turnwise.records import Trajectory

FOLDER = Path(__file__).parent / "published"
NAMES = ["qwen2.5-vl-3b", "qwen3-vl-4b"]
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL_TOWER = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": 64}


@pytest.mark.parametrize(
    ("name", "parameters", "in_the_tower", "tensors", "tensors_in_the_tower"),
    [
        ("qwen2.5-vl-3b", 3_754_622_976, 668_684_288, 824, 390),
        ("qwen3-vl-4b", 4_437_815_808, 415_347_712, 713, 315),
    ],
)
def test_the_configuration_makes_the_published_tensors(name, parameters, in_the_tower, tensors, tensors_in_the_tower):
    """Counts as published: bytes of the bfloat16 files over two, and tensors in them (the head is the embedding)."""
    config = AutoConfig.from_pretrained(FOLDER / name)
    with torch.device("meta"):
        model = FAMILIES[config.model_type](config)
    every = dict(model.named_parameters())
    seen = {key: tensor for key, tensor in every.items() if key.startswith("model.visual.")}
    assert (sum(t.numel() for t in every.values()), len(every)) == (parameters, tensors)
    assert (sum(t.numel() for t in seen.values()), len(seen)) == (in_the_tower, tensors_in_the_tower)
    assert config.text_config.rope_parameters["mrope_section"] == ([16, 24, 24] if "2.5" in name else [24, 20, 20])


def shrunk(name: str) -> dict:
    """The published configuration with fewer and narrower layers; vocabulary and special ids stay."""
    values = json.loads((FOLDER / name / "config.json").read_text())
    text = values.get("text_config", values)
    text |= SMALL | {"num_key_value_heads": 2}
    text["rope_scaling"]["mrope_section"] = [2, 3, 3]
    values["vision_config"] |= SMALL_TOWER
    if "2.5" in name:
        values["vision_config"]["fullatt_block_indexes"] = [1]
    else:
        text["head_dim"] = 16
        values["vision_config"] |= {"deepstack_visual_indexes": [0, 1]}
    return values


@pytest.fixture(scope="module", params=NAMES)
def folder(request, tmp_path_factory) -> Path:
    """A small model in the layout of the hub, with the true vocabulary's ids."""
    made = tmp_path_factory.mktemp(request.param)
    (made / "config.json").write_text(json.dumps(shrunk(request.param)))
    config = AutoConfig.from_pretrained(made)
    torch.manual_seed(4)
    model = FAMILIES[config.model_type](config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.12)
    model.save_pretrained(made)
    qwen_vocabulary.tokenizer(qwen_vocabulary.excerpt()).save_pretrained(made)
    shutil.copy(FOLDER / request.param / "preprocessor_config.json", made)
    return made


def loaded(folder: Path, **changes):
    return load_policy(config_for("qwen2_5_vl").model_copy(update=changes), NO_REPLY, folder, "cpu")


def test_ids_are_the_true_ones(folder):
    policy = loaded(folder)
    assert policy.headers["user"][0] == 151_644
    assert (policy.end_id, policy.image_id) == (151_645, 151_655)
    assert [policy.tokenizer.decode([i]) for i in policy.encode("NO REPLY")] == ["NO", " RE", "PLY"]
    assert policy.encode_action(None).tokens == (8996, 3596, 24834, 151_645)
    assert policy.encode_action(None).kind == "silence"
    sayable = (policy.bans == 0).nonzero()[:, 0].tolist()
    assert {151_645, 8996} <= set(sayable)
    assert not {151_643, 151_644, 151_652, 151_653, 151_655, 151_656, 151_900, 151_935} & set(sayable)


def test_rolls_out_and_learns(folder, clips, episodes):
    """The roll-out's log-probs are the learning pass's, at the true width of the vocabulary."""
    policy = loaded(folder)
    frames = FrameStore(clips, policy)
    sampler = HfSampler(policy, frames, max_action_tokens=5, max_context=2000)
    trajectories = sampler.rollout(episodes, 2, temperature=1.0, top_k=0, top_p=1.0, seed=3)
    by_id = {episode.id: episode for episode in episodes}
    batch = learning_batch(policy, frames, [(by_id[t.episode], t) for t in trajectories])
    logp, _ = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    torch.testing.assert_close(logp, batch.old_logprobs, atol=1e-4, rtol=0)


class Scores(TorchDispatchMode):
    """Collects over how many rows anything as wide as the vocabulary is made."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.vocabulary, self.rows = vocabulary, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in tree_leaves(out):
            if isinstance(made, torch.Tensor) and made.dim() > 1 and made.shape[-1] == self.vocabulary:
                self.rows.add(made.numel() // self.vocabulary)
        return out


def test_scores_are_made_for_action_tokens_alone(folder, clips, episodes):
    """Backward pass included: 231 tokens with 151,936 scores each would take 140 MB a copy, the 25 said take 15 MB."""
    policy = loaded(folder)
    said = {"long": [None, "How many cubes?", None, None], "past": [None, None]}
    pairs = [(e, Trajectory(e.id, 0, tuple(map(policy.encode_action, said[e.id])))) for e in episodes]
    batch = learning_batch(policy, FrameStore(clips, policy), pairs)
    with Scores(policy.model.config.text_config.vocab_size) as scores:
        action_logprobs(policy, batch, temperature=1.0, with_grad=True)[0].sum().backward()
    turned_weights = policy.model.config.text_config.hidden_size
    assert scores.rows - {turned_weights} == {int(batch.mask.sum())}
    assert int(batch.mask.sum()) < 0.15 * int(batch.rows.lengths.sum())


def test_saved_under_the_published_names(folder, tmp_path):
    prefixes = {"visual.", "model.layers.", "model.embed_tokens.", "model.norm."}
    if "qwen3" in folder.name:
        prefixes = {"model.visual.", "model.language_model."}
    policy = loaded(folder)
    policy.save(tmp_path / "saved")
    for place in (folder, tmp_path / "saved"):
        with safe_open(place / "model.safetensors", "pt") as file:
            assert all(any(name.startswith(prefix) for prefix in prefixes) for name in file.keys())  # noqa: SIM118
    before, after = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "saved"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = loaded(tmp_path / "saved")
    assert again.encode_action("How many cubes?") == policy.encode_action("How many cubes?")
    assert {"config.json", "tokenizer.json", "preprocessor_config.json"} <= {
        p.name for p in (tmp_path / "saved").iterdir()
    }


@pytest.mark.parametrize("name", NAMES)
def test_profiles_have_mmduet2s_frames(name):
    """128 visual tokens a frame, two frames a turn, two seconds between frames (arXiv 2512.06810)."""
    params = validate(compose([name]), name)
    patch = json.loads((FOLDER / name / "config.json").read_text())["vision_config"]["patch_size"]
    assert params.policy.frame_pixels == 128 * (2 * patch) ** 2
    assert (params.stream.frame_interval, params.stream.frames_per_turn) == (2.0, 2)


@pytest.mark.parametrize("size", [(720, 1280), (1280, 720), (480, 640), (1080, 1080), (64, 2000), (30, 40)])
def test_a_frame_stays_within_its_budget(folder, size):
    policy = loaded(folder, frame_pixels=128 * (28 if "2.5" in folder.name else 32) ** 2)
    grids = policy.image_processor([np.zeros((*size, 3), np.uint8)], return_tensors="pt")["image_grid_thw"]
    tokens = int(grids.prod()) // policy.merge**2
    assert tokens <= 128
    assert tokens > 90 or min(size) < 100


@pytest.mark.slow
@pytest.mark.skipif(not qwen_vocabulary.WHEEL.exists(), reason="`make real-vocabulary` fetches the whole vocabulary")
def test_the_excerpt_cuts_its_texts_as_the_whole_vocabulary_does():
    ranks, excerpt = qwen_vocabulary.whole(), qwen_vocabulary.excerpt()
    whole, part = qwen_vocabulary.tokenizer(ranks), qwen_vocabulary.tokenizer(excerpt)
    assert excerpt.items() <= ranks.items()
    assert len(whole) == 151_657
    assert all(whole.encode(text) == part.encode(text) for text in qwen_vocabulary.TEXTS)


def test_a_model_with_tensors_missing_is_refused(folder, tmp_path):
    """transformers would start them at random, with a warning."""
    shutil.copytree(folder, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if "layers.1.mlp.up_proj" not in k}, tmp_path / "model" / "model.safetensors"
    )
    with pytest.raises(
        UserError, match=r"model: 1 of its tensors are missing, 'model.*layers\.1\.mlp\.up_proj.weight'"
    ):
        loaded(tmp_path / "model")
