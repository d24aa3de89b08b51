"""What is asked and said in the embedded world: few words, of which colours, surfaces, numbers and letters inform.

A reply is a template around the reference text of its window, so the informative words come early and two honest
replies about different things never share a prefix of 50 characters.
"""

from collections.abc import Sequence

import numpy as np

COLOURS = ("red", "yellow", "green", "cyan", "blue", "purple")
SURFACES = ("dark", "bright", "plain", "striped")
NUMBERS = ("one", "two", "three", "four")
LETTERS = ("A", "B", "C", "D")

EVERY_NEW = "Tell me about every new object that comes into view."
TUTORIALS = ("ShowTheCards", "PaintTheBoard", "SetTheTable")
SUBTITLES = (
    "Subtitle: Please keep looking at the screen.",
    "Subtitle: (Host:)Here we go, then.",
    "Subtitle: All right.",
)
WHAT_COLOUR = "What colour is the object on the screen now?"
WHAT_SURFACE = "What is the surface of the object on the screen like now?"
WHAT_SEEN = "What do you see?"
HOW_MANY = "How many objects are on the screen?"

REPLIES = {
    "new_object": (
        "Something {} has just now come into view there on the screen.",
        "There is something {} on the screen that has just come into view.",
        "Just now something {} has come into view there on the screen.",
    ),
    "count": (
        "This is time number {} that such a thing has come into view.",
        "Time number {} it is, as such a thing has now come into view.",
    ),
    "steps": (
        "Step {}, has just now come into view there on the screen.",
        "Now step {}, is on the screen and has just come into view.",
    ),
    "choice": (
        "{} is what the thing that is on the screen now looks like.",
        "{} is how the thing that is now on the screen looks.",
    ),
}
REPLIES["one_event"] = REPLIES["new_object"]
SEEN = "Something {} is on the screen and can be seen in this frame now."
NOTHING_SEEN = "There is nothing on the screen that can be seen in this frame now."
COUNTED = "There is one object on the screen now, and it looks {} in this frame."
NONE_COUNTED = "There are zero objects on the screen now, as nothing can be seen in this frame."


def replies(task: str, text: str) -> tuple[str, ...]:
    """The ways to say a window's reference text in an episode of that task."""
    return tuple(template.format(text) for template in REPLIES[task])


def thought(seen: str | None) -> str:
    """A thought about what is to be seen; None is nothing."""
    return f"I see {seen}." if seen else "I see nothing."


def tell_when(look: str) -> str:
    """The query of a single event."""
    return f"Tell me when something {look} comes into view."


def output_when(look: str, word: str) -> str:
    """The query of a single event that quotes a word to be said (StreamingBench's proactive output)."""
    return f'When something {look} comes into view, output "{word}".'


def activity(word: str) -> str:
    """What is counted, as OVO-Bench's `activity`."""
    return f"showing something {word}"


def how_often(event: str) -> str:
    """The query of a count, as it is asked of OVO-Bench's REC records."""
    return f"How many times does the event: {event} happen?"


def steps_of(tutorial: str) -> str:
    """The query of steps, as it is asked of OVO-Bench's SSR records: the CamelCase name split and lowered."""
    return "Describe the steps of " + "".join(f" {c.lower()}" if c.isupper() else c for c in tutorial).strip()


def lettered(options: Sequence[str]) -> list[str]:
    """Four options as `A. red`, ..."""
    return [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True)]


def four_way(question: str, options: Sequence[str]) -> str:
    """The query of a multiple choice: the question and its lettered options, one a line."""
    return "\n".join([question, *options])


def mistaken(rng: np.random.Generator, text: str) -> str:
    """The reference text with one informative word wrong; of a lettered answer, all of them."""
    words = text.replace(",", " ,").replace(".", " .").split()
    families = {
        i: family for i, w in enumerate(words) for family in (COLOURS, SURFACES, NUMBERS, LETTERS) if w in family
    }
    places = list(families) if words[0] in LETTERS else [int(rng.choice(list(families)))]
    for place in places:
        words[place] = str(rng.choice([word for word in families[place] if word != words[place]]))
    return " ".join(words).replace(" ,", ",").replace(" .", ".")
