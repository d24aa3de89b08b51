"""The three small benchmarks, in the file formats of ProactiveVideoQA, OVO-Bench and StreamingBench.

The records are our own; the shapes, the order of probes and the units follow the published files.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turnwise.episodes import Query, Window
from turnwise.worlds import language as say
from turnwise.worlds.scenes import Appearance, Scene
from turnwise.worlds.tasks import (
    count_windows,
    counted,
    multiple_choice,
    new_windows,
    once,
    step_windows,
    subtitles,
    window,
)

Record = dict[str, Any]
Clips = Sequence[tuple[str, Scene]]

SUBSETS = ("WEB", "EGO", "TV", "VAD")
QUESTIONS = 2
"""Questions of one kind about one clip, where the kind allows several."""
LEAD = (4, 10)
"""Seconds between asking and a single event, where the clip is long enough."""


def _picked(rng: np.random.Generator, items: Sequence[Any], most: int = QUESTIONS) -> list[Any]:
    """At most `most` of the items, at random, in their order."""
    return [items[i] for i in sorted(rng.choice(len(items), size=min(most, len(items)), replace=False))]


def proactivevideoqa(rng: np.random.Generator, subset: str, clips: Clips) -> list[Record]:
    """`anno.json` of a subset: WEB new objects, EGO steps, TV single events with subtitles, VAD single events."""
    return [record for name, scene in clips for record in _proactive(rng, subset, name, scene)]


def _proactive(rng: np.random.Generator, subset: str, video: str, scene: Scene) -> list[Record]:
    if subset == "WEB":
        return [_anno(video, video, scene, [Query(text=say.EVERY_NEW, time=0)], new_windows(scene))]
    if subset == "EGO":
        query = Query(text=say.steps_of(str(rng.choice(say.TUTORIALS))), time=0)
        record = _anno(video, video, scene, [query], step_windows(scene))
        return [{**record, "answer": [{**answer, "type": "step"} for answer in record["answer"]]}]
    records = []
    for number, event in enumerate(_picked(rng, once(scene))):
        spoken = subtitles(rng, scene) if subset == "TV" else ()
        queries = [Query(text=say.tell_when(str(event.look)), time=0), *spoken]
        name = f"{video}%Q{number}"
        records.append(_anno(video, name, scene, queries, [window(scene, event, str(event.look))]))
    return records


def _anno(video: str, name: str, scene: Scene, queries: Sequence[Query], windows: Sequence[Window]) -> Record:
    return {
        "video": video,
        "question_id": name,
        "conversation": [{"role": "user", "content": q.text, "time": q.time} for q in queries],
        "answer": [
            {
                "role": "assistant",
                "content": w.text,
                "related_timespan": list(w.related),
                "reply_timespan": list(w.reply),
            }
            for w in windows
        ],
        "duration": scene.duration,
    }


def ovobench(rng: np.random.Generator, clips: Clips) -> list[Record]:
    """`ovo_bench_new.json`: CRR, REC and SSR with their probes, and a few multiple choices (`gt` is an index)."""
    records: list[Record] = []
    for name, scene in clips:
        records += [_crr(rng, scene, event) | {"video": name} for event in _picked(rng, once(scene))]
        records += [_rec(scene, word) | {"video": name} for word in _picked(rng, list(counted(scene)))]
        records += [_ssr(rng, scene) | {"video": name}, _mcq(rng, scene) | {"video": name}]
    order = ("ATR", "REC", "SSR", "CRR")
    records.sort(key=lambda record: order.index(record["task"]))
    return [
        {"id": number, "task": record["task"], "video": record["video"]} | record
        for number, record in enumerate(records)
    ]


def _crr(rng: np.random.Generator, scene: Scene, event: Appearance) -> Record:
    ask = max(0.0, round(event.start - rng.uniform(*LEAD), 2))
    last = scene.turns * scene.step
    probes = [(ask, 0), ((ask + event.start) / 2, 0), *((min(event.start + after, last), 1) for after in (2, 10, 30))]
    return {
        "task": "CRR",
        "question": say.tell_when(str(event.look)),
        "answer": str(event.look),
        "ask_time": ask,
        "clue_time": event.start,
        "test_info": [{"realtime": round(time, 2), "type": kind} for time, kind in probes],
    }


def _rec(scene: Scene, word: str) -> Record:
    windows = count_windows(scene, word)
    ends = [w.related[1] for w in windows]
    last = scene.turns * scene.step
    probes = sorted({*ends, *(min(end + 2, last) for end in ends), last})
    return {
        "task": "REC",
        "activity": say.activity(word),
        "start_times": [w.related[0] for w in windows],
        "end_times": ends,
        "test_info": [{"realtime": time, "count": sum(end <= time for end in ends)} for time in probes],
    }


def _ssr(rng: np.random.Generator, scene: Scene) -> Record:
    windows = step_windows(scene)
    probes: list[Record] = []
    for number, w in enumerate(windows):
        (start, end), before = w.related, (5, 2) if number else ()
        times = [(start - lead, 0) for lead in before] + [(min(start + after, end), 1) for after in (2, 5)] + [(end, 1)]
        probes += [{"realtime": max(0.0, time), "step": w.text, "type": kind} for time, kind in times]
    return {
        "task": "SSR",
        "tutorial": str(rng.choice(say.TUTORIALS)),
        "all_steps": [w.text for w in windows],
        "start_time": [w.related[0] for w in windows],
        "end_time": [w.related[1] for w in windows],
        "test_info": probes,
    }


def _mcq(rng: np.random.Generator, scene: Scene) -> Record:
    appearance = scene.appearances[rng.integers(len(scene.appearances))]
    question, options, right = multiple_choice(rng, appearance.look)
    time = round((appearance.start + appearance.end) / 2, 2)
    asked = {"question": question, "answer": right, "options": list(options), "gt": options.index(right)}
    return {"task": "ATR", **asked, "realtime": time}


def streamingbench(rng: np.random.Generator, clips: Clips) -> dict[str, list[Record]]:
    """`questions_real.json` (four-way) and `questions_proactive.json` (output a word when something is seen)."""
    files: dict[str, list[Record]] = {"questions_real.json": [], "questions_proactive.json": []}
    for name, scene in clips:
        real = [_real(rng, a) for a in scene.appearances]
        proactive = [_output(rng, a) for a in _picked(rng, [a for a in once(scene) if a.start >= 1])]
        for file, questions in zip(files, (real, proactive), strict=True):
            files[file] += [_entry(name, question, scene) for question in questions]
    return files


def _entry(video: str, question: Record, scene: Scene) -> Record:
    span = f"[{_clock(0, 1)} - {_clock(math.floor(scene.duration), 1)}]"
    return {
        "time": span,
        "questions": [question],
        "video_categories": "embedded_world",
        "video_path": f"./videos/{video}",
    }


def _real(rng: np.random.Generator, appearance: Appearance) -> Record:
    question, options, right = multiple_choice(rng, appearance.look)
    time = int(rng.integers(math.ceil(appearance.start), math.ceil(appearance.end)))
    return {
        "task_type": "Attribute Recognition",
        "question": question,
        "time_stamp": _clock(time),
        "answer": say.LETTERS[options.index(right)],
        "options": say.lettered(options),
        "required_ability": "working memory",
    }


def _output(rng: np.random.Generator, event: Appearance) -> Record:
    seen = math.ceil(event.start)
    word = event.look.colour if rng.random() < 0.5 else event.look.surface
    return {
        "task_type": "Proactive Output",
        "question": say.output_when(str(event.look), word),
        "time_stamp": _clock(max(0, seen - int(rng.integers(*LEAD)))),
        "ground_truth_time_stamp": _clock(seen),
        "ground_truth_output": word,
        "required_ability": "working memory",
    }


def _clock(seconds: int, hour_digits: int = 2) -> str:
    return f"{seconds // 3600:0{hour_digits}d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def benchmark_files(rng: np.random.Generator, clips: Mapping[str, Clips]) -> dict[str, list[Record]]:
    """All annotation files by their path below `benchmarks/`, from the clips of each folder."""
    files = {
        f"{(folder := f'proactivevideoqa/{s}')}/anno.json": proactivevideoqa(rng, s, clips[folder]) for s in SUBSETS
    }
    files["ovobench/ovo_bench_new.json"] = ovobench(rng, clips["ovobench"])
    questions = streamingbench(rng, clips["streamingbench"])
    return files | {f"streamingbench/{name}": records for name, records in questions.items()}
