import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.policy.cache import RaggedCache
from turnwise.policy.conversation import NOTHING, Conversation, Script, stack
from turnwise.policy.forward import hidden_states


def test_reading_in_steps_equals_reading_at_once(policy, frames, episodes):
    """Rows of different length, some left out of a step, some standing by, one dropped: each sees its own past alone."""
    conversations = [Conversation(policy, Script(policy, frames, episode)) for episode in episodes]
    conversations.append(Conversation(policy, Script(policy, frames, episodes[0])))
    cache, last, here = RaggedCache(3, policy.device), {}, [0, 1, 2]

    def read(starts, standing_by=()):
        """The tokens of conversations from these on."""
        chosen = [c for c in here if c in starts or c in standing_by]
        batch = stack([conversations[c].since(starts[c]) if c in starts else NOTHING for c in chosen], policy)
        mask = cache.open(torch.tensor([here.index(c) for c in chosen]), batch.ids.shape[1], torch.float32)
        features = frames.features(batch.frames) if batch.frames else None
        hidden = hidden_states(policy, batch, features, mask=mask, cache=cache)
        cache.advance(batch.lengths)
        ends = zip(chosen, batch.lengths.tolist(), strict=True)
        last.update({c: hidden[i, n - 1] for i, (c, n) in enumerate(ends) if n})

    def ends():
        return [len(c.ids) for c in conversations]

    with torch.no_grad():
        read({0: 0, 1: 0, 2: 0})
        before = ends()
        conversations[0].act(0, [7, 8, 9])
        conversations[2].act(0, [5])
        read({0: before[0]}, standing_by=(1, 2))
        read({2: before[2]})
        before = ends()
        for conversation in conversations:
            conversation.show(0)
        read(dict(enumerate(before)))
        cache.keep(torch.tensor([1, 2]))
        here.remove(0)
        before = ends()
        conversations[2].act(0, [6, 6, policy.end_id])
        read({2: before[2]})
        for c, conversation in enumerate(conversations):
            whole = stack([conversation.since(0)], policy)
            expected = hidden_states(policy, whole, frames.features(whole.frames))[0, -1]
            torch.testing.assert_close(last[c], expected, atol=1e-5, rtol=1e-4)
    assert cache.lengths.tolist() == ends()[1:]


@given(st.lists(st.lists(st.integers(1, 100), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_long_action_of_one_row_does_not_lengthen_the_others(turns):
    """Three rows whose actions differ in length, turn by turn: the memory spans the longest row, and no gap is kept."""
    cache, rows = RaggedCache(3, torch.device("cpu")), torch.arange(3)
    for lengths in torch.tensor(turns):
        mask = cache.open(rows, int(lengths.max()), torch.float32)
        new = torch.zeros(3, 1, int(lengths.max()), 2)
        keys, _ = cache.update(new, new, layer=0)
        assert keys.shape[2] == mask.shape[-1] == int(cache.lengths.max() + lengths.max())
        cache.advance(lengths)
    assert cache.lengths.tolist() == torch.tensor(turns).sum(0).tolist()
    cache.open(rows, 1, torch.float32)
    keys, _ = cache.update(new[:, :, :1], new[:, :, :1], layer=0)
    assert keys.shape[2] == int(cache.lengths.max()) + 1
