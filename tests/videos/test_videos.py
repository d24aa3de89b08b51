from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UserError
from turnwise.videos import check_clip, clip_duration, normalise_clip, read_frames, write_clip

FRAMES, FPS = 121, 12


def coded(number: int) -> np.ndarray:
    """A frame [48, 64, 3] with its number as eight black or white blocks, and a moving bar to make encoders predict."""
    image = np.full((48, 64, 3), 90, np.uint8)
    for bit in range(8):
        y, x = 16 * (bit // 4), 16 * (bit % 4)
        image[y : y + 16, x : x + 16] = 255 * (number >> bit & 1)
    image[34:46, number * 3 % 56 : number * 3 % 56 + 8] = (200, 60, 60)
    return image


def number_of(image: np.ndarray) -> int:
    """The number drawn into a frame."""
    blocks = image[:32].mean(axis=2).reshape(2, 16, 4, 16)[:, 4:12, :, 4:12].mean(axis=(1, 3)).ravel()
    return int(sum(1 << bit for bit, value in enumerate(blocks) if value > 128))


def encode(path: Path, codec: str = "libx264", ticks=lambda i: 10 * i, **options: str) -> Path:
    """Write the coded frames with any encoder; `ticks` gives a frame's time in 1/(10 FPS) s."""
    clock = Fraction(1, 10 * FPS)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=FPS, options={"crf": "18", **options})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 24
        stream.time_base = stream.codec_context.time_base = clock
        for index in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(coded(index), format="rgb24")
            frame.pts, frame.time_base = ticks(index), clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def uneven(index: int) -> int:
    """A variable frame rate: stretches of ten frames, by turns fast and 3.5 times slower."""
    return sum(10 if i // 10 % 2 == 0 else 35 for i in range(index))


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "coded.mp4"
    write_clip(path, map(coded, range(FRAMES)), FPS)
    return path


@given(st.lists(st.floats(0, FRAMES / FPS), min_size=1, max_size=12))
def test_frames_are_those_on_screen_at_the_times_in_any_order(clip, times):
    expected = [min(int(time * FPS + 0.012), FRAMES - 1) for time in times]
    got = [number_of(image) for image in read_frames(clip, times)]
    near_edge = [abs(time * FPS - round(time * FPS)) < 0.03 for time in times]
    assert all(g == e or (edge and abs(g - e) == 1) for g, e, edge in zip(got, expected, near_edge, strict=True))


def test_frame_starts_are_exact(clip):
    order = np.random.default_rng(0).permutation(FRAMES)
    assert [number_of(image) for image in read_frames(clip, order / FPS)] == order.tolist()


def test_times_past_the_last_frame(clip):
    assert number_of(read_frames(clip, [(FRAMES + 0.9) / FPS])[0]) == FRAMES - 1
    with pytest.raises(UserError, match=r"coded\.mp4: has no frame at 11 s"):
        read_frames(clip, [0.0, 11.0])
    with pytest.raises(UserError, match=r"no frame at -1 s"):
        read_frames(clip, [-1.0])


def test_what_a_checked_clip_is(clip):
    info = check_clip(clip)
    assert (info.frames, info.width, info.height, info.codec) == (FRAMES, 64, 48, "h264")
    assert (info.fps, info.duration) == pytest.approx((FPS, FRAMES / FPS), abs=1e-3)


def test_variable_frame_rate_is_read_by_true_timestamps(tmp_path):
    source = encode(tmp_path / "vfr.mp4", ticks=uneven, bf="2")
    normalise_clip(source, tmp_path / "normal.mp4")
    starts = np.array([uneven(i) for i in range(FRAMES)]) / (10 * FPS)
    for path in (source, tmp_path / "normal.mp4"):
        check_clip(path)
        assert [number_of(image) for image in read_frames(path, starts[::-1])] == list(range(FRAMES))[::-1]


@pytest.mark.parametrize(
    ("codec", "options", "message"),
    [
        ("libx264", {"bf": "3", "x264-params": "open-gop=1"}, "open groups of pictures.*normalise_clip"),
        ("libx265", {"x265-params": "log-level=none"}, "is HEVC.*normalise_clip"),
    ],
)
def test_clips_that_seek_wrongly_are_refused_and_can_be_normalised(tmp_path, codec, options, message):
    source, target = encode(tmp_path / "source.mp4", codec, **options), tmp_path / "target.mp4"
    with pytest.raises(UserError, match=message):
        check_clip(source)
    normalise_clip(source, target)
    assert check_clip(target).frames == FRAMES
    order = np.random.default_rng(1).permutation(FRAMES)
    assert [number_of(image) for image in read_frames(target, order / FPS)] == order.tolist()


def test_a_seek_that_shows_another_frame_is_found(clip, monkeypatch):
    """A reader that is off by one frame after a seek, as decord is in open groups of pictures."""
    from turnwise import videos

    class OffByOne:
        def __init__(self, reader):
            self.reader = reader

        def __getitem__(self, index):
            return self.reader[max(0, index - 1)]

    opened = videos._open
    monkeypatch.setattr(videos, "_open", lambda path: (OffByOne((found := opened(path))[0]), found[1]))
    with pytest.raises(UserError, match="seeking to frame 120 shows another frame"):
        check_clip(clip)


def test_missing_cut_and_damaged_clips_are_named(clip, tmp_path):
    with pytest.raises(UserError, match=r"none\.mp4: no such video"):
        check_clip(tmp_path / "none.mp4")
    whole = clip.read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    middle = len(whole) // 3
    (tmp_path / "bad.mp4").write_bytes(whole[:middle] + bytes(range(255, 0, -1)) * 2 + whole[middle + 510 :])
    (tmp_path / "text.mp4").write_text("not a video")
    for name in ("cut.mp4", "bad.mp4", "text.mp4"):
        with pytest.raises(UserError, match=name):
            check_clip(tmp_path / name)
    with pytest.raises(UserError, match=r"cut\.mp4"):
        normalise_clip(tmp_path / "cut.mp4", tmp_path / "out.mp4")
    with pytest.raises(UserError, match=r"cut\.mp4"):
        read_frames(tmp_path / "cut.mp4", [0.0])
    assert not (tmp_path / "out.mp4").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("form", ["mkv", "webm"])
def test_a_cut_clip_without_a_number_of_frames_is_refused(tmp_path, form):
    path = encode(tmp_path / f"whole.{form}", "libvpx-vp9" if form == "webm" else "libx264")
    assert check_clip(path).frames == FRAMES
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 4 // 5])
    with pytest.raises(UserError, match=f"whole\\.{form}: is cut"):
        check_clip(path)


def test_a_clip_of_one_frame_lasts_as_its_rate_says(tmp_path):
    write_clip(tmp_path / "one.mp4", [coded(5)], 2)
    assert clip_duration(tmp_path / "one.mp4") == check_clip(tmp_path / "one.mp4").duration == 0.5
    assert number_of(read_frames(tmp_path / "one.mp4", [0.5])[0]) == 5


def test_a_clip_too_narrow_for_the_decoder_is_refused(tmp_path):
    write_clip(tmp_path / "narrow.mp4", [np.zeros((64, 16, 3), np.uint8)] * 3, 2)
    for read in (check_clip, lambda path: read_frames(path, [0.0])):
        with pytest.raises(UserError, match=r"narrow\.mp4"):
            read(tmp_path / "narrow.mp4")


def test_a_clip_cut_at_the_end_is_refused_when_its_index_comes_first(clip, tmp_path):
    front = tmp_path / "front.mp4"
    with av.open(str(clip)) as source, av.open(str(front), "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.pts is not None:
                packet.stream = stream
                target.mux(packet)
    assert check_clip(front).frames == FRAMES
    front.write_bytes(front.read_bytes()[:-4000])
    with pytest.raises(UserError, match=r"front\.mp4"):
        check_clip(front)


def test_the_same_frames_give_the_same_bytes(clip, tmp_path):
    write_clip(tmp_path / "again.mp4", map(coded, range(FRAMES)), FPS)
    assert (tmp_path / "again.mp4").read_bytes() == clip.read_bytes()
