import pytest

from turnwise.errors import UserError
from turnwise.protocols import NO_REPLY, protocol

END = 9


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [
        ((1, 2, END), "silence"),
        ((1, 2), "reply"),
        ((1, 2, 3, END), "reply"),
        ((END,), "malformed"),
        ((1, END), "reply"),
    ],
)
def test_silence_is_read_from_token_ids(tokens, kind):
    assert NO_REPLY.classify(tokens, (1, 2), END) == kind


def test_unknown_protocols_list_the_known():
    assert protocol("no_reply") is NO_REPLY
    with pytest.raises(UserError, match="choose one of no_reply"):
        protocol("x")
