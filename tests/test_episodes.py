import json

import pytest
from pydantic import ValidationError

from turnwise.episodes import (
    Demonstration,
    Episode,
    Grid,
    Query,
    Window,
    read_demonstrations,
    read_episodes,
    write_records,
)
from turnwise.errors import UserError


def episode(**changes) -> Episode:
    fields = {
        "id": "e",
        "clip": "a.mp4",
        "task": "new_object",
        "grid": Grid(frame_interval=2, turns=3),
        "queries": (Query(text="first", time=0), Query(text="second", time=4)),
        "windows": (Window(text="w", related=(2, 4), reply=(2, 5)), Window(text="v", related=(4, 6), reply=(4, 6))),
    }
    return Episode(**{**fields, **changes})


def test_decisions_come_after_their_frames():
    grid = Grid(start=1, frame_interval=0.5, frames_per_turn=2, turns=2)
    assert grid.times == (2.0, 3.0)
    assert grid.frame_times == ((1.5, 2.0), (2.5, 3.0))


def test_queries_are_shown_once_in_the_first_turn_not_before_them():
    assert [[q.text for q in said] for said in episode().shown_queries()] == [["first"], ["second"], []]


def test_a_given_turn_shows_the_queries_said_by_its_time():
    given = [{"time": t, "frame_times": (t,), "text": "said"} for t in (2, 4)]
    queries = [Query(text=str(t), time=t) for t in (0, 2, 2.5, 4, 4.5, 6, 9)]
    asked = episode(grid=Grid(start=4, frame_interval=2, turns=2), history=given, queries=queries)
    shown = [["0", "2"], ["2.5", "4"], ["4.5", "6"], []]
    assert [[q.text for q in said] for said in asked.shown_queries()] == shown


def test_windows_hold_both_of_their_ends():
    assert [episode().windows_at(t) for t in (1.9, 2, 4, 5, 6, 6.1)] == [(), (0,), (0, 1), (0, 1), (1,), ()]


def test_the_question_is_the_latest_one_said():
    assert [episode().question_at(t) for t in (0, 3.9, 4)] == ["first", "first", "second"]


def test_a_subtitle_is_not_a_question():
    subtitled = episode(queries=(Query(text="first", time=0), Query(text="Subtitle: Hello.", time=2)))
    assert subtitled.question_at(4) == "first"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"queries": (Query(text="b", time=4), Query(text="a", time=0))}, "queries must be in time order"),
        ({"history": ({"time": 3, "frame_times": (3,), "text": None},)}, "history ends"),
        ({"grid": {"frame_interval": 0, "turns": 3}}, "greater than 0"),
        ({"clip": ""}, "at least 1 character"),
        ({"clip": "a/../../b.mp4"}, "leaves the folder"),
        ({"clip": "/etc/passwd"}, "leaves the folder"),
    ],
)
def test_faulty_episodes_are_refused(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        episode(**changes)


def test_a_span_must_end_after_it_starts():
    with pytest.raises(ValidationError, match="must end after it starts"):
        Window(text="w", related=(2, 2), reply=(2, 3))


def test_records_survive_the_file(tmp_path):
    demonstration = Demonstration(episode=episode(), actions=(None, "x", None))
    write_records(tmp_path / "d.jsonl", [demonstration])
    write_records(tmp_path / "e.jsonl", [episode(), episode(id="f")])
    assert read_demonstrations(tmp_path / "d.jsonl") == [demonstration]
    assert read_episodes(tmp_path / "e.jsonl") == [episode(), episode(id="f")]


def test_a_demonstration_has_one_action_a_turn():
    with pytest.raises(ValidationError, match="2 for 3 turns"):
        Demonstration(episode=episode(), actions=(None, None))


def test_errors_name_file_line_and_field(tmp_path):
    path = tmp_path / "rl.jsonl"
    good, bad = episode().model_dump(mode="json"), episode(id="f").model_dump(mode="json")
    bad["windows"][0]["reply"] = [5, 2]
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(UserError, match=r"rl\.jsonl:2: windows\.0: reply span"):
        read_episodes(path)
    path.write_text(json.dumps(good) + "\n" + json.dumps(good) + "\n")
    with pytest.raises(UserError, match="stands twice"):
        read_episodes(path)
    path.write_bytes(b"\xe9")
    with pytest.raises(UserError, match="not UTF-8 at byte 0"):
        read_episodes(path)
    path.write_text(json.dumps(good | {"task": "a\u2028b"}, ensure_ascii=False) + "\n")
    assert read_episodes(path)[0].task == "a\u2028b"
    path.write_text("")
    with pytest.raises(UserError, match="record: Invalid JSON"):
        read_episodes(path)
    with pytest.raises(UserError, match="no such file"):
        read_episodes(tmp_path / "missing.jsonl")
