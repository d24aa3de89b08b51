"""Results with all that qualifies them: counts, partial, blind rows, comparison."""

import json
from fractions import Fraction

import pytest
from benchmark_samples import write_benchmarks

from turnwise.benchmarks import blind, proactivevideoqa, streamingbench
from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo import accuracy, timing
from turnwise.benchmarks.scoring import compare_results, first_of_each, result_of
from turnwise.benchmarks.suite import BENCHMARKS, benchmark
from turnwise.errors import UserError
from turnwise.judging import Verdict

SETTINGS = {
    "proactivevideoqa": {"omega": 0.5},
    "ovo_timing": {"tolerance": 2.0},
    "ovo_bench": {},
    "streamingbench": {"tolerance": 2.0},
}


@pytest.fixture
def loaded(tmp_path):
    root = write_benchmarks(tmp_path / "b")
    return {name: module.load([root / module.FOLDER]) for name, module in BENCHMARKS.items()}


def scored(name, loaded, predictions, items=None):
    items = items or [item for item in loaded.items if item.key in predictions]
    verdict = blind.worthless if name == "proactivevideoqa" else None
    return result_of(benchmark(name), loaded, items, predictions, SETTINGS[name], verdict)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_whole_result_can_be_written_and_its_counts_agree(loaded, name):
    result = scored(name, loaded[name], blind.silent(loaded[name].items))
    json.dumps(result, allow_nan=False)
    assert result["scored"] == result["expected"] == sum(part["expected"] for part in result["subsets"].values())
    assert not result["partial"]
    assert len(result["samples"]) == len(loaded[name].items)
    assert result["blind"]["silent"]["score"] == result["score"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_part_is_called_partial_and_expects_the_whole(loaded, name):
    items = first_of_each(loaded[name], 1)
    result = scored(name, loaded[name], blind.silent(items), items)
    whole = scored(name, loaded[name], blind.silent(loaded[name].items))
    assert (result["expected"], result["partial"]) == (whole["expected"], result["scored"] < whole["expected"])
    assert {key: part["expected"] for key, part in result["subsets"].items()} == {
        key: part["expected"] for key, part in whole["subsets"].items()
    }


def test_an_unscored_subset_leaves_no_headline_and_no_interval(loaded):
    items = [item for item in loaded["streamingbench"].items if item.subset == "PO"]
    result = scored("streamingbench", loaded["streamingbench"], blind.silent(items), items)
    assert (result["score"], result["interval"], result["subsets"]["RTVU"]["interval"]) == (None, None, None)
    assert result["subsets"]["PO"]["interval"] == [0.0, 0.0]


def test_pauc_is_shown_at_three_omegas(loaded):
    said = {item.key: [Reply(item.windows[0].reply[0], "x")] for item in loaded["proactivevideoqa"].items}
    items = loaded["proactivevideoqa"].items
    result = result_of(
        proactivevideoqa, loaded["proactivevideoqa"], items, said, {"omega": 0.25}, lambda _: Verdict(2.0)
    )
    assert result["omegas"]["1"] == pytest.approx(result["score"])  # every reply stands at its span's start
    assert result["omegas"] == {
        "0": pytest.approx(result["score"]),
        "0.5": pytest.approx(result["score"]),
        "1": pytest.approx(result["score"]),
    }


def test_blind_rows_of_timing_by_hand(loaded):
    rows = blind.rows(timing, loaded["ovo_timing"].items)
    times = {name: [reply.time for reply in said["CRR/7"]] for name, said in rows.items()}
    assert times["silent"] == []
    assert times["every 4 s"] == [14.0, 18.0, 22.0]
    assert times["once after 5 s"] == [15.0]
    assert "always A" not in rows
    result = scored("ovo_timing", loaded["ovo_timing"], blind.silent(loaded["ovo_timing"].items))
    # once after 5 s: CRR 15 hits 15; REC 5 misses 8, 8, 14; SSR 5 hits 5 of 5, 10
    assert result["blind"]["once after 5 s"]["score"] == pytest.approx(float(100 * (1 + 0 + Fraction(2, 3)) / 3))


def test_blind_rows_say_what_the_question_quotes_and_always_the_same_letter(loaded):
    rows = blind.rows(streamingbench, loaded["streamingbench"].items)
    assert rows["once after 8 s"]["PO/w@0020-0029"] == [Reply(28.0, "3")]
    assert rows["once after 8 s"]["RTVU/u_1"] == [Reply(24.0, "A")]
    assert rows["always C"]["RTVU/u_2"] == [Reply(90.0, "C")]
    assert rows["always C"]["PO/w@0020-0029"] == []
    result = scored("streamingbench", loaded["streamingbench"], blind.silent(loaded["streamingbench"].items))
    assert result["blind"]["once after 8 s"]["PO"] == 50.0
    assert result["blind"]["always C"] == {"score": 25.0, "RTVU": 50.0, "PO": 0.0}


def test_blind_rows_of_accuracy_answer_each_kind(loaded):
    rows = blind.rows(accuracy, loaded["ovo_bench"].items)
    assert list(rows)[1:] == ["always A, No, 0", "always B, Yes, 1", "always C, No, 2", "always D, Yes, 3"]
    said = rows["always C, No, 2"]
    assert [said[key][0].text for key in ("EPM/0", "CRR/7_0", "REC/8_0")] == ["C", "No", "2"]


def written(folder, name, result, **changes):
    record = {**result, "annotations": {"fingerprint": "a"}, "protocol": {"scoring": {"tolerance": 2.0}}, **changes}
    (folder / name).write_text(json.dumps(record))
    return folder / name


def test_results_are_compared_on_what_both_scored(loaded, tmp_path):
    items = loaded["streamingbench"].items
    right = {item.key: [Reply(item.due, item.target)] for item in items}
    one = written(tmp_path, "a.json", scored("streamingbench", loaded["streamingbench"], blind.silent(items)))
    some = {key: said for key, said in right.items() if key != "RTVU/v_1"}
    two = written(tmp_path, "b.json", scored("streamingbench", loaded["streamingbench"], some))
    found, unpaired = compare_results(one, two)
    assert (found.first, found.second, found.items, unpaired) == (0.0, 100.0, 5, 1)


def test_what_cannot_be_compared_is_refused_by_name(loaded, tmp_path):
    result = scored("ovo_timing", loaded["ovo_timing"], blind.silent(loaded["ovo_timing"].items))
    one = written(tmp_path, "a.json", result)
    other = written(tmp_path, "b.json", result, protocol={"scoring": {"tolerance": 1.0}})
    with pytest.raises(UserError, match=r"b\.json: scoring: differ .*score both the same way"):
        compare_results(one, other)
    with pytest.raises(UserError, match=r"c\.json: annotations: differ"):
        compare_results(one, written(tmp_path, "c.json", result, annotations={"fingerprint": "b"}))
    (tmp_path / "d.json").write_text("{}")
    with pytest.raises(UserError, match=r"d\.json: is no result of"):
        compare_results(one, tmp_path / "d.json")
    with pytest.raises(UserError, match=r"e\.json: no such file"):
        compare_results(one, tmp_path / "e.json")
