"""Reading frames at given times, writing clips, and proving that a clip can be read rightly.

Frames are found by their true timestamps, never by index / average rate. decord seeks wrongly in open-GOP H.264 and in
HEVC, so such clips are refused and `normalise_clip` re-encodes them. Audio, rotation and colour spaces are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import PictureType
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from turnwise.errors import UserError
from turnwise.files import replacing

Frames = NDArray[np.uint8]

CLOCK = 1e-3
"""Seconds within which two timestamps are the same: decord keeps them as float32."""
SAMPLES = 6
"""Frames that `check_clip` seeks to, besides the first and the last."""
SLACK = 0.5
"""Seconds by which a container may say that it is longer than what is in it (Matroska, where no number of frames does)."""
TOLERANCE = 3.0
"""Mean difference (of 255) up to which two decoders show the same frame."""
NORMALISE = "re-encode it with `turnwise.videos.normalise_clip(source, target)`"
ENCODER = {"crf": "26", "preset": "superfast", "bf": "0", "threads": "1", "x264-params": "open-gop=0:scenecut=0"}


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """What a clip is; `duration` in seconds reaches to the end of the last frame."""

    duration: float
    frames: int
    width: int
    height: int
    fps: float
    codec: str


@contextmanager
def _readable(path: str | Path, remedy: str) -> Iterator[Path]:
    """Turn a missing file and any fault of the decoders into a UserError that names the clip."""
    import decord

    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such video; put the clip there or correct the path")
    try:
        yield path
    except (av.FFmpegError, decord.DECORDError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(f"{path}: cannot be decoded ({reason}); {remedy}") from None


def _open(path: Path) -> tuple[Any, NDArray[np.float64]]:
    """A decord reader and the start time of each frame [N], seconds."""
    import decord

    reader = decord.VideoReader(str(path), ctx=decord.cpu(0), num_threads=1)
    return reader, reader.get_frame_timestamp(np.arange(len(reader)))[:, 0].astype(float)


def read_frames(path: str | Path, times: Sequence[float]) -> Frames:
    """The frame on screen at each of one or more times (seconds, any order), uint8 [N, H, W, 3]: the latest to start.

    A time up to one frame interval past the last frame's start shows the last frame. Raises UserError for a missing or
    damaged clip, for one of a kind that decord seeks wrongly in, and for a time before the start or past the end. Damage
    inside the clip is found by `check_clip`.
    """
    with _readable(path, "get the clip again") as path:
        _Sequential(path).refuse_fault()
        reader, starts = _open(path)
        interval = _interval(reader, starts)
        wanted = np.asarray(times, dtype=float)
        end = starts[-1] + 2 * interval + CLOCK
        if wanted.min() < 0 or wanted.max() > end:
            worst = wanted.min() if wanted.min() < 0 else wanted.max()
            raise UserError(
                f"{path}: has no frame at {worst:g} s, it ends at {end - interval:.3f} s; correct the times"
            )
        indices = np.maximum(np.searchsorted(starts, wanted + CLOCK, side="right") - 1, 0)
        distinct, places = np.unique(indices, return_inverse=True)
        return reader.get_batch(distinct.tolist()).asnumpy()[places]


def check_clip(path: str | Path) -> ClipInfo:
    """Decode the whole clip once and prove that seeking in it returns the right frames.

    Every timestamp is compared with a sequential decode by another library, and the pixels of frames sought in random
    order. Raises UserError with the remedy for a missing, damaged, cut, open-GOP or HEVC clip.
    """
    with _readable(path, f"get the clip again, or {NORMALISE}") as path:
        reading = _Sequential(path)
        reading.refuse_fault()
        reader, starts = _open(path)
        wanted = _sample(len(starts))
        seen, pixels = reading.decode(set(wanted))
        whole = len(seen) == len(starts) >= reading.promised and (reading.promised or reading.missing < SLACK)
        if not whole or not np.allclose(starts, seen, rtol=0, atol=CLOCK):
            raise UserError(f"{path}: is cut or has unclear timestamps ({len(seen)} frames decoded); {NORMALISE}")
        for index in wanted:
            sought = reader[index].asnumpy()
            if sought.shape != pixels[index].shape:
                raise UserError(f"{path}: decord cannot lay out a clip so narrow; scale it up to 64 pixels or more")
            if np.abs(sought.astype(int) - pixels[index]).mean() > TOLERANCE:
                raise UserError(f"{path}: seeking to frame {index} shows another frame; {NORMALISE}")
    height, width = pixels[wanted[0]].shape[:2]
    interval = _interval(reader, starts)
    return ClipInfo(_ending(reader, starts), len(starts), width, height, float(1 / interval), reading.codec)


def clip_duration(path: str | Path) -> float:
    """Seconds to the end of a clip's last frame, without decoding it. Raises UserError for what cannot be sought in."""
    with _readable(path, f"get the clip again, or {NORMALISE}") as path:
        _Sequential(path).refuse_fault()
        return _ending(*_open(path))


