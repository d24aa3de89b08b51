"""PAUC and repetition by hand, and the loader's faults."""

import copy
from fractions import Fraction
from pathlib import Path

import pytest
from benchmark_samples import ANNO, write_benchmarks, write_records

from turnwise.benchmarks import proactivevideoqa as bench
from turnwise.benchmarks.items import Reply
from turnwise.config import Stream
from turnwise.episodes import Query, Window
from turnwise.errors import UserError
from turnwise.judging import Verdict

STREAM = Stream(frame_interval=2.0, frames_per_turn=1)


def question(*windows, subset="WEB", name="x"):
    spans = [Window(text=f"answer {i}", related=r, reply=p) for i, (r, p) in enumerate(windows)]
    return bench.Question(subset, name, "x.mp4", 400.0, (Query(text="What?", time=0),), tuple(spans))


def four(*items):
    """The items, with a one-window item in each subset that has none."""
    missing = set(bench.SUBSETS) - {item.subset for item in items}
    return [*items, *(question(((0, 9), (0, 10)), subset=subset) for subset in sorted(missing))]


def scored(items, said, levels, omega=0.5):
    """Result where the judged text decides the score: `levels[text]`, an abstention where there is none."""
    predictions = {item.key: [] for item in items} | {key: [Reply(*r) for r in rs] for key, rs in said.items()}
    return bench.score(items, predictions, lambda grade: Verdict(levels.get(grade.reply)), omega=omega)


@pytest.mark.parametrize(
    ("omega", "value"), [(0.0, Fraction(97, 2) / 98), (0.5, Fraction(293, 392)), (1.0, Fraction(1))]
)
def test_worked_example_of_the_paper_with_accumulated_replies(omega, value):
    item = question(((311, 359), (311, 360)))
    said = [(312, "a"), (328, "b"), (344, "c"), (352, "d")]
    levels = {"a": 0, "a b": 1, "a b c": 2, "a b c d": 2}
    result = scored(four(item), {item.key: said}, levels, omega)
    assert result.samples[0].score == pytest.approx(float(value), abs=1e-12)


def test_span_ends_are_inclusive_and_duplicates_are_not_judged_again():
    item = question(((2, 9), (2, 10)))
    replies = [Reply(1.9, "x"), Reply(2, "a"), Reply(6, "a"), Reply(10, "b"), Reply(10.1, "y")]
    levels = [g for g in bench.grades([item], {item.key: replies}) if g.kind == "level"]
    assert [g.reply for g in levels] == ["a", "a b"]
    assert (levels[0].question, levels[0].reference, levels[0].levels) == ("What?", "answer 0", 3)


def test_one_reply_counts_in_overlapping_windows():
    item = question(((0, 3), (0, 4)), ((3, 7), (3, 8)))
    result = scored(four(item), {item.key: [(4, "a")]}, {"a": 2}, omega=0)
    # first: 0.5 over 4 s of 4, then nothing left; second: 0.5 for 1 s, 2 for 4 s, of 2 x 5
    assert result.samples[0].detail["turns"] == pytest.approx([float(Fraction(1, 4)), float(Fraction(17, 20))])


def test_late_filter_needs_a_better_score_inside():
    assert bench.drop_late([(1, 2), (9.5, 1)], 9) == [(1, 2)]
    assert bench.drop_late([(1, 1), (9.5, 1)], 9) == [(1, 1), (9.5, 1)]
    assert bench.drop_late([(9.5, 0)], 9) == [(9.5, 0)]
    assert bench.drop_late([(1, 2), (9, 0), (9.5, 1)], 9) == [(1, 2), (9, 0), (9.5, 1)]


def test_silence_is_25_at_every_omega():
    items = four(question(((0, 3), (0, 4)), ((3, 7), (3, 8))))
    for omega in (0.0, 0.3, 1.0):
        metrics = scored(items, {}, {}, omega).metrics
        assert metrics["score"] == 25.0
        assert (metrics["repetition"], metrics["scored"], metrics["expected"], metrics["replies"]) == (None, 5, 5, 0)


