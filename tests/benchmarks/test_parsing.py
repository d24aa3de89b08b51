"""What strict reading takes for an answer, and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.benchmarks.parsing import letter_of, number_of, yes_or_no

OPTIONS = ("A. a red cup", "B. a blue cup", "C. Two cups.", "D. none")


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("B", "B"),
        (" (b). ", "B"),
        ("B. a blue cup", "B"),
        ("Definitely B", "B"),
        ("The answer is C, not A", "C"),
        ("Option D", "D"),
        ("A blue cup", "B"),
        ("two cups", "C"),
        ("A dog or a cat", None),
        ("A, D", None),
        ("E", None),
        ("a red cup and a blue cup", None),
        ("ABD", None),
        ("", None),
        ("CAT", None),
    ],
)
def test_letter(response, letter):
    assert letter_of(response, OPTIONS) == letter


def test_the_same_option_twice_is_no_clear_answer():
    assert letter_of("cup", ("cup", "hat", "cup")) is None
    assert letter_of("hat", ("cup", "hat", "cup")) == "B"


@pytest.mark.parametrize(
    ("response", "number"),
    [
        ("3", 3),
        ("It happened three times.", 3),
        ("10.", 10),
        ("0", 0),
        ("2 or 3", None),
        ("3.5", None),
        ("often", None),
    ],
)
def test_number(response, number):
    assert number_of(response) == number


@pytest.mark.parametrize(
    ("response", "word"),
    [
        ("Yes", "Yes"),
        ("no.", "No"),
        ("Y", "Yes"),
        ("n.", "No"),
        ("Yes and no", None),
        ("eyes", None),
        ("Nothing", None),
    ],
)
def test_yes_or_no(response, word):
    assert yes_or_no(response) == word


@given(st.text())
def test_any_text_is_read_or_not(text):
    assert letter_of(text, OPTIONS) in {"A", "B", "C", "D", None}
    assert yes_or_no(text) in {"Yes", "No", None}
    number_of(text)
