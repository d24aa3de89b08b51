"""From annotations and clips to predictions, samples and metrics, with a scripted policy."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from benchmark_samples import write_benchmarks
from scripted_sampler import MALFORMED, SILENCE, ScriptedSampler, reply

from turnwise.benchmarks import blind
from turnwise.benchmarks.evaluation import evaluate
from turnwise.benchmarks.items import Reply
from turnwise.config import Data, Evaluate, Stream, compose
from turnwise.episodes import Episode, Grid
from turnwise.errors import UserError
from turnwise.judging import RuleJudge, VerdictCache
from turnwise.tables import read_table
from turnwise.videos import write_clip
from turnwise.worlds import build, scripted

CONFIG = Evaluate(batch=3, omega=0.5, tolerance=2.0, events="released", matching="maximum", metronome=8.0)
STREAM = Stream(frame_interval=2.0, frames_per_turn=1)
CLIPS = {
    "proactivevideoqa/WEB/videos/a.1.mp4": 13,
    "proactivevideoqa/EGO/videos/b.mp4": 30,
    "proactivevideoqa/TV/videos/frames=x.mp4": 7,
    "proactivevideoqa/VAD/videos/c.mp4": 32,
    "ovobench/videos/movies/m.mp4": 30,
    "ovobench/videos/r.mp4": 20,
    "ovobench/videos/s.mp4": 20,
    "streamingbench/videos/u.mp4": 90,
    "streamingbench/videos/v.mp4": 9,
    "streamingbench/videos/w.mp4": 41,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = write_benchmarks(tmp_path_factory.mktemp("benchmarks"))
    for clip, seconds in CLIPS.items():
        write_clip(root / clip, np.zeros((seconds, 32, 32, 3), np.uint8), fps=1)
    return root


def run(root, out, policy, describe=None, config=CONFIG, training=()):
    sampler = ScriptedSampler(policy)
    judge, cache = RuleJudge(3), VerdictCache(out / "verdicts.sqlite")
    described = describe or {"model": "scripted"}
    settings = (config, STREAM, root, out / "eval", described, training)
    return evaluate(lambda _: sampler, judge, cache, *settings, state=out / "state"), sampler


def silent(episode):
    return [SILENCE] * episode.turns


def test_silence_scores_like_the_silent_baseline(root, tmp_path):
    metrics, sampler = run(root, tmp_path, silent)
    headline = {"pauc": 25.0, "timing_f1": 0.0, "streamingbench": 0.0, "repetition": None}
    assert {name: metrics[name] for name in headline} == headline
    assert metrics["blind"]["silent"] == headline
    assert metrics == json.loads((tmp_path / "eval/metrics.json").read_text())
    assert headline == json.loads((tmp_path / "eval/scores.json").read_text())
    assert sampler.calls == [(3, 1, 0.0), (1, 1, 0.0), (3, 1, 0.0), (3, 1, 0.0), (3, 1, 0.0)]


def test_the_metronome_is_scored_on_the_same_items(root, tmp_path):
    metronome = run(root, tmp_path, silent)[0]["blind"]["metronome"]
    # A dot is worth 0 from when it is said, at omega .5; all at 8 s.
    # WEB: 1/4 and 1.25/10; EGO: 1.5/16; TV: nothing said; VAD: .5/20.
    assert metronome["pauc"] == pytest.approx(
        float(100 * (Fraction(3, 16) + Fraction(3, 32) + Fraction(1, 4) + Fraction(1, 40)) / 4)
    )
    # CRR at 18 s for 15: missed; REC at 8 and 16 s for 8, 8, 14: P 1, R 2/3; SSR at 8 s for 5, 10: P 1, R 1/2.
    assert metronome["timing_f1"] == pytest.approx(float(100 * (Fraction(4, 5) + Fraction(2, 3)) / 3))
    assert metronome["streamingbench"] == 0.0
    assert metronome["repetition"] == 100.0  # the beats that are counted say the same again


def test_replies_are_stamped_with_decision_times_and_malformed_actions_left_out(root, tmp_path):
    run(
        root, tmp_path, lambda e: [reply("A cup."), MALFORMED] + [SILENCE] * (e.turns - 2) if e.turns > 1 else silent(e)
    )
    lines = [json.loads(line) for line in (tmp_path / "eval/predictions.jsonl").read_text().splitlines()]
    assert [line["item"] for line in lines[:2]] == ["a.1.mp4", "b.mp4"]
    assert lines[0]["replies"] == [{"time": 2.0, "text": "A cup."}]
    assert next(line for line in lines if line["subset"] == "CRR")["replies"][0]["time"] == 12.0
    samples = read_table("samples", tmp_path / "eval/samples.parquet").to_pylist()
    assert len(samples) == len(lines) == 13
    assert {row["replies"] for row in samples} == {0, 1}
    web = next(row for row in samples if row["subset"] == "WEB")
    assert json.loads(web["detail"])["turns"] == pytest.approx([0.8125, 0.25])


def test_every_score_comes_with_what_qualifies_it(root, tmp_path):
    metrics = run(root, tmp_path, silent)[0]
    for name, units in (("proactivevideoqa", 5), ("ovo_timing", 3), ("streamingbench", 6)):
        part = metrics["benchmarks"][name]
        assert (part["scored"], part["expected"], part["unparsable"]) == (units, units, 0)
        assert part["records"]["refused"] == []
        assert sum(subset["expected"] for subset in part["subsets"].values()) == units
    protocol = metrics["protocol"]
    assert protocol["inference"]["grid"] == {"frame_interval": 2.0, "frames_per_turn": 1}
    assert (metrics["judge"], protocol["ovo_timing"]["tolerance"]) == ("rule-3", 2.0)


def test_the_rule_of_events_is_a_parameter_and_changes_no_prediction(root, tmp_path):
    def speaks_at_4(episode):
        return [reply("x") if time == 4.0 else SILENCE for time in episode.grid.times]

    released, end = (
        run(root, tmp_path / rule, speaks_at_4, config=CONFIG.model_copy(update={"events": rule}))[0]
        for rule in ("released", "end")
    )
    # released: SSR 5 of 5, 10 and no REC; end: REC 6 of 6, 7, 14 and no SSR
    assert released["timing_f1"] == pytest.approx(float(100 * Fraction(2, 9)))
    assert end["timing_f1"] == pytest.approx(float(100 * Fraction(1, 6)))
    assert end["protocol"]["ovo_timing"]["events"] == "end: clue_time; end"
    assert (tmp_path / "released/eval/predictions.jsonl").read_text() == (
        tmp_path / "end/eval/predictions.jsonl"
    ).read_text()


def test_videos_that_training_shares_with_a_benchmark_are_named(root, tmp_path):
    (tmp_path / "rl.jsonl").write_text(json.dumps({"clip": "clips/b.mp4"}) + "\n")
    benchmarks = run(root, tmp_path, silent, training=[tmp_path / "rl.jsonl"])[0]["benchmarks"]
    assert [row["video"] for row in benchmarks["proactivevideoqa"]["shared_videos"]] == ["EGO/videos/b.mp4"]
    assert benchmarks["ovo_timing"]["shared_videos"] == []


def test_predictions_carry_the_hash_of_what_they_depend_on(root, tmp_path):
    def first_hash(out, describe):
        run(root, out, silent, describe)
        return json.loads((out / "eval/predictions.jsonl").read_text().splitlines()[0])["protocol"]

    one, same, other = (first_hash(tmp_path / name, {"model": name[0]}) for name in ("a1", "a2", "b1"))
    assert one == same != other


def test_a_missing_clip_stops_before_any_roll_out(tmp_path):
    with pytest.raises(UserError, match=r"a\.1\.mp4: no such video"):
        run(write_benchmarks(tmp_path), tmp_path, silent)
    assert not (tmp_path / "eval").exists()


@pytest.mark.parametrize(("clip", "seconds", "item"), [("u", 80, "RTVU/u_2"), ("w", 30, "PO/w@0040-0040")])
def test_a_question_past_its_clip_stops_before_any_roll_out(root, tmp_path, clip, seconds, item):
    shutil.copytree(root, tmp_path / "short")
    path = tmp_path / f"short/streamingbench/videos/{clip}.mp4"
    path.unlink()
    write_clip(path, np.zeros((seconds, 32, 32, 3), np.uint8), fps=1)
    with pytest.raises(UserError, match=rf"{clip}\.mp4: {item}: .* at \d0 s, after the clip's end \({seconds} s\)"):
        run(tmp_path / "short", tmp_path, lambda _: pytest.fail("rolled out"))


def test_metronome_speaks_at_the_first_decision_of_each_period():
    grid = Grid(start=1.0, frame_interval=3.0, turns=6)
    episode = Episode(id="x", clip="x.mp4", task="x", grid=grid, queries=(), windows=())
    assert blind.metronome([episode], 4.0, set()) == {"x": [Reply(t, ".") for t in (7.0, 10.0, 13.0, 19.0)]}
    assert blind.metronome([episode], 0.5, set())["x"] == [Reply(t, ".") for t in grid.times]
    assert blind.metronome([episode], 4.0, {"x"}) == {"x": [Reply(19.0, "A")]}


@pytest.mark.slow
def test_the_embedded_world_goes_through_the_same_code(tmp_path):
    sizes = {"sft_clips": 1, "rl_clips": 1, "dev_clips": 1, "benchmark_clips": 4, "captions": 4}
    stream = Stream(**compose(["embedded"])["stream"])
    build(Data(**{**compose(["embedded"])["data"], **sizes}), stream, tmp_path / "data")

    def oracle(episode):
        said = scripted(episode.model_copy(update={"task": "new_object"}), "oracle")
        return [SILENCE if text is None else reply(text) for text in said]

    metrics, _ = run(tmp_path / "data/benchmarks", tmp_path, oracle)
    assert metrics["pauc"] > 70
    assert metrics["blind"]["silent"] == {"pauc": 25.0, "timing_f1": 0.0, "streamingbench": 0.0, "repetition": None}
    assert 0 < metrics["blind"]["metronome"]["timing_f1"] < 100
    assert all(part["records"]["refused"] == [] for part in metrics["benchmarks"].values())
