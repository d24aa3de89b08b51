import numpy as np

from turnwise.policy.conversation import GIVEN, Conversation, Script, stack
from turnwise.policy.frames import frames_of
from turnwise.policy.positions import positions


def told(policy, frames, episode, texts):
    conversation = Conversation(policy, Script(policy, frames, episode))
    for turn, text in enumerate(texts):
        conversation.show(turn)
        conversation.act(turn, policy.encode_action(text).tokens)
    return conversation


def through_template(policy, frames, episode, texts):
    """The same conversation by the chat template, each image placeholder repeated as often as it has visual tokens."""
    height, width = frames.patches(frames_of(episode))[0].grid
    times = [*(h.frame_times for h in episode.history), *episode.grid.frame_times]
    queries = [[q.text for q in said] for said in episode.shown_queries()]
    shown = zip(times, queries, [*(h.text for h in episode.history), *texts], strict=True)
    messages = [{"role": "system", "content": policy.protocol.system}]
    for times, said, text in shown:
        content = [{"type": "image"} for _ in times] + [{"type": "text", "text": "\n".join(said)}]
        messages.append({"role": "user", "content": content})
        messages.append({"role": "assistant", "content": "NO REPLY" if text is None else text})
    text = policy.tokenizer.apply_chat_template(messages, tokenize=False)
    return policy.tokenizer.encode(text.replace("<|image_pad|>", "<|image_pad|>" * (height * width)))


def test_ids_are_those_of_the_chat_template(policy, frames, episodes):
    replies = [None, "A red ball?", "", "How many  cubes\nNO REPLY"]
    for episode in episodes:
        episode = episode.model_copy(update={"queries": episode.queries[:1]})
        texts = replies[: episode.turns]
        assert told(policy, frames, episode, texts).ids == through_template(policy, frames, episode, texts)


def test_a_question_comes_before_its_given_answer(policy, frames, episodes):
    opening = policy.tokenizer.decode(Script(policy, frames, episodes[1]).opening.ids)
    assert 0 < opening.find("How many cubes?") < opening.find("A red ball.")


def test_positions_are_those_of_the_whole(policy, frames, episodes):
    for episode in episodes:
        conversation = told(policy, frames, episode, [None] * episode.turns)
        piece = conversation.since(0)
        whole, following = positions(piece.ids, [grid for _, grid in piece.frames], {policy.image_id})
        assert np.array_equal(piece.positions, whole)
        assert piece.following == following


def test_only_actions_are_marked(policy, frames, episodes):
    texts = [None, "A red ball", "", "cubes"]
    conversation = told(policy, frames, episodes[0], texts)
    for turn, text in enumerate(texts):
        marked = [i for i, t in zip(conversation.ids, conversation.turn_ids, strict=True) if t == turn]
        assert tuple(marked) == policy.encode_action(text).tokens
    assert conversation.turn_ids.count(GIVEN) == len(conversation.ids) - sum(t >= 0 for t in conversation.turn_ids)


def test_a_capped_action_closes_its_turn_unmarked(policy, frames, episodes):
    script = Script(policy, frames, episodes[0])
    cut, whole = Conversation(policy, script), Conversation(policy, script)
    said = policy.encode("A red ball")
    for conversation, tokens in ((cut, said), (whole, [*said, policy.end_id])):
        conversation.show(0)
        conversation.act(0, tokens)
        conversation.show(1)
    assert cut.ids == whole.ids
    assert cut.since(0).frames == whole.since(0).frames
    assert [t for t in cut.turn_ids if t != GIVEN] == [0] * len(said)
    assert [t for t in whole.turn_ids if t != GIVEN] == [0] * (len(said) + 1)


def test_each_turn_shows_the_frames_of_its_own_time(policy, frames, episodes):
    script = Script(policy, frames, episodes[0])
    assert [[frame.time for frame, _ in turn.frames] for turn in script.turns] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    past = Script(policy, frames, episodes[1])
    assert [frame.time for frame, _ in past.opening.frames] == [1.0, 2.0]


def test_the_longest_conversation_has_every_action_at_the_cap(policy, frames, episodes):
    script = Script(policy, frames, episodes[1])
    conversation = Conversation(policy, script)
    for turn in range(2):
        conversation.show(turn)
        conversation.act(turn, [7] * 5)
    assert script.longest(5) == len(conversation.ids)


def test_rows_share_distinct_frames(policy, frames, episodes):
    pieces = [told(policy, frames, e, [None] * e.turns).since(0) for e in (*episodes, episodes[0])]
    rows = stack(pieces, policy)
    assert len(rows.frames) == len(set(rows.frames)) == 8 + 4
    assert rows.lengths.tolist() == [len(p.ids) for p in pieces]
    assert rows.slots[0].equal(rows.slots[2])
    assert set(rows.slots.unique().tolist()) == set(range(-1, int(rows.slots.max()) + 1))
    assert ((rows.slots >= 0) == (rows.ids == policy.image_id)).all()
