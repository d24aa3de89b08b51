"""Videos that training and evaluation share are found by name, by source, and by content."""

import json

import pytest

from turnwise.benchmarks.overlap import Training, source, training_clips
from turnwise.errors import UserError


@pytest.mark.parametrize(
    ("clip", "name"),
    [
        ("WEB/videos/LGgaMq1eZGw.52.mp4", "LGgaMq1eZGw"),
        ("x/cc575a16-64fd-4cda-9248-5d85f506fdfd-720-1080.mp4", "cc575a16-64fd-4cda-9248-5d85f506fdfd"),
        ("videos/Ego4D/clips/cc575a16-64fd-4cda-9248-5d85f506fdfd.MP4", "cc575a16-64fd-4cda-9248-5d85f506fdfd"),
        ("perception_test/video_4017.mp4", "video_4017"),
        ("Explosion016_x264.mp4", "Explosion016_x264"),
        ("AutoEvalMetaData/106.mp4", "106"),
        ("house_frames=house_s05e24_seg02_clip_25.mp4", "house_frames=house_s05e24_seg02_clip_25"),
    ],
)
def test_source(clip, name):
    assert source(clip) == name


def records(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_shared_by_name_and_by_content(tmp_path):
    training = records(
        tmp_path / "data/rl.jsonl",
        {"clip": "clips/LGgaMq1eZGw.7.mp4", "text": "line\u2028break"},
        {"episode": {"clip": "clips/one.mp4"}},
        {"video": "clips/two.mp4"},
    )
    for path, content in (("data/clips/one.mp4", b"same"), ("data/clips/two.mp4", b"2"), ("b/v/new.mp4", b"same")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    evaluation = ["v/LGgaMq1eZGw.52.mp4", "v/new.mp4", "v/other.mp4"]
    by_name = {"video": "v/LGgaMq1eZGw.52.mp4", "training": "clips/LGgaMq1eZGw.7.mp4", "because": "same name"}
    by_content = {"video": "v/new.mp4", "training": "clips/one.mp4", "because": "same content"}
    assert Training.of([training]).shared(evaluation) == [by_name]
    assert Training.of([training]).shared(evaluation, tmp_path / "b") == [by_name, by_content]
    assert Training.of([]).shared(evaluation, tmp_path / "b") == []


def test_a_json_list_is_read_and_bad_records_are_named(tmp_path):
    (tmp_path / "a.json").write_text('[{"video_path": "./x.mp4"}, {"video": "y.mp4"}, {"video": "y.mp4"}]')
    assert training_clips(tmp_path / "a.json") == ["./x.mp4", "y.mp4"]
    for text, fault in (
        ("[{}]", "record 1: names no video"),
        ("x", "neither JSON Lines nor"),
        ("[1]", "record 1: names no"),
    ):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(UserError, match=rf"a\.json: {fault}"):
            training_clips(tmp_path / "a.json")
    with pytest.raises(UserError, match="no such file"):
        training_clips(tmp_path / "b.json")
