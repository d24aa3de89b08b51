"""How silence and replies are written, on token ids. `no_reply`: MMDuet2's, where waiting is the text NO REPLY."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.errors import UserError
from turnwise.records import Kind


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way to write actions into the chat template; silence is an action like any other, sampled and trained."""

    name: str
    system: str
    """System prompt of a streaming conversation."""
    silence: str
    """The text of a wait, without the end-of-turn token."""

    def classify(self, tokens: Sequence[int], silence_ids: Sequence[int], end_id: int) -> Kind:
        """Kind of an action from its token ids.

        Silence is exactly `silence_ids` then `end_id`; a bare `end_id` is malformed; all else, a cut action too, is a reply.
        """
        if list(tokens) == [*silence_ids, end_id]:
            return "silence"
        return "malformed" if list(tokens) == [end_id] else "reply"


NO_REPLY = Protocol(
    name="no_reply",
    system='Answer from what the video shows since your last reply. If there is nothing to say, output "NO REPLY".',
    silence="NO REPLY",
)

PROTOCOLS = {NO_REPLY.name: NO_REPLY}


def protocol(name: str) -> Protocol:
    """The protocol of that name. Raises UserError listing the known ones."""
    if name not in PROTOCOLS:
        raise UserError(f"params.yaml: protocol: {name!r} is unknown; choose one of {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]
