import colorsys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.videos import read_frames, write_clip
from turnwise.worlds.language import COLOURS, SURFACES
from turnwise.worlds.render import render
from turnwise.worlds.scenes import FEWEST_TURNS, Appearance, Look, Scene, draw_scene


@given(st.integers(0, 2**32), st.integers(FEWEST_TURNS, 30), st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_scripts_show_one_object_at_a_time_for_two_decision_times_at_least(seed, turns, step):
    scene = draw_scene(np.random.default_rng(seed), turns, step, 8)
    assert scene.appearances
    times = step * np.arange(1, turns + 1)
    for appearance in scene.appearances:
        assert ((times >= appearance.start) & (times < appearance.end)).sum() >= 2
        assert appearance.end <= times[-1] - step + 1 / 8
    for before, after in zip(scene.appearances, scene.appearances[1:], strict=False):
        assert before.end < after.start
        assert before.look != after.look


def test_coming_again_is_not_new():
    red, blue = Look("dark", "red"), Look("dark", "blue")
    shown = [Appearance(look, start, start + 5) for look, start in ((red, 2), (blue, 10), (red, 20))]
    assert Scene(15, 2.0, 4, tuple(shown)).new() == tuple(shown[:2])


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("colour", COLOURS)
def test_colour_and_surface_survive_the_video_codec(tmp_path, surface, colour):
    """They can be told from the middle of a decoded frame by the plainest rules."""
    scene = Scene(4, 1.0, 4, (Appearance(Look(surface, colour), 1.0, 3.0),))
    write_clip(tmp_path / "clip.mp4", render(np.random.default_rng(3), scene, 112), 4)
    empty, shown = read_frames(tmp_path / "clip.mp4", [0.5, 2.0])[:, 36:76, 36:76].astype(float) / 255
    assert empty.std() < 0.05
    lit = shown[shown.max(axis=2) > 0.2]
    hue, saturation, value = colorsys.rgb_to_hsv(*np.median(lit, axis=0))
    expected = {name: place / 6 for place, name in enumerate(COLOURS)}
    assert min(expected, key=lambda name: abs((hue - expected[name] + 0.5) % 1 - 0.5)) == colour
    seen = (
        "striped" if shown.max(axis=2).std() > 0.2 else "bright" if saturation < 0.7 else "dark" if value < 0.5 else ""
    )
    assert (seen or "plain") == surface
