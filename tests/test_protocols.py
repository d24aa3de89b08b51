import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UserError
from turnwise.protocols import EOS, NO_REPLY, PROTOCOLS, SILENT_TAG, SILENT_TAG_THINK, Writing, protocol

END = 9
OPEN, CLOSE, REPLY, SILENT = (1, 2), (3, 2), (4, 5), (6, 2)
"""Tags of two tokens that share one, as `<think`, `>` and `</think`, `>` do."""
TAGS = {"<think>": OPEN, "</think>": CLOSE, "<response>": REPLY, "</Response>": REPLY, "<silent>": SILENT}
TAGS |= {"</Silence>": SILENT, "NO REPLY": (7, 8), "": ()}

tokens = st.lists(st.integers(0, END), min_size=1, max_size=9)
words = st.lists(st.sampled_from([0, 2, 5, 7, 8]), max_size=4)
"""Token ids of a text; none of them begins a tag."""


def encode(text):
    return TAGS[text] if text in TAGS else tuple(map(int, text.split()))


def writing(which):
    return Writing(which, encode, END)


def text_of(ids):
    return " ".join(map(str, ids)) or " "


every_protocol = pytest.mark.parametrize("which", PROTOCOLS.values(), ids=PROTOCOLS)
tagged = pytest.mark.parametrize("which", [SILENT_TAG, SILENT_TAG_THINK], ids=lambda one: one.name)


@pytest.mark.parametrize(
    ("which", "action", "kind"),
    [
        (NO_REPLY, (7, 8, END), "silence"),
        (NO_REPLY, (7, 8), "reply"),
        (NO_REPLY, (7, 8, 3, END), "reply"),
        (NO_REPLY, (END,), "malformed"),
        (NO_REPLY, (7, END), "reply"),
        (EOS, (END,), "silence"),
        (EOS, (0, END), "reply"),
        (EOS, (0,), "reply"),
        (SILENT_TAG, (*SILENT, END), "silence"),
        (SILENT_TAG, SILENT, "malformed"),
        (SILENT_TAG, (*SILENT, 0, END), "malformed"),
        (SILENT_TAG, (*REPLY, 0, END), "reply"),
        (SILENT_TAG, (*REPLY, 0), "reply"),
        (SILENT_TAG, (*REPLY, END), "malformed"),
        (SILENT_TAG, (0, END), "malformed"),
        (SILENT_TAG, (*REPLY, 0, *SILENT, END), "malformed"),
        (SILENT_TAG_THINK, (*OPEN, 0, *CLOSE, *SILENT, END), "silence"),
        (SILENT_TAG_THINK, (*OPEN, *CLOSE, *REPLY, 0, END), "reply"),
        (SILENT_TAG_THINK, (*SILENT, END), "malformed"),
        (SILENT_TAG_THINK, (*OPEN, 0, *SILENT, END), "malformed"),
        (SILENT_TAG_THINK, (*OPEN, *SILENT, *CLOSE, *SILENT, END), "malformed"),
        (SILENT_TAG_THINK, (*OPEN, 0, *CLOSE, 0, *SILENT, END), "malformed"),
        (SILENT_TAG_THINK, (*OPEN, 0), "malformed"),
    ],
)
def test_actions_are_read_from_token_ids(which, action, kind):
    assert writing(which).read(action).kind == kind


@every_protocol
@given(said=words.filter(bool), thought=words)
def test_what_is_written_is_read(which, said, thought):
    if which is NO_REPLY and said == [7, 8]:
        return
    code = writing(which)
    for text, kind in ((None, "silence"), (text_of(said), "reply")):
        action = code.write(text, text_of(thought))
        reading = code.read(action)
        assert (reading.kind, action[-1], action.count(END)) == (kind, END, 1)
        assert action[reading.thought] == (thought if which.thought else [])
        assert kind == "silence" or action[reading.said] == said


@every_protocol
@given(action=tokens)
def test_only_the_wait_itself_is_silence_and_nothing_is_left_unread(which, action):
    code = writing(which)
    reading = code.read(action)
    assert reading.kind in ("silence", "reply", "malformed")
    wait = code.write(None, text_of(action[reading.thought]))
    assert (reading.kind == "silence") == (action == wait)
    if reading.kind == "malformed":
        assert action[reading.said] == (action[:-1] if action[-1] == END else action)
    roles = code.roles(action)
    assert len(roles) == len(action)
    assert {"silence": "silence", "reply": "speak"}.get(reading.kind, "text") in roles
    assert len({"silence", "speak"} & set(roles)) == (reading.kind != "malformed")


@tagged
@given(thought=words, place=st.integers(0, 9), token=st.integers(0, END))
def test_a_damaged_wait_is_never_silence(which, thought, place, token):
    code = writing(which)
    wait = code.write(None, text_of(thought))
    assert code.read(wait[:-1]).kind == "malformed"
    start = len(wait) - len(SILENT) - 1
    place = start + place % (len(wait) - start)
    if token != wait[place]:
        assert code.read([*wait[:place], token, *wait[place + 1 :]]).kind == "malformed"


@tagged
@given(said=words.filter(bool), place=st.integers(0, 4), tag=st.sampled_from([REPLY, SILENT]))
def test_a_tag_within_a_reply_is_malformed(which, said, place, tag):
    code = writing(which)
    action = code.write(text_of([*said[:place], *tag, *said[place:]]))
    assert code.read(action).kind == "malformed"


def test_the_decision_to_speak_is_the_tag_or_the_first_token():
    reply = writing(SILENT_TAG_THINK).write("0 7", "8")
    assert writing(SILENT_TAG_THINK).roles(reply) == ["text"] * 5 + ["speak"] * 2 + ["text"] * 3
    assert writing(EOS).roles([0, 7, END]) == ["speak", "text", "text"]
    assert writing(EOS).roles([END]) == ["silence"]
    assert writing(NO_REPLY).roles([7, 8, END]) == ["silence"] * 3


def test_unknown_protocols_list_the_known():
    assert protocol("no_reply") is NO_REPLY
    with pytest.raises(UserError, match="choose one of eos, no_reply, silent_tag, silent_tag_think"):
        protocol("x")
