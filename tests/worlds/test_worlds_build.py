import hashlib
import json
from collections import Counter

import pytest

from turnwise.episodes import read_demonstrations, read_episodes
from turnwise.errors import UserError
from turnwise.files import fingerprint
from turnwise.videos import check_clip
from turnwise.worlds import build
from turnwise.worlds.tasks import FEW


@pytest.fixture(scope="module")
def episodes(world):
    demonstrated = [d.episode for d in read_demonstrations(world / "demonstrations.jsonl")]
    return {"sft": demonstrated} | {split: read_episodes(world / f"{split}.jsonl") for split in ("rl", "dev")}


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(smallest, stream, tmp_path):
    seeds = {"first": smallest.seed, "again": smallest.seed, "other": smallest.seed + 1}
    for name, seed in seeds.items():
        build(smallest.model_copy(update={"seed": seed}), stream, tmp_path / name)
    first, again, other = (fingerprint({}, *sorted(p for p in (tmp_path / n).iterdir())) for n in seeds)
    assert first == again
    assert first != other


def test_the_report_counts_what_was_written(data, world):
    report = json.loads((world / "report.json").read_text())
    assert report["clips"] == len(list(world.rglob("*.mp4"))) == 10 + 10 + 2 + 4 + 4 + 4
    assert report["rl"]["episodes"] == len(read_episodes(world / "rl.jsonl")) == 10 * data.episodes_per_clip
    assert report["captions"]["episodes"] == len(read_demonstrations(world / "captions.jsonl")) == data.captions
    for name, count in report["benchmarks"].items():
        assert len(json.loads((world / "benchmarks" / name).read_text())) == count > 0


def test_no_two_clips_are_the_same_and_splits_share_none(world, episodes):
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in world.rglob("*.mp4")]
    assert len(digests) == len(set(digests))
    clips = [{episode.clip for episode in found} for found in episodes.values()]
    assert sum(map(len, clips)) == len(set.union(*clips))


def test_clips_hold_every_frame_that_is_shown(world, episodes):
    for episode in (episode for found in episodes.values() for episode in found):
        assert episode.grid.frame_times[-1][-1] <= check_clip(world / episode.clip).duration


def test_windows_are_few_and_hold_two_decision_times(data, episodes):
    for episode in (episode for found in episodes.values() for episode in found):
        assert episode.turns in range(data.min_turns // 2, data.max_turns + 1)
        few = range(1, 4) if episode.task in ("choice", "one_event") else FEW
        assert len(episode.windows) in few
        for window in episode.windows:
            assert sum(window.reply[0] <= time <= window.reply[1] for time in episode.grid.times) >= 2
            assert window.reply[1] <= episode.grid.times[-1] + 1


def test_silence_is_right_most_of_the_time(episodes):
    rl = episodes["rl"]
    assert sum(len(e.windows) for e in rl) < 0.25 * sum(e.turns for e in rl)
    assert sum(bool(e.windows_at(time)) for e in rl for time in e.grid.times) < 0.6 * sum(e.turns for e in rl)


def test_all_five_tasks_take_turns(episodes):
    assert Counter(e.task for e in episodes["rl"]) == dict.fromkeys(
        ("new_object", "one_event", "count", "steps", "choice"), 6
    )


def test_history_holds_an_earlier_reply(episodes):
    given = [e for found in episodes.values() for e in found if e.history]
    assert given
    for episode in given:
        assert sum(turn.text is not None for turn in episode.history) == 1
        assert episode.history[-1].time == episode.grid.start
        assert all(window.reply[0] > episode.grid.start for window in episode.windows)


def test_too_few_turns_are_refused(data, stream, tmp_path):
    with pytest.raises(UserError, match=r"data\.min_turns: 3 turns are too few"):
        build(data.model_copy(update={"min_turns": 3}), stream, tmp_path / "none")
    assert not (tmp_path / "none").exists()