def test_headline_is_the_plain_mean_of_subsets_and_both_means_are_shown():
    web = [question(((0, 9), (0, 10)), name=name) for name in "abc"]
    result = scored(four(*web), {item.key: [(0, "a")] for item in web}, {"a": 2})
    assert result.metrics["score"] == pytest.approx(float(Fraction(100 + 3 * 25, 4)))
    assert result.metrics["turn_weighted"] == pytest.approx(float(Fraction(3 * 100 + 3 * 25, 6)))


def test_turn_mean_and_video_mean_differ():
    items = [question(((0, 9), (0, 10)), name="a"), question(((0, 9), (0, 10)), ((20, 29), (20, 30)), name="b")]
    web = scored(four(*items), {"WEB/a": [(0, "a")]}, {"a": 2}).metrics["subsets"]["WEB"]
    assert (web["score"], web["video_mean"]) == (pytest.approx(50.0), pytest.approx(62.5))


def test_repetition_leaves_the_first_reply_of_each_window_out():
    item = question(((0, 9), (0, 10)), ((20, 29), (20, 30)))
    said = [(1, "a"), (3, "a"), (5, "b"), (15, "c"), (21, "a"), (25, "d")]
    levels = {"b": 1, "c": 0, "d": 1, "a b": 1, "a d": 1}
    result = scored(four(item), {item.key: said}, {**levels, "a": 0})
    # counted: a (exactly said before), b, c, d; judged to repeat: b and d
    assert result.metrics["subsets"]["WEB"]["repetition"] == 75.0
    assert result.metrics["subsets"]["WEB"]["repetition_of"] == 4
    assert result.metrics["subsets"]["EGO"]["repetition"] is None
    assert (result.metrics["repetition"], result.metrics["repetition_of"]) == (75.0, 4)
    assert result.metrics["repetition_subsets"] == 75.0
    assert result.metrics["repetition_exact"] == 25.0


def test_an_abstention_drops_the_point_and_never_becomes_a_score():
    item = question(((0, 9), (0, 10)), ((20, 29), (20, 30)))
    result = scored(four(item), {item.key: [(0, "a"), (5, "b"), (20, "c")]}, {"a b": 2}, omega=0)
    assert result.samples[0].detail["turns"] == [pytest.approx(0.625), None]
    assert result.samples[0].score == pytest.approx(0.625)
    assert (result.metrics["scored"], result.metrics["expected"]) == (4, 5)
    assert result.metrics["unparsable"] == 3  # "a", "c", and whether "b" repeats


def test_an_abstention_may_drop_the_whole_item():
    item = question(((0, 9), (0, 10)), ((20, 29), (20, 30)))
    items, said = four(item), {"WEB/x": [Reply(0, "a"), Reply(20, "c")]}
    predictions = {other.key: [] for other in items} | said
    result = bench.score(
        items, predictions, lambda grade: Verdict({"a": 2}.get(grade.reply)), omega=0.5, drop_items=True
    )
    assert (result.samples[0].score, result.samples[0].detail["turns"]) == (None, [None, None])
    assert (result.metrics["scored"], result.metrics["expected"], result.metrics["unparsable"]) == (3, 5, 1)
    assert (result.metrics["score"], result.metrics["subsets"]["EGO"]["score"]) == (None, 25.0)


def test_load_keeps_every_oddity(tmp_path: Path):
    loaded = bench.load([write_benchmarks(tmp_path) / "proactivevideoqa"])
    assert loaded.report() == {"found": 4, "usable": 4, "refused": [], "odd": []}
    tv = next(item for item in loaded.items if item.subset == "TV")
    assert (tv.key, tv.clip) == ("TV/frames=x.mp4%Q1", "TV/videos/frames=x.mp4")
    episode = bench.episode(tv, STREAM, 6.6)
    assert [len(queries) for queries in episode.shown_queries()] == [1, 1, 0]