def _interval(reader: Any, starts: NDArray[np.float64]) -> float:
    """Mean seconds from one frame to the next; of a single frame, what its rate says."""
    apart = (starts[-1] - starts[0]) / max(1, len(starts) - 1)
    return float(apart or 1 / (reader.get_avg_fps() or 1))


def _ending(reader: Any, starts: NDArray[np.float64]) -> float:
    """Seconds to the end of the last frame, to the millisecond: timestamps are known no better."""
    return round(float(starts[-1]) + _interval(reader, starts), 3)


def _sample(frames: int) -> list[int]:
    """Indices to seek to, in an order that jumps back and forth; the last and the first frame are among them."""
    inner = np.random.default_rng(frames).choice(frames, size=min(frames, SAMPLES), replace=False)
    return [frames - 1, 0, *inner.tolist()]


def _video(container: Any, path: Path) -> Any:
    """The first video stream, set to fail at damage rather than to paint over it."""
    if not container.streams.video:
        raise UserError(f"{path}: holds no video; give a video file")
    stream = container.streams.video[0]
    stream.codec_context.options = {"err_detect": "explode"}
    return stream


class _Sequential:
    """A clip read from its start to its end by PyAV: first its packets, then its frames."""

    def __init__(self, path: Path):
        self.path = path
        with av.open(str(path)) as container:
            stream = _video(container, path)
            self.codec, self.promised = stream.codec_context.name, stream.frames
            shown, end = [], 0.0
            for packet in container.demux():
                if packet.pts is not None:
                    end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
                    shown += [(packet.pts, packet.is_keyframe)] * (packet.stream_index == stream.index)
            self.missing = (container.duration or 0) / av.time_base - end
            """Seconds that the container promises and nothing fills."""
        leading = "has open groups of pictures" if _leading(shown) else None
        self.fault = "is HEVC" if self.codec == "hevc" else leading

    def refuse_fault(self) -> None:
        """Raise UserError where the clip is of a kind that decord seeks wrongly in."""
        if self.fault:
            raise UserError(f"{self.path}: {self.fault}, where seeking shows wrong frames; {NORMALISE}")

    def decode(self, keep: set[int]) -> tuple[NDArray[np.float64], dict[int, Frames]]:
        """Start times of all frames (seconds) and the pixels [H, W, 3] of those to keep."""
        starts: list[float] = []
        pixels: dict[int, Frames] = {}
        convert = VideoReformatter()
        with av.open(str(self.path)) as container:
            for index, frame in enumerate(container.decode(_video(container, self.path))):
                if frame.is_corrupt:
                    raise UserError(f"{self.path}: frame {index} is damaged; get the clip again")
                starts.append(frame.time)
                if index in keep:
                    pixels[index] = np.asarray(convert.reformat(frame, format="rgb24").to_ndarray(), np.uint8)
        return np.array(starts), pixels


def _leading(packets: Sequence[tuple[int, bool]]) -> bool:
    """Whether, in decoding order, a frame after a key frame (other than the first) is shown before it."""
    key = None
    for pts, is_key in packets:
        if is_key:
            key = pts
        elif key is not None and pts < key:
            return True
    return False


def write_clip(path: str | Path, frames: Iterable[Frames], fps: int) -> None:
    """Write frames uint8 [H, W, 3] (H and W even) as H.264 in an mp4 by rename; the same frames give the same bytes.

    Groups of pictures are closed and of two seconds, without B frames.
    """
    _encode(path, (_stamped(image, index, fps) for index, image in enumerate(frames)), fps)


def _stamped(image: Frames, index: int, fps: int) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(image, format="rgb24")
    frame.pts, frame.time_base = index, Fraction(1, fps)
    return frame


def normalise_clip(source: str | Path, target: str | Path) -> None:
    """Re-encode any video to H.264 that `read_frames` reads rightly; timestamps are kept, counted from the first frame.

    Odd sizes lose a row or a column. Raises UserError for a missing or damaged source.
    """
    with _readable(source, "get the clip again") as path, av.open(str(path)) as container:
        stream = _video(container, path)
        _encode(target, container.decode(stream), round(stream.average_rate or 30))


def _encode(path: str | Path, frames: Iterable[Any], rate: int) -> None:
    """Encode frames with timestamps, which are shifted so that the first is 0, by rename."""
    with replacing(path) as scratch, av.open(str(scratch), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options=ENCODER)
        stream.gop_size = 2 * rate
        convert, origin = VideoReformatter(), None
        for frame in frames:
            if origin is None:
                origin = frame.pts
                stream.width, stream.height = frame.width // 2 * 2, frame.height // 2 * 2
                stream.pix_fmt = "yuv420p"
                stream.time_base = stream.codec_context.time_base = frame.time_base
            image = convert.reformat(frame, stream.width, stream.height, "yuv420p")
            image.pts, image.time_base, image.pict_type = frame.pts - origin, frame.time_base, PictureType.NONE
            container.mux(stream.encode(image))
        container.mux(stream.encode(None))
