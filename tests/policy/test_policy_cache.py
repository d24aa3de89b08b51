import torch

from turnwise.policy.cache import RaggedCache
from turnwise.policy.conversation import Conversation, Script, stack
from turnwise.policy.forward import hidden_states


def test_reading_in_steps_equals_reading_at_once(policy, frames, episodes):
    """Rows of different length, some left out of a step, one dropped: each sees its own past and nothing else."""
    conversations = [Conversation(policy, Script(policy, frames, episode)) for episode in episodes]
    conversations.append(Conversation(policy, Script(policy, frames, episodes[0])))
    cache, last = RaggedCache(3, policy.device), {}

    def read(which, starts, rows):
        batch = stack([conversations[c].since(start) for c, start in zip(which, starts, strict=True)], policy)
        mask = cache.open(torch.tensor(rows), batch.ids.shape[1], torch.float32)
        features = frames.features(batch.frames) if batch.frames else None
        hidden = hidden_states(policy, batch, features, mask=mask, cache=cache)
        cache.advance(batch.lengths)
        last.update({c: hidden[i, n - 1] for i, (c, n) in enumerate(zip(which, batch.lengths.tolist(), strict=True))})

    def ends():
        return [len(c.ids) for c in conversations]

    with torch.no_grad():
        read([0, 1, 2], [0, 0, 0], [0, 1, 2])
        before = ends()
        conversations[0].act(0, [7, 8, 9])
        conversations[2].act(0, [5])
        read([0, 2], [before[0], before[2]], [0, 2])
        before = ends()
        for conversation in conversations:
            conversation.show(0)
        read([0, 1, 2], before, [0, 1, 2])
        cache.keep(torch.tensor([1, 2]))
        before = ends()
        conversations[2].act(0, [6, 6, policy.end_id])
        read([2], [before[2]], [1])
        for c, conversation in enumerate(conversations):
            whole = stack([conversation.since(0)], policy)
            expected = hidden_states(policy, whole, frames.features(whole.frames))[0, -1]
            torch.testing.assert_close(last[c], expected, atol=1e-5, rtol=1e-4)
    assert cache.lengths.tolist() == ends()[1:]
