import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.policy.positions import Video, positions, text_positions, video_times, visual_positions

PAD = 9


def test_hand_worked():
    """Two text tokens, an image of 2 x 3, a token: rows are time, height and width."""
    placed, following = positions([1, 2, *[PAD] * 6, 3], [(2, 3)], {PAD})
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
    placed, following = positions(ids, grids, {PAD})
    for start in starts[1:]:
        assert placed[:, start].tolist() == [placed[:, :start].max() + 1] * 3
    assert following == placed.max() + 1


def test_images_side_by_side_are_two_images():
    placed, following = positions([PAD] * 8, [(2, 2), (2, 2)], {PAD})
    assert np.array_equal(placed, np.concatenate([visual_positions((2, 2)), visual_positions((2, 2), 2)], axis=1))
    assert following == 4


def test_an_empty_stretch_has_no_positions():
    assert positions([], [], {PAD})[0].shape == (3, 0)
    assert text_positions(2, start=5).tolist() == [[5, 6]] * 3


@pytest.mark.parametrize(
    ("ids", "grids"), [([PAD] * 4, []), ([1], [(1, 1)]), ([PAD] * 3, [(2, 2)]), ([PAD, 1, PAD, PAD], [(2, 2)])]
)
def test_placeholders_and_grids_must_match(ids, grids):
    with pytest.raises(ValueError, match="image"):
        positions(ids, grids, {PAD})


def theirs(policy, ids, *, images=(), videos=(), seconds=None, attention_mask=None):
    """transformers' positions [3, B, L] of rows of ids [B, L]; images and videos are grids (t, h, w) in visual tokens."""
    rows = torch.tensor(ids)
    kinds = (rows == policy.image_id).int() + 2 * (rows == policy.model.config.video_token_id).int()
    grids = [
        torch.tensor([(t, h * policy.merge, w * policy.merge) for t, h, w in each]) if each else None
        for each in (images, videos)
    ]
    extra = {"second_per_grid_ts": seconds} if seconds else {}
    return policy.model.model.get_rope_index(
        rows,
        mm_token_type_ids=kinds,
        image_grid_thw=grids[0],
        video_grid_thw=grids[1],
        attention_mask=attention_mask,
        **extra,
    )[0]


def test_equal_to_the_models_own_rule_for_images(policy):
    image = policy.image_id
    ids = [5, policy.vision_start_id, *[image] * 6, policy.vision_end_id, 6, 7, *[image] * 4, 8]
    placed = theirs(policy, [ids], images=[(1, 2, 3), (1, 4, 1)])
    assert positions(ids, [(2, 3), (4, 1)], {image})[0].tolist() == placed[:, 0].tolist()


def test_a_video_in_the_example_of_the_original_code():
    """Three patches of 2 x 2 tokens, one frame a second: times 50 apart, and text goes on after the largest, 100."""
    video = Video((2, 2), video_times(3, seconds=2.0, tokens_per_second=25))
    placed, following = positions([PAD] * 12 + [1] * 5, [video], {PAD})
    assert placed.tolist() == [
        [0] * 4 + [50] * 4 + [100] * 4 + [101, 102, 103, 104, 105],
        [0, 0, 1, 1] * 3 + [101, 102, 103, 104, 105],
        [0, 1, 0, 1] * 3 + [101, 102, 103, 104, 105],
    ]
    assert following == 106


def test_equal_to_the_models_own_rule_for_videos(policy):
    """Qwen2.5-VL's is right to the end of the first video, so each is compared from its own start on."""
    video, text = policy.model.config.video_token_id, [5, 6]
    if policy.model.config.model_type == "qwen3_vl":
        ids = [*text, *[video] * 6, 7, 8, *[video] * 6, *text]
        placed = theirs(policy, [ids], videos=[(2, 2, 3)])
        assert positions(ids, [(2, 3), (2, 3)], {video})[0].tolist() == placed[:, 0].tolist()
        return
    for patches, seconds in ((4, 1.0), (3, 1.5), (5, 0.25)):
        ids = [*text, *[video] * (6 * patches)]
        placed = theirs(policy, [ids], videos=[(patches, 2, 3)], seconds=[seconds])
        shown = Video((2, 3), video_times(patches, seconds, policy.model.config.vision_config.tokens_per_second))
        assert positions(ids, [shown], {video})[0].tolist() == placed[:, 0].tolist()


def test_left_padded_rows_have_the_same_positions(policy):
    image = policy.image_id
    short, long = [5, *[image] * 4, 8], [6, 7, *[image] * 6, 5, 5, 9]
    pad = len(long) - len(short)
    mask = torch.tensor([[0] * pad + [1] * len(short), [1] * len(long)])
    placed = theirs(policy, [[0] * pad + short, long], images=[(1, 2, 2), (1, 2, 3)], attention_mask=mask)
    assert placed[:, 0, pad:].tolist() == positions(short, [(2, 2)], {image})[0].tolist()
    assert placed[:, 1].tolist() == positions(long, [(2, 3)], {image})[0].tolist()
