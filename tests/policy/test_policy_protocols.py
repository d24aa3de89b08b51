"""The protocols with a real tokenizer and model: what is written is read, and what is rolled out can be learned from."""

import pytest
import torch
from small_policy import TEXTS, config_for

from turnwise.policy.conversation import GIVEN, Conversation, Script
from turnwise.policy.embedded import build_embedded
from turnwise.policy.frames import FrameStore
from turnwise.policy.loading import load_policy
from turnwise.policy.logprobs import action_logprobs, learning_batch
from turnwise.policy.sampler import HfSampler
from turnwise.protocols import EOS, SILENT_TAG, SILENT_TAG_THINK


def loaded(protocol, folder):
    build_embedded(config_for("qwen2_5_vl"), TEXTS, folder, seed=1, protocol=protocol)
    policy = load_policy(config_for("qwen2_5_vl"), protocol, folder, "cpu")
    policy.bans[policy.end_id] = 4.0
    return policy


@pytest.fixture(params=[EOS, SILENT_TAG, SILENT_TAG_THINK], ids=lambda one: one.name)
def tagged(request, tmp_path):
    return loaded(request.param, tmp_path)


def test_actions_are_written_and_read(tagged):
    thought, cost = ("A red ball.", 4) if tagged.protocol.thought else ("", 0)
    wait, reply = tagged.encode_action(None, thought), tagged.encode_action("How many cubes?", thought)
    assert (wait.kind, reply.kind, reply.text) == ("silence", "reply", "How many cubes?")
    assert wait.thought_tokens == reply.thought_tokens == cost
    assert reply.tokens.count(tagged.end_id) == wait.tokens.count(tagged.end_id) == 1


def test_a_wait_of_eos_is_one_token_between_frames(clips, episodes, tmp_path):
    policy = loaded(EOS, tmp_path)
    conversation = Conversation(policy, Script(policy, FrameStore(clips, policy), episodes[0]))
    opening = len(conversation.ids)
    for turn in range(4):
        conversation.show(turn)
        conversation.act(turn, policy.encode_action("A red ball" if turn == 1 else None).tokens)
    said = policy.tokenizer.decode([i for i in conversation.ids[opening:] if i != policy.image_id])
    frames = "<|vision_start|><|vision_end|>" * 2
    query = "<|im_start|>user\n{}<|im_end|>\n"
    first, second = query.format("How many cubes?"), query.format("And <|image_pad|> now?")
    turns = [f"{first}{frames}<|im_end|>", f"{frames}A red ball<|im_end|>", f"{second}{frames}<|im_end|>"]
    assert said == "".join([*turns, f"{frames}<|im_end|>"])
    assert conversation.turn_ids.count(GIVEN) == len(conversation.ids) - 3 - 1 - len(policy.encode("A red ball"))


def test_rolled_out_log_probs_are_those_of_learning(tagged, clips, episodes):
    frames = FrameStore(clips, tagged)
    sampler = HfSampler(tagged, frames, max_action_tokens=6, max_context=4096)
    trajectories = sampler.rollout(episodes, 2, temperature=1.0, top_k=0, top_p=1.0, seed=3)
    by_id = {episode.id: episode for episode in episodes}
    batch = learning_batch(tagged, frames, [(by_id[one.episode], one) for one in trajectories])
    logp, _ = action_logprobs(tagged, batch, temperature=1.0, with_grad=False)
    torch.testing.assert_close(logp[batch.mask], batch.old_logprobs[batch.mask], atol=1e-4, rtol=0)
    script = Script(tagged, frames, episodes[1])
    conversation = Conversation(tagged, script)
    for turn in range(2):
        conversation.show(turn)
        conversation.act(turn, [7] * 5)
    assert script.longest(5) == len(conversation.ids)
