"""Predictions as others write them: ProactiveVideoQA's submission lines and OVO-Bench's result files."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from turnwise.benchmarks.items import Reply
from turnwise.benchmarks.ovo.accuracy import Probe
from turnwise.benchmarks.predictions import Read, replies_of

SILENCE = "NO REPLY"
"""What MMDuet2's files write where nothing was said."""


def read_submission_line(where: str, line: Mapping[str, Any], read: Read) -> None:
    """`{"question_id", "model_response_list": [{"time", "content"}]}`; turns of the user and `NO REPLY` say nothing."""
    name = line["question_id"]
    keys = read.by_id.get(name, []) if isinstance(name, str) else []
    if len(keys) != 1:
        what = f"is in {', '.join(keys)}" if keys else "is not in the annotation"
        read.faults.append(f"{where}: question_id: {name!r} {what}")
        return
    turns = line.get("model_response_list")
    if isinstance(turns, list):
        turns = [turn for turn in turns if not (isinstance(turn, dict) and _says_nothing(turn))]
    read.add(where, keys[0], replies_of(f"{where}: {name}: model_response_list", turns, "content", read))


def _says_nothing(turn: Mapping[str, Any]) -> bool:
    return turn.get("role") == "user" or turn.get("content") == SILENCE


def read_ovo_results(where: str, results: Mapping[str, Any], read: Read) -> None:
    """`{"backward", "realtime", "forward"}`, each a list of records with `response`, in a probe where there are probes.

    None is no response. Of a list the first text counts, and of records that stand twice the first, with a note.
    """
    for category in ("backward", "realtime", "forward"):
        records = results.get(category, [])
        if not isinstance(records, list):
            read.faults.append(f"{where}: {category}: must be a list of records")
            continue
        for number, record in enumerate(records):
            place = f"{where}: {category}.{number}"
            if not isinstance(record, dict) or not {"id", "task"} <= record.keys():
                read.faults.append(f"{place}: must be a record with id and task")
            elif category == "forward":
                _read_probes(place, record, read)
            else:
                _read_response(place, f"{record['task']}/{record['id']}", record, read)


def _read_probes(where: str, record: Mapping[str, Any], read: Read) -> None:
    probes, name = record.get("test_info"), f"{record['task']}/{record['id']}"
    expected = next(number for number in count() if f"{name}_{number}" not in read.items)
    if not isinstance(probes, list) or len(probes) != expected or not all(isinstance(probe, dict) for probe in probes):
        found = len(probes) if isinstance(probes, list) else "no"
        read.faults.append(f"{where}: test_info: {found} probes, where the annotation of {name} has {expected}")
        return
    for number, probe in enumerate(probes):
        _read_response(f"{where}.test_info.{number}", f"{name}_{number}", probe, read)


def _read_response(where: str, key: str, record: Mapping[str, Any], read: Read) -> None:
    item = read.items.get(key)
    if isinstance(item, Probe) and not _same_truth(item, record):
        read.faults.append(f"{where}: {key}: ground_truth, count or type is not the annotation's ({item.target})")
        return
    said = record.get("response")
    if isinstance(said, list) and said and isinstance(said[0], str):
        read.notes.append(f"{where}: {key}: response is a list; its first text counts")
        said = said[0]
    if said is not None and not isinstance(said, str):
        read.faults.append(f"{where}: {key}: response: must be a text or null, got {said!r}")
        return
    replies = [] if said is None or item is None else [Reply(item.ends, said)]
    read.add(where, key, replies, again="; the first counts, where the released scorer counts both")


def _same_truth(probe: Probe, record: Mapping[str, Any]) -> bool:
    truths = {
        "letter": record.get("ground_truth", probe.target),
        "count": str(record.get("count", probe.target)),
        "yes_no": ("No", "Yes")[record["type"] == 1] if "type" in record else probe.target,
    }
    return truths[probe.kind] == probe.target
