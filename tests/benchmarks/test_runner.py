"""Polling as StreamingBench does it, and going on where a run stopped, with a scripted policy."""

import pytest
from benchmark_samples import write_benchmarks
from scripted_sampler import SILENCE, ScriptedSampler, reply

from turnwise.benchmarks import streamingbench
from turnwise.benchmarks.items import Loaded, Reply
from turnwise.benchmarks.runner import Prepared, infer
from turnwise.config import Stream

STREAM = Stream(frame_interval=2.0, frames_per_turn=1)


@pytest.fixture
def prepared(tmp_path):
    loaded = streamingbench.load([write_benchmarks(tmp_path) / "streamingbench"])
    durations = {item.clip: 99.0 for item in loaded.items}
    episodes = tuple(streamingbench.episode(item, STREAM, 99.0) for item in loaded.items)
    return Prepared("streamingbench", tmp_path, loaded, episodes, durations)


def run(prepared, policy, **options):
    sampler, found = ScriptedSampler(policy), {}

    def done(part):
        found.update({item.key: said for item, said in part})

    infer(prepared, sampler, STREAM, batch=4, done=done, **options)
    return found, sampler


def test_polling_stops_at_yes_and_asks_what_to_say_at_once(prepared):
    asked = []

    def policy(episode):
        text, now = episode.queries[0].text, episode.grid.times[-1]
        asked.append((episode.id, now, "right time" in text))
        if "right time" not in text:
            return [reply("It is 3." if episode.task == "PO" else "B")]
        return [reply("Yes") if episode.id == "PO/w@0020-0029" and now >= 28 else reply("No")]

    found, _ = run(prepared, policy, mode="poll")
    assert found["PO/w@0020-0029"] == [Reply(28.0, "It is 3.")]
    assert found["PO/w@0040-0040"] == []
    assert found["RTVU/u_1"] == [Reply(24.0, "B")]
    polls = [(now, asking) for key, now, asking in asked if key == "PO/w@0020-0029"]
    assert polls == [*((20.0 + n, True) for n in range(1, 9)), (28.0, False)]
    assert [now for key, now, _ in asked if key == "PO/w@0040-0040"] == [41.0, 42.0, 43.0, 44.0]


def test_eyes_hold_a_yes_as_in_the_released_code_and_silence_to_the_question_is_an_empty_text(prepared):
    def policy(episode):
        return [reply("my eyes") if "right time" in episode.queries[0].text else SILENCE]

    found, _ = run(prepared, policy, mode="poll")
    assert (found["PO/w@0020-0029"], found["PO/w@0040-0040"]) == ([Reply(21.0, "")], [Reply(41.0, "")])


def test_pushing_lets_the_policy_decide(prepared):
    def policy(episode):
        return [reply("3") if time == 28.0 else SILENCE for time in episode.grid.times]

    found, _ = run(prepared, policy)
    assert found["PO/w@0020-0029"] == [Reply(28.0, "3")]
    assert found["PO/w@0040-0040"] == []


def test_items_that_are_done_are_not_run_again(prepared):
    whole, _ = run(prepared, lambda e: [reply(e.id)] * e.turns)
    rest, sampler = run(prepared, lambda e: [reply(e.id)] * e.turns, skip=["RTVU/u_1", "PO/w@0020-0029"])
    assert rest == {key: said for key, said in whole.items() if key not in ("RTVU/u_1", "PO/w@0020-0029")}
    assert sum(size for size, _, _ in sampler.calls) == 4
    assert run(prepared, lambda e: [reply(e.id)] * e.turns, skip=list(whole))[0] == {}


def test_nothing_is_polled_where_nothing_waits(prepared):
    rtvu = Loaded(tuple(item for item in prepared.loaded.items if item.subset == "RTVU"), (), 4)
    only = Prepared("streamingbench", prepared.root, rtvu, prepared.episodes[:4], prepared.durations)
    found, sampler = run(only, lambda _: [reply("B")], mode="poll")
    assert (len(found), len(sampler.calls)) == (4, 1)
