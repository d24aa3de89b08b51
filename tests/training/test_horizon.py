import numpy as np
import pytest

from turnwise.config import Horizon, compose, validate
from turnwise.episodes import Episode, Grid, cut
from turnwise.training.epoch import shortened

RL = validate(compose([]), "x").rl
EPISODES = [
    Episode(id=f"e{i}", clip="c.mp4", task="t", grid=Grid(frame_interval=2.0, turns=12), queries=(), windows=())
    for i in range(60)
]


def turns(kind, update, episodes=EPISODES, seed=0, **horizon):
    given = {"shortest": 4, "ramp": 0.5} | horizon
    rl = RL.model_copy(update={"horizon": Horizon(kind=kind, **given), "updates": 20})
    return [shortened(episode, rl, seed, update).turns for episode in episodes]


def test_a_fixed_horizon_is_the_episode_itself():
    assert shortened(EPISODES[0], RL, 0, 3) is EPISODES[0]


def test_a_uniform_horizon_is_drawn_for_each_group_and_update():
    first = turns("uniform", 1)
    assert set(first) == set(range(4, 13))
    assert first == turns("uniform", 1) == turns("uniform", 1, EPISODES[::-1])[::-1]
    assert first != turns("uniform", 2)
    assert first != turns("uniform", 1, seed=1)
    assert np.mean([turns("uniform", u) for u in range(1, 40)]) == pytest.approx(8, abs=0.2)


def test_a_curriculum_rises_to_the_whole_episode():
    course = [turns("curriculum", update, EPISODES[:1])[0] for update in range(1, 21)]
    assert course == sorted(course)
    assert (course[0], course[5], course[10], course[-1]) == (4, 8, 12, 12)
    assert turns("curriculum", 1, EPISODES[:1], shortest=30) == [12]


def test_what_was_rolled_out_is_found_again():
    shorter = cut(EPISODES[:2], {"e0": 5})
    assert (shorter["e0"].turns, shorter["e1"].turns) == (5, 12)
    assert shorter["e0"].grid.times == EPISODES[0].grid.times[:5]