@pytest.mark.parametrize(("duration", "times"), [(32.1, 8), (14.9, 7), (1.0, 1)])
def test_the_stream_reaches_the_last_span_and_never_leaves_the_clip(tmp_path: Path, duration, times):
    vad = bench.load([write_benchmarks(tmp_path) / "proactivevideoqa"]).items[-1]
    grid = bench.episode(vad, STREAM, duration).grid
    assert (grid.turns, grid.times[-1]) == (times, min(16.0, duration // 2 * 2 or duration))


def test_a_second_record_of_an_id_is_refused_and_counted(tmp_path: Path):
    write_records(write_benchmarks(tmp_path) / "proactivevideoqa/WEB/anno.json", ANNO["WEB"] * 2)
    report = bench.load([tmp_path / "proactivevideoqa"]).report()
    assert (report["found"], report["usable"], report["refused"][0]["record"]) == (5, 4, "WEB/a.1.mp4")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda r: r.pop("duration"), "duration"),
        (lambda r: r["answer"][0].update(reply_timespan=[4, 4]), "reply_timespan"),
        (lambda r: r["conversation"][0].update(content=3), "conversation.0.content"),
        (lambda r: r["answer"][1].update(related_timespan=[3, float("nan")]), "answer.1.related_timespan"),
        (lambda r: r.update(answer=[]), "answer"),
    ],
)
def test_a_bad_record_is_refused_by_name_and_the_others_stay(tmp_path: Path, change, field):
    records = copy.deepcopy(ANNO["WEB"])
    change(records[0])
    write_records(write_benchmarks(tmp_path) / "proactivevideoqa/WEB/anno.json", records)
    loaded = bench.load([tmp_path / "proactivevideoqa"])
    ((name, reason),) = loaded.refused
    assert (name, loaded.report()["usable"]) == ("WEB/a.1.mp4", 3)
    assert field in reason


def test_turns_are_put_in_time_order(tmp_path: Path):
    records = copy.deepcopy(ANNO["WEB"])
    records[0]["answer"].reverse()
    write_records(tmp_path / "WEB/anno.json", records)
    (item,) = bench.load([tmp_path]).items
    assert [window.text for window in item.windows] == ["A cup.", "A hat."]


def test_a_subset_is_known_by_its_folder_or_its_file(tmp_path: Path):
    write_records(tmp_path / "EGO/anno.json", ANNO["EGO"])
    write_records(tmp_path / "TV_anno.json", ANNO["TV"])
    loaded = bench.load([tmp_path / "EGO/anno.json", tmp_path / "TV_anno.json"])
    assert [item.subset for item in loaded.items] == ["EGO", "TV"]
    write_records(tmp_path / "anno.json", ANNO["TV"])
    with pytest.raises(UserError, match=r"anno\.json: subset: .*call it WEB/anno\.json"):
        bench.load([tmp_path / "anno.json"])


def test_a_missing_or_broken_file_is_named(tmp_path: Path):
    root = write_benchmarks(tmp_path) / "proactivevideoqa"
    (root / "EGO/anno.json").write_text("[{")
    with pytest.raises(UserError, match=r"EGO/anno\.json: not valid JSON"):
        bench.load([root])
    with pytest.raises(UserError, match=r"EGO/no\.json: no such file"):
        bench.load([root / "EGO/no.json"])
    with pytest.raises(UserError, match="holds none of WEB"):
        bench.load([root / "EGO/"])
    (root / "EGO/anno.json").write_text('[{"question_id": "x"}]')
    with pytest.raises(UserError, match=r"none of 1 records is usable; record EGO/x: video: Field required"):
        bench.load([root / "EGO/anno.json"])


def test_replies_said_many_times_take_no_long_while():
    item = question(((0, 9), (0, 10)))
    replies = [Reply(t / 1000, f"{t % 7}") for t in range(20_000)]
    assert len([g for g in bench.grades([item], {item.key: replies}) if g.kind == "level"]) == 7
