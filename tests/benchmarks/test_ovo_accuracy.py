"""OVO-Bench's accuracy by hand: what the released scorer accepts, what one clear answer is, and how it is averaged."""

import copy
from fractions import Fraction
from pathlib import Path

import pytest
from benchmark_samples import OVO, write_benchmarks, write_records

from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo import accuracy as bench
from turnwise.config import Stream

OPTIONS = ("red", "blue", "green", "none")


def probe(kind, target, task="EPM", record=0, number=0):
    return bench.Probe(task, f"{record}_{number}", "x.mp4", record, "?", 9.0, kind, target, OPTIONS)


@pytest.mark.parametrize(
    ("kind", "target", "response", "official", "strict"),
    [
        ("letter", "B", "B", True, True),
        ("letter", "A", "A, D", True, None),
        ("letter", "A", "D. ALL", True, False),
        ("letter", "B", "b", False, True),
        ("letter", "C", "green", False, True),
        ("count", "12", "1 or 2", True, None),
        ("count", "3", "three", False, True),
        ("count", "3", "3 times", True, True),
        ("yes_no", "Yes", "Y", True, True),
        ("yes_no", "No", "N", True, True),
        ("yes_no", "No", "Not yet", True, None),
        ("yes_no", "Yes", "yes", False, True),
        ("yes_no", "No", "Yes, No", True, None),
        ("yes_no", "Yes", "Y.", False, True),
        ("count", "0", "", False, None),
    ],
)
def test_the_two_readings(kind, target, response, official, strict):
    asked = probe(kind, target)
    assert (bench.official(asked, response), bench.strict(asked, response)) == (official, strict)


def one_of_each(**said):
    """A right item in every task but those given, and predictions with theirs."""
    items = [probe("letter", "A", task, record=900 + n) for n, task in enumerate(bench.SUBSETS) if task not in said]
    return items, {item.key: [Reply(9, "A")] for item in items}


def test_means_over_probes_tasks_and_categories_and_over_items():
    items, said = one_of_each(REC=None, EPM=None)
    rec = [probe("count", "1", "REC", 1, n) for n in range(3)] + [probe("count", "1", "REC", 2, 0)]
    epm = [probe("letter", "A", "EPM", 3), probe("letter", "A", "EPM", 4)]
    said |= dict(zip((p.key for p in rec), ([Reply(9, "1")], [], [Reply(9, "2")], [Reply(9, "1")]), strict=True))
    said |= {epm[0].key: [Reply(9, "A")], epm[1].key: [Reply(9, "B")]}
    metrics = bench.score([*items, *rec, *epm], said).metrics
    assert metrics["subsets"]["REC"]["score"] == 50.0
    assert metrics["subsets"]["REC"]["items"] == pytest.approx(float(100 * (Fraction(1, 3) + 1) / 2))
    forward, backward = (Fraction(1, 2) + 2) / 3, (Fraction(1, 2) + 2) / 3
    assert metrics["categories"]["forward"]["score"] == pytest.approx(float(100 * forward))
    assert metrics["score"] == pytest.approx(float(100 * (forward + backward + 1) / 3))
    assert metrics["tasks"] == pytest.approx(float(100 * Fraction(11, 12)))
    assert (metrics["scored"], metrics["unparsable"], metrics["replies"]) == (16, 0, 15)


def test_a_missing_task_leaves_no_headline():
    items, said = one_of_each(CRR=None)
    metrics = bench.score(items, said).metrics
    assert (metrics["score"], metrics["categories"]["forward"]["score"]) == (None, None)
    assert metrics["categories"]["backward"]["score"] == 100.0


def test_load_makes_a_probe_of_every_question(tmp_path: Path):
    loaded = bench.load([write_benchmarks(tmp_path) / "ovobench"])
    assert [(p.key, p.time, p.target) for p in loaded.items] == [
        ("EPM/0", 9.0, "A"),
        ("CRR/7_0", 10.0, "No"),
        ("CRR/7_1", 17.0, "Yes"),
        ("CRR/7_2", 25.0, "Yes"),
        ("REC/8_0", 7.0, "2"),
        ("REC/8_1", 20.0, "3"),
        ("SSR/9_0", 13.0, "Yes"),
        ("SSR/9_1", 5.0, "Yes"),
    ]
    assert (loaded.report()["found"], loaded.report()["usable"]) == (4, 4)
    assert loaded.items[0].question == "?\nA. a\nB. b\nAnswer with the letter of the right option only."
    assert loaded.items[-1].question.startswith("Is this step of assemble desktop pc being carried out right now: two?")


@pytest.mark.parametrize(
    ("change", "refused", "odd"),
    [
        ({"answer": "b"}, None, "the answer is not the text of option 0 but that of another option"),
        ({"answer": "an a"}, None, "the answer is not the text of option 0"),
        ({"options": ["a", "b", "b"]}, None, "two options are the same"),
        ({"gt": 2}, "gt: 2 is no index of the 2 options", None),
        ({"options": ["a"]}, "options", None),
        ({"realtime": -1}, "realtime", None),
    ],
)
def test_odd_choices_are_loaded_and_named_and_bad_ones_refused(tmp_path: Path, change, refused, odd):
    records = copy.deepcopy(OVO)
    records[0].update(change)
    write_records(tmp_path / "ovo_bench_new.json", records)
    report = bench.load([tmp_path]).report()
    assert [row["oddity"] for row in report["odd"]] == ([odd] if odd else [])
    assert [refused in row["reason"] for row in report["refused"]] == ([True] if refused else [])


def test_a_second_record_of_an_id_is_refused(tmp_path: Path):
    write_records(tmp_path / "ovo_bench_new.json", [*OVO, OVO[2]])
    report = bench.load([tmp_path]).report()
    assert report["refused"] == [{"record": "REC/8", "reason": "stands twice; the first record counts"}]


def test_a_probe_is_asked_at_its_time_after_what_came_before(tmp_path: Path):
    stream = Stream(frame_interval=2.0, frames_per_turn=1)
    rec = bench.load([write_benchmarks(tmp_path) / "ovobench"]).items[5]
    whole, short = bench.episode(rec, stream, 30.0), bench.episode(rec, stream, 30.0, context=6.0)
    assert [*(h.time for h in whole.history), *whole.grid.times] == [2.0 * n for n in range(1, 11)]
    assert [*(h.time for h in short.history), *short.grid.times] == [16.0, 18.0, 20.0]
    assert bench.episode(rec, stream, 19.5).grid.times == (19.5,)
    with pytest.raises(ValueError, match="at 20 s, after the clip's end"):
        bench.episode(rec, stream, 18.9)
    start = bench.Probe("CRR", "1_0", "x.mp4", 1, "?", 0.0, "yes_no", "No")
    assert bench.episode(start, stream, 30.0).grid.times == (bench.FIRST,)
