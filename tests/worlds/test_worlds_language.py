import itertools

import numpy as np
import pytest

from turnwise.judging.rules import content, level
from turnwise.protocols import NO_REPLY
from turnwise.worlds import language as say
from turnwise.worlds.scenes import Look

LOOKS = [str(Look(surface, colour)) for surface in say.SURFACES for colour in say.COLOURS]
REFERENCES = {
    "new_object": LOOKS,
    "one_event": LOOKS,
    "count": list(say.NUMBERS),
    "steps": [f"{number}, {look}" for number, look in itertools.product(say.NUMBERS, LOOKS[::5])],
    "choice": [f"{letter}. {colour}" for letter, colour in itertools.product(say.LETTERS, say.COLOURS)],
}


@pytest.mark.parametrize("task", say.REPLIES)
def test_replies_are_natural_sentences_of_four_times_a_wait(task):
    # A byte-pair tokenizer that learns whole words spends a token a word, and one more on the full stop.
    wait = len(NO_REPLY.silence.split()) + 1
    for reply in say.replies(task, REFERENCES[task][0]):
        assert len(reply.split()) + 1 >= 4 * wait
        assert reply[0].isupper()
        assert reply.endswith(".")


@pytest.mark.parametrize("task", say.REPLIES)
def test_only_the_reference_informs(task):
    for reference in REFERENCES[task]:
        assert all(content(reply) == content(reference) for reply in say.replies(task, reference))


@pytest.mark.parametrize("task", say.REPLIES)
def test_honest_replies_about_different_things_share_no_long_prefix(task):
    texts = [(r, reply) for r in REFERENCES[task] for reply in say.replies(task, r)]
    for (one, left), (other, right) in itertools.combinations(texts, 2):
        assert one == other or left[:50] != right[:50]


@pytest.mark.parametrize("task", say.REPLIES)
def test_a_mistake_costs_the_best_level(task):
    rng = np.random.default_rng(0)
    for reference in REFERENCES[task]:
        wrong = say.mistaken(rng, reference)
        assert wrong != reference
        assert level(say.replies(task, wrong)[0], reference, 5) < 4
        assert len(wrong.split()) == len(reference.split())


def test_queries_read_as_the_benchmarks_ask_them():
    assert say.steps_of("ShowTheCards") == "Describe the steps of show the cards"
    assert say.how_often(say.activity("red")) == "How many times does the event: showing something red happen?"
    assert say.four_way("Which?", say.lettered(["a", "b", "c", "d"])) == "Which?\nA. a\nB. b\nC. c\nD. d"
