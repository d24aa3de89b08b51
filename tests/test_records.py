import numpy as np

from turnwise.records import Group


def test_earned_and_remaining_split_the_reward():
    group = Group(scores=np.array([[0.375, 2.0, 1.5], [0.375, 0.375, 3.0]]))
    assert group.earned.tolist() == [[0.0, 1.625], [0.0, 0.0]]
    assert group.remaining.tolist() == [[1.125, -0.5], [2.625, 2.625]]
    assert np.array_equal(group.earned + group.remaining, np.repeat((group.rewards - 0.375)[:, None], 2, axis=1))
