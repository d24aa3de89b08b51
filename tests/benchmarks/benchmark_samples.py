"""Small records of our own in the official file formats, with the oddities that the real files have."""

import json
from pathlib import Path
from typing import Any

ANNO: dict[str, list[dict[str, Any]]] = {
    "WEB": [
        {
            "video": "a.1.mp4",
            "question_id": "a.1.mp4",
            "conversation": [{"role": "user", "content": "What comes?", "time": 0}],
            "answer": [
                {"role": "assistant", "content": "A cup.", "related_timespan": [0, 3], "reply_timespan": [0, 4]},
                {"role": "assistant", "content": "A hat.", "related_timespan": [3, 7], "reply_timespan": [3, 8]},
            ],
            "duration": 12.5,
        }
    ],
    "EGO": [
        {
            "video": "b.mp4",
            "question_id": "b.mp4",
            "conversation": [{"role": "user", "content": "Which steps?", "time": 0}],
            "answer": [
                {
                    "role": "assistant",
                    "content": "Stir.",
                    "type": "substep-merged",
                    "related_timespan": [2, 9],
                    "reply_timespan": [2, 10],
                }
            ],
            "duration": 30.0,
        }
    ],
    "TV": [
        {
            "frame": "house/x",
            "video": "frames=x.mp4",
            "question_id": "frames=x.mp4%Q1",
            "conversation": [
                {"role": "user", "content": "Where is she?", "time": 0},
                {"role": "user", "content": "Subtitle: (Ann:)Here.", "time": 2.5},
            ],
            "answer": [
                {"role": "assistant", "content": "By a door.", "related_timespan": [1, 5], "reply_timespan": [1, 6]}
            ],
            "duration": 6.6,
        }
    ],
    "VAD": [
        {
            "video": "c.mp4",
            "question_id": "c.mp4",
            "conversation": [{"role": "user", "content": "What is wrong?", "time": 0}],
            "answer": [
                {
                    "role": "assistant",
                    "content": "A fire.",
                    "related_timespan": [6, 15],
                    "reply_timespan": [6, 16],
                    "num_captions": 1,
                }
            ],
            "duration": 32.1,
        }
    ],
}

OVO: list[dict[str, Any]] = [
    {
        "id": 0,
        "task": "EPM",
        "video": "m.mp4",
        "realtime": 9,
        "question": "?",
        "answer": "a",
        "options": ["a", "b"],
        "gt": 0,
    },
    {
        "id": 7,
        "task": "CRR",
        "video": "movies/m.mp4",
        "question": "What does he take?",
        "answer": "A key.",
        "ask_time": 10,
        "clue_time": 15,
        "test_info": [{"realtime": 10, "type": 0}, {"realtime": 17, "type": 1}, {"realtime": 25, "type": 1}],
    },
    {
        "id": 8,
        "task": "REC",
        "video": "r.mp4",
        "activity": "clapping",
        "start_times": [6, 6, 12],
        "end_times": [6, 7, 14],
        "test_info": [{"realtime": 7, "count": 2}, {"realtime": 20.0, "count": 3}],
    },
    {
        "id": 9,
        "task": "SSR",
        "video": "s.mp4",
        "tutorial": "AssembleDesktopPC",
        "all_steps": ["one", "two"],
        "start_time": [8, 3],
        "end_time": [12, 7],
        "test_info": [
            {"realtime": 13, "step": "one", "type": 1},
            {"realtime": 5, "step": "two", "type": 1},
        ],
    },
]

REAL: list[dict[str, Any]] = [
    {
        "time": "[0:00:00 - 0:00:30]",
        "questions": [
            {
                "task_type": "Counting",
                "question": "How many?",
                "time_stamp": stamp,
                "answer": answer,
                "options": ["A. 1.", "B. 2.", "C. 3.", "D. 4."],
            }
            for stamp, answer in stamps
        ],
        "video_path": f"./videos/{video}.mp4",
    }
    for video, stamps in (
        ("u", [("00:24", "B"), ("0:01:30", "C")]),
        ("v", [("00:00:01", "D")]),
        ("u", [("00:01:30", "C")]),
    )
]

PROACTIVE: list[dict[str, Any]] = [
    {
        "time": "[0:00:00 - 0:00:30]",
        "questions": [
            {
                "task_type": "Proactive Output",
                "question": 'When the score is 3, output "3".',
                "time_stamp": asked,
                "ground_truth_time_stamp": due,
                "ground_truth_output": "3",
            }
        ],
        "video_path": "./videos/w.mp4",
    }
    for asked, due in (("00:00:20", "0:00:29"), ("00:00:40", "00:00:40"))
]


def write_benchmarks(root: Path) -> Path:
    """The annotation files of all three benchmarks below `root`, without videos."""
    files: dict[str, Any] = {f"proactivevideoqa/{subset}/anno.json": records for subset, records in ANNO.items()}
    files |= {"ovobench/ovo_bench_new.json": OVO, "streamingbench/questions_real.json": REAL}
    files |= {"streamingbench/questions_proactive.json": PROACTIVE}
    for name, records in files.items():
        write_records(root / name, records)
    return root


def write_records(path: Path, records: Any) -> None:
    """Plain JSON at a path whose folders may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records))
