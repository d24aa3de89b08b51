"""The judge of the embedded world: it compares words, needs no model, and never abstains."""

import hashlib
import re
from pathlib import Path

from turnwise.judging.base import Grade, Judge, Verdict

FILLER = frozenset(
    """a an the this that these those some any such and or but as then so there here it its i you we they
    is are was were be been being am has have had do does did can could will would may might must shall should
    on in into at of to from for with by about
    what which who how when where like thing things something anything object objects item items one's
    screen view video clip frame frames image picture scene time times number step steps option answer
    come comes came coming appear appears appeared appearing show shows showed shown showing see sees seen saw
    look looks looked looking say says said happen happens happened turn turns turned
    now just again also only please already still new newly currently""".split()  # noqa: SIM905
)
"""Words of generic English that say nothing about what was seen. All others inform: colours, surfaces, numbers,
`nothing`, the letter of an option."""

_WORD = re.compile(r"(?P<option>\b[A-E]\b(?!'|\s+\w))|(?P<word>\w+(?:'\w+)?)")


def content(text: str) -> frozenset[str]:
    """The informative words of a text, lower-cased; all its words where none informs.

    A capital letter A to E by itself is the letter of an option, written `(a)`, unless a word follows it straight away
    (`A red object`): `A.`, `(B) red`, `it is C`.
    """
    words = {f"({m['option'].lower()})" if m["option"] else m["word"].lower() for m in _WORD.finditer(text)}
    return frozenset(words - FILLER or words)


class RuleJudge(Judge):
    """Compares the informative words of reply and reference; see `level` and `repeats`."""

    def __init__(self, levels: int):
        """`levels` of the rubric it is configured with: part of its name. A grade brings its own."""
        self.name = f"rule-{levels}"
        self.version = f"rule@{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"

    async def grade(self, item: Grade) -> Verdict:
        """Always a score."""
        if item.kind == "repeat":
            return Verdict(float(repeats(item.reply, item.reference)))
        if item.kind == "dialogue":
            return Verdict(float(dialogue(item.reply, item.reference)))
        return Verdict(float(level(item.reply, item.reference, item.levels)))


def level(reply: str, reference: str, levels: int) -> int:
    """0..levels-1: the F1 of the two sets of informative words, times levels - 1, rounded down.

    The same words, in any order and any filler, are the best level; one of two right and none wrong, or one right
    and one wrong, is in the middle; none right is 0. A wrong word costs as much as a missing one.
    """
    said, expected = content(reply), content(reference)
    return 2 * len(said & expected) * (levels - 1) // max(1, len(said) + len(expected))


def repeats(reply: str, earlier: str) -> bool:
    """Whether one earlier reply (a line of `earlier`) alone says every informative word of the reply.

    One line, since `dark red` and `bright blue` do not make a `dark blue` said before.
    """
    said = content(reply)
    return any(said <= content(line) for line in earlier.splitlines())


def dialogue(said: str, expected: str) -> int:
    """How many of three checkpoints the replies so far (lines `4.0 s: text`) meet, given the expected answers (likewise).

    Granularity: no more replies than answers. Sequence: the answers that replies are closest to come in their order.
    Coverage: every answer is said, and every reply says a part of one. None before a reply says a part of an answer.
    """
    replies, answers = ([line.partition(" s: ")[2] for line in text.splitlines()] for text in (said, expected))
    found = [[level(reply, answer, 5) for answer in answers] for reply in replies]
    closest = [row.index(max(row)) for row in found if any(row)]
    covered = all(any(row[w] == 4 for row in found) for w in range(len(answers))) and len(closest) == len(replies)
    return (len(replies) <= len(answers)) + (closest == sorted(closest)) + covered if closest else 0
