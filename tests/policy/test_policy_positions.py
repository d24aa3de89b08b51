import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.policy.positions import image_positions, positions, text_positions

PAD = 9


def test_hand_worked():
    """Two text tokens, an image of 2 x 3, a token: rows are time, height and width."""
    placed, following = positions([1, 2, *[PAD] * 6, 3], [(2, 3)], PAD)
    assert placed.tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5],
        [0, 1, 2, 2, 2, 3, 3, 3, 5],
        [0, 1, 2, 3, 4, 2, 3, 4, 5],
    ]
    assert following == 6


@given(st.lists(st.one_of(st.integers(1, 5), st.tuples(st.integers(1, 4), st.integers(1, 4))), min_size=1, max_size=6))
def test_a_segment_starts_after_the_largest_position(segments):
    ids, grids, starts = [], [], []
    for segment in segments:
        starts.append(len(ids))
        ids += [1] * segment if isinstance(segment, int) else [PAD] * (segment[0] * segment[1])
        grids += [] if isinstance(segment, int) else [segment]
    placed, following = positions(ids, grids, PAD)
    for start in starts[1:]:
        assert placed[:, start].tolist() == [placed[:, :start].max() + 1] * 3
    assert following == placed.max() + 1


def test_images_side_by_side_are_two_images():
    placed, following = positions([PAD] * 8, [(2, 2), (2, 2)], PAD)
    assert np.array_equal(placed, np.concatenate([image_positions((2, 2)), image_positions((2, 2), 2)], axis=1))
    assert following == 4


def test_an_empty_stretch_has_no_positions():
    assert positions([], [], PAD)[0].shape == (3, 0)
    assert text_positions(2, start=5).tolist() == [[5, 6]] * 3


@pytest.mark.parametrize(
    ("ids", "grids"), [([PAD] * 4, []), ([1], [(1, 1)]), ([PAD] * 3, [(2, 2)]), ([PAD, 1, PAD, PAD], [(2, 2)])]
)
def test_placeholders_and_grids_must_match(ids, grids):
    with pytest.raises(ValueError, match="image"):
        positions(ids, grids, PAD)


def test_equal_to_the_models_own_rule_for_images(policy):
    image = policy.image_id
    ids = [5, policy.vision_start_id, *[image] * 6, policy.vision_end_id, 6, 7, *[image] * 4, 8]
    grids = [(2, 3), (4, 1)]
    theirs, _ = policy.model.model.get_rope_index(
        torch.tensor([ids]),
        mm_token_type_ids=(torch.tensor([ids]) == image).int(),
        image_grid_thw=torch.tensor([[1, h * policy.merge, w * policy.merge] for h, w in grids]),
    )
    assert positions(ids, grids, image)[0].tolist() == theirs[:, 0].tolist()
