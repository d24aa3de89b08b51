"""Reading an answer out of a response, strictly: one clear answer, or None."""

import re
from collections.abc import Sequence

LETTERS = "ABCDEFGH"
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SAID = re.compile(r"\b(?:answer|option|choice)\b(?:\s+(?:is|would be))?\s*[:=]?\s*\(?([A-H])(?!['\w])", re.IGNORECASE)
_ALONE = re.compile(r"(?<!['\w])([A-H])(?!['\w])(?!\s+[a-z])")


def letter_of(response: str, options: Sequence[str]) -> str | None:
    """The letter of the option that a response chooses; None where it chooses none, or more than one.

    In this order: a letter that is all it says; the letter after `answer`, `option` or `choice`; the only capital letter
    that stands by itself (`A`, as in `a dog`, is a word where a lower-case one follows); the text of exactly one option.

    Args:
        options: their texts, with or without the letter before them.
    """
    known = LETTERS[: len(options)]
    whole = re.fullmatch(r"\W*([A-Ha-h])\W*", response)
    if whole:
        found = {whole[1].upper()}
    else:
        found = {letter.upper() for letter in _SAID.findall(response)} or set(_ALONE.findall(response))
    if not found:
        texts = [_plain(re.sub(r"^\s*\(?[A-H][.):]\s*", "", option)) for option in options]
        found = {letter for letter, text in zip(known, texts, strict=True) if text and text == _plain(response)}
    return found.pop() if len(found) == 1 and found <= set(known) else None


def number_of(response: str) -> int | None:
    """The only number of a response, in digits or as an English word up to ten; None for none or several."""
    words = "|".join(NUMBERS)
    found = re.findall(rf"\d+(?:\.\d+)?|\b(?:{words})\b", response.lower())
    if len(found) != 1 or "." in found[0]:
        return None
    return NUMBERS.index(found[0]) if found[0] in NUMBERS else int(found[0])


def yes_or_no(response: str) -> str | None:
    """`Yes` or `No`, where the response says one of the two words and not the other (or is `Y` or `N`), else None."""
    found = set(re.findall(r"\b(?:yes|no)\b", response.lower())) or {
        {"y": "yes", "n": "no"}.get(response.strip(" .").lower(), "")
    }
    return found.pop().capitalize() or None if len(found) == 1 else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
