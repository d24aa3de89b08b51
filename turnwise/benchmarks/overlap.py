"""Whether videos that a policy learned from are also those it is scored on.

Two videos are the same where their files are, or where their names come from one source: `LGgaMq1eZGw.52.mp4` and
`LGgaMq1eZGw.7.mp4` are clips of one video, so are `<id>-720-1080.mp4` and `<id>.mp4`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from turnwise.errors import UserError

FIELDS = ("clip", "video", "video_path")
"""Where a training record names its video."""
_CUT = re.compile(r"(?<=[\w-]{11})(?:\.\d+|-\d+-\d+)$")
"""The end of a name that says which part of a longer video a clip is; the video's own id has 11 characters or more."""


def source(clip: str) -> str:
    """The name of the video that a clip was cut from: no folder, no file type, no number of the part."""
    name = re.sub(r"\.(mp4|mkv|webm|avi|mov)$", "", PurePosixPath(clip).name, flags=re.IGNORECASE)
    return _CUT.sub("", name)


def training_clips(path: Path) -> list[str]:
    """The videos that a file of training records names (JSON Lines or a JSON list; an episode may be inside a record).

    Raises UserError where the file cannot be read, or a record names no video.
    """
    clips = []
    for number, record in enumerate(_records(path), start=1):
        inner = (
            record.get("episode") if isinstance(record, dict) and isinstance(record.get("episode"), dict) else record
        )
        found = [inner[name] for name in FIELDS if isinstance(inner, dict) and isinstance(inner.get(name), str)]
        if not found:
            raise UserError(f"{path}: record {number}: names no video; it needs one of {', '.join(FIELDS)}")
        clips.append(found[0])
    return list(dict.fromkeys(clips))


def _records(path: Path) -> Iterator[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        yield from json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.strip().split("\n"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: {reason}; name the records that the policy was trained on") from None
    except ValueError as error:
        raise UserError(f"{path}: neither JSON Lines nor a JSON list: {error}") from None


@dataclass(frozen=True)
class Training:
    """The videos that a policy learned from: what each is called in its records, by path."""

    clips: Mapping[Path, str]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Training":
        """Of files of training records, whose clips are relative to their folder. Raises UserError as `training_clips`."""
        return cls({path.parent / clip: clip for path in paths for clip in training_clips(path)})

    def shared(self, evaluation: Iterable[str], root: Path | None = None) -> list[dict[str, str]]:
        """Evaluation clips that are among them, each as {"video", "training", "because"}.

        Clips are relative to `root`; files are compared where `root` is given and both are there.
        """
        found = []
        for clip in dict.fromkeys(evaluation):
            if source(clip) in self._names:
                found.append({"video": clip, "training": self._names[source(clip)], "because": "same name"})
            elif root and (same := self._same_content(root / clip)):
                found.append({"video": clip, "training": same, "because": "same content"})
        return found

    @cached_property
    def _names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for clip in self.clips.values():
            names.setdefault(source(clip), clip)
        return names

    def _same_content(self, path: Path) -> str | None:
        return self._contents.get(_digest(path)) if self._contents and path.is_file() else None

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {_digest(path): clip for path, clip in self.clips.items() if path.is_file()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
