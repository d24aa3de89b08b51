import pytest

from turnwise.rewards import pauc

REPLIES = [(312, 0), (328, 1), (344, 2), (352, 2)]


@pytest.mark.parametrize(("omega", "value"), [(0.0, 48.5 / 98), (0.5, 293 / 392), (1.0, 1.0)])
def test_the_papers_worked_example(omega, value):
    assert pauc(REPLIES, (311, 360), top=2, omega=omega) == pytest.approx(value, abs=1e-15)


def test_silence_is_worth_half_a_point():
    assert pauc([], (3.0, 7.0), top=2, omega=0.5) == 0.25
    assert pauc([], (3.0, 7.0), top=4, omega=0.5) == 0.125


def test_a_wrong_answer_is_worse_than_none():
    assert pauc([(4.0, 0)], (3.0, 7.0), top=2, omega=0.0) < 0.25 < pauc([(4.0, 1)], (3.0, 7.0), top=2, omega=0.0)
