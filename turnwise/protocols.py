"""How silence and replies are written, on token ids: text is never read back.

`no_reply`: MMDuet2's (arXiv 2512.06810), where waiting is the text NO REPLY. `silent_tag_think`: ThinkStream's
(arXiv 2603.12938), a thought and then a tag. `silent_tag`: StreamPro's tags (arXiv 2605.16381). `eos`: VideoLLM-online's,
where the action follows the frames without a header and a wait is one token. System prompts are this project's own.

Left out: VideoLLM-online's threshold on the wait's probability, which is a way to sample and not to write.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from turnwise.errors import UserError
from turnwise.records import Kind

Role = Literal["silence", "speak", "text"]
"""What a token of an action does: belongs to a wait, is the decision to speak, or is said (or thought)."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way to write actions into the conversation; silence is an action like any other, sampled and trained."""

    name: str
    system: str
    """System prompt of a streaming conversation."""
    silence: str
    """The text of a wait, without the end-of-turn token; empty where that token alone is a wait."""
    reply: str = ""
    """Tag before a reply."""
    thought: tuple[str, str] | None = None
    """Tags around the thought that opens every action."""
    messages: bool = True
    """Frames come in a user's message and the action in an assistant's; False: the action follows the frames straight."""

    @property
    def texts(self) -> list[str]:
        """All fixed texts, for a tokenizer that is to know them."""
        return [text for text in (self.silence, self.reply, *(self.thought or ()), self.system) if text]


@dataclass(frozen=True, slots=True)
class Reading:
    """An action taken apart; the parts are slices of its tokens."""

    kind: Kind
    thought: slice
    """The thought without its tags; empty without one."""
    decision: slice
    """The wait with its end-of-turn token, or what says that a reply follows: its tag, or its first token without one."""
    said: slice
    """What a reply says; of a wait or a malformed action, all but the end-of-turn token."""


class Writing:
    """A protocol in the token ids of one tokenizer."""

    def __init__(self, protocol: Protocol, encode: Callable[[str], Sequence[int]], end_id: int):
        """`encode` gives the ids of plain text; `end_id` is the end-of-turn token."""
        self._encode, self._end = encode, end_id
        self.silence, self.reply = list(encode(protocol.silence)), list(encode(protocol.reply))
        self._opens, self._closes = (list(encode(tag)) for tag in protocol.thought or ("", ""))
        tags = [self._opens, self._closes, self.reply, *([self.silence] if self.reply else [])]
        self._tags = [tag for tag in tags if tag]

    def write(self, text: str | None, thought: str = "") -> list[int]:
        """Tokens of the action that says `text` (None: a wait), each part encoded by itself so that tags stay whole."""
        said = self.silence if text is None else [*self.reply, *self._encode(text)]
        thinking = [*self._opens, *self._encode(thought), *self._closes] if self._opens else []
        return [*thinking, *said, self._end]

    def read(self, tokens: Sequence[int]) -> Reading:
        """Take an action of at least one token apart.

        A wait is exactly the tokens that `write` gives it, the end-of-turn token included, after a thought where the
        protocol has them. A reply holds a token or more after its tag, and may be cut. All else is malformed: a missing
        or open thought, no tag or an unknown one, a tag within a thought or a reply, and nothing but the end.
        """
        ended = tokens[-1] == self._end
        body = list(tokens[: len(tokens) - ended])
        malformed = Reading("malformed", slice(0, 0), slice(0, 0), slice(0, len(body)))
        thought = self._thought(body)
        if thought is None:
            return malformed
        start = thought.stop + len(self._closes)
        if ended and body[start:] == self.silence:
            return Reading("silence", thought, slice(start, len(tokens)), slice(0, len(body)))
        said = start + len(self.reply)
        if body[start:said] != self.reply or said == len(body) or self._holds_tag(body[said:]):
            return malformed
        return Reading("reply", thought, slice(start, said if self.reply else said + 1), slice(said, len(body)))

    def roles(self, tokens: Sequence[int]) -> list[Role]:
        """What each token of an action [K] does; all of a malformed one is text."""
        reading = self.read(tokens)
        roles: list[Role] = ["text"] * len(tokens)
        for k in range(reading.decision.start, reading.decision.stop):
            roles[k] = "silence" if reading.kind == "silence" else "speak"
        return roles

    def _thought(self, body: list[int]) -> slice | None:
        """The thought that opens an action; empty where the protocol has none, None where it is not as it should be."""
        if not self._opens:
            return slice(0, 0)
        start = len(self._opens)
        length = _find(body[start:], self._closes)
        if body[:start] != self._opens or length < 0 or self._holds_tag(body[start : start + length]):
            return None
        return slice(start, start + length)

    def _holds_tag(self, tokens: list[int]) -> bool:
        return any(_find(tokens, tag) >= 0 for tag in self._tags)


def _find(tokens: Sequence[int], wanted: Sequence[int]) -> int:
    """Index of the first occurrence of some tokens; -1 without one."""
    places = range(len(tokens) - len(wanted) + 1)
    return next((at for at in places if tokens[at : at + len(wanted)] == wanted), -1)


NO_REPLY = Protocol(
    name="no_reply",
    system='Answer from what the video shows since your last reply. If there is nothing to say, output "NO REPLY".',
    silence="NO REPLY",
)
SILENT_TAG_THINK = Protocol(
    name="silent_tag_think",
    system="Write what you see between <think> and </think>. Then write <response> and an answer from what the video "
    "shows since your last reply, or <silent> if there is nothing to say.",
    silence="<silent>",
    reply="<response>",
    thought=("<think>", "</think>"),
)
SILENT_TAG = Protocol(
    name="silent_tag",
    system="Write </Response> and an answer from what the video shows since your last reply, or </Silence> if there is "
    "nothing to say.",
    silence="</Silence>",
    reply="</Response>",
)
EOS = Protocol(
    name="eos",
    system="Answer from what the video shows since your last reply, as soon as it shows it.",
    silence="",
    messages=False,
)

PROTOCOLS = {protocol.name: protocol for protocol in (NO_REPLY, SILENT_TAG_THINK, SILENT_TAG, EOS)}


def protocol(name: str) -> Protocol:
    """The protocol of that name. Raises UserError listing the known ones."""
    if name not in PROTOCOLS:
        raise UserError(f"params.yaml: protocol: {name!r} is unknown; choose one of {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]
