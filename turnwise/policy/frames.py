"""Frames of episodes as the model takes them: decoded, resized and cut into patches once, and seen by the tower once."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from turnwise.episodes import Episode
from turnwise.policy.loading import Loaded, tower
from turnwise.policy.positions import Grid
from turnwise.videos import read_frames

Value = TypeVar("Value")
TOWER_BATCH = 32
"""Frames of one backward pass through the tower."""


class Frame(NamedTuple):
    """A frame by its clip (path relative to the store's root) and its time in seconds."""

    clip: str
    time: float


class Patches(NamedTuple):
    """One frame as the image processor leaves it."""

    values: Tensor
    """[h * w * merge^2, channels, patch^2] float32 pixels."""
    grid: Grid
    """Its height and width in visual tokens."""


class Features(NamedTuple):
    """What the tower made of frames; N visual tokens of all of them, in the order asked for, D the decoder's width."""

    embeds: Tensor
    """[N, D], in place of the placeholders."""
    deepstack: tuple[Tensor, ...]
    """[N, D] each, added after the first decoder layers (Qwen3-VL); empty for Qwen2.5-VL."""

    @property
    def levels(self) -> tuple[Tensor, ...]:
        """All of them."""
        return self.embeds, *self.deepstack


def frames_of(episode: Episode) -> list[Frame]:
    """Every frame that the episode shows, history first."""
    shown = [turn.frame_times for turn in episode.history] + list(episode.grid.frame_times)
    return [Frame(episode.clip, time) for times in shown for time in times]


class FrameStore:
    """Frames below `root`, each distinct (clip, time) decoded once and kept, the longest unused leaving first.

    Visual features are kept for as long as the tower's weights stay as they are, so a frozen tower sees a frame once
    for the whole group, for roll-out and for every learning pass. A tower in training sees it once more in each
    `one_backward_pass`, or else at each call of `features` with gradient.

    With `ahead`, frames are decoded when the first of them is needed, so many at a time, and not all at `prefetch`.
    """

    def __init__(self, root: Path, policy: Loaded, *, capacity: int = 6144, ahead: int | None = None):
        self.root, self.policy, self.capacity, self.ahead = root, policy, capacity, ahead
        self.tower_frames = 0
        """Frames that the tower has seen, for accounts of its cost."""
        self._coming: list[Frame] = []
        self._grids: dict[str, Grid] = {}
        self._patches: OrderedDict[Frame, Patches] = OrderedDict()
        self._features: OrderedDict[Frame, Features] = OrderedDict()
        self._version: tuple[int, ...] = ()
        self._leaves: dict[Frame, Features] | None = None

    def prefetch(self, episodes: Iterable[Episode]) -> None:
        """Decode the frames of episodes ahead, opening each clip once. Raises UserError for a bad clip."""
        frames = [frame for episode in episodes for frame in frames_of(episode)]
        if self.ahead is None:
            self.patches(frames)
        else:
            self._coming = frames

    def grid(self, frame: Frame) -> Grid:
        """A frame's height and width in visual tokens, those of all frames of its clip."""
        if frame.clip not in self._grids:
            self._grids[frame.clip] = self.patches([frame])[0].grid
        return self._grids[frame.clip]

    def patches(self, frames: Sequence[Frame]) -> list[Patches]:
        """The patches of each frame. Raises UserError for a clip that is missing, damaged or too short."""
        found = {frame: self._patches[frame] for frame in frames if frame in self._patches}
        missing: dict[str, list[Frame]] = {}
        for frame in dict.fromkeys(frames):
            if frame not in found:
                missing.setdefault(frame.clip, []).append(frame)
        for clip, needed in missing.items():
            wanted = self._with_following(needed)
            found.update(zip(wanted, self._decode(clip, [frame.time for frame in wanted]), strict=True))
        _keep(self._patches, found, self.capacity)
        return [found[frame] for frame in frames]

    def _with_following(self, frames: list[Frame]) -> list[Frame]:
        """The frames of a clip, and those that come after the last of them, `ahead` from there on."""
        if not self.ahead or frames[-1] not in self._coming:
            return frames
        place = self._coming.index(frames[-1])
        return frames + [one for one in self._coming[place + 1 : place + self.ahead] if one.clip == frames[-1].clip]

    def _decode(self, clip: str, times: Sequence[float]) -> list[Patches]:
        """The tower wants an image twice, as two equal frames of a video; one of them is kept."""
        merge = self.policy.merge
        images = list(read_frames(self.root / clip, times))
        processed = self.policy.image_processor(images, return_tensors="pt", input_data_format="channels_last")
        grids = processed["image_grid_thw"]
        pixels = processed["pixel_values"].unflatten(1, (-1, *self._patch))[:, :, 0]
        parts = torch.split(pixels, grids.prod(-1).tolist())
        return [
            Patches(part.clone(), (h // merge, w // merge))
            for part, (_, h, w) in zip(parts, grids.tolist(), strict=True)
        ]

    @property
    def _patch(self) -> tuple[int, int]:
        """Frames and pixels of a patch."""
        return self.policy.image_processor.temporal_patch_size, self.policy.image_processor.patch_size**2

    def features(self, frames: Sequence[Frame], *, with_grad: bool = False) -> Features:
        """Visual features of frames, which should be distinct; with `with_grad`, a tower in training gets its gradient."""
        trains = with_grad and any(p.requires_grad for p in tower(self.policy).parameters())
        if trains and self._leaves is None:
            return _join(self._see(frames))
        found = self._kept(frames)
        if trains and self._leaves is not None:
            self._leaves |= {frame: _leaf(found[frame]) for frame in frames if frame not in self._leaves}
            found = self._leaves
        return _join([found[frame] for frame in frames])

    @contextmanager
    def one_backward_pass(self) -> Iterator[None]:
        """Within, backward passes stop at the features; on leaving, what they left there goes through the tower at once.

        So micro-batches that share frames run a tower in training once a frame; the gradient is the same.
        """
        self._leaves = {}
        try:
            yield
            frames = list(self._leaves)
            for start in range(0, len(frames), TOWER_BATCH):
                part = frames[start : start + TOWER_BATCH]
                outputs = [level for seen in self._see(part) for level in seen.levels]
                gradients = [level.grad for frame in part for level in self._leaves[frame].levels]
                torch.autograd.backward(outputs, gradients)
        finally:
            self._leaves = None

    def _kept(self, frames: Sequence[Frame]) -> dict[Frame, Features]:
        """Features without gradient, by the tower as it stands."""
        version = tuple(p._version for p in tower(self.policy).parameters())
        if version != self._version:
            self._features.clear()
            self._version = version
        found = {frame: self._features[frame] for frame in frames if frame in self._features}
        missing = [frame for frame in dict.fromkeys(frames) if frame not in found]
        if missing:
            with torch.no_grad():
                found.update(zip(missing, self._see_alike(missing), strict=True))
        _keep(self._features, found, self.capacity)
        return found

    def _see_alike(self, frames: Sequence[Frame]) -> list[Features]:
        """On CPU each frame passes by itself: its last bits would depend on its company, and a resumed run keeps other."""
        if self.policy.device.type != "cpu":
            return self._see(frames)
        return [features for frame in frames for features in self._see([frame])]

    def _see(self, frames: Sequence[Frame]) -> list[Features]:
        patches, merge, device = self.patches(frames), self.policy.merge, self.policy.device
        grids = torch.tensor([(1, h * merge, w * merge) for _, (h, w) in patches], device=device)
        pixels = torch.cat([values for values, _ in patches]).to(device)
        twice = pixels.unsqueeze(2).expand(-1, -1, self._patch[0], -1).flatten(1)
        model: Any = self.policy.model
        seen = model.get_image_features(twice, grids)
        self.tower_frames += len(frames)
        levels = [seen.pooler_output, *(seen.get("deepstack_features") or [])]
        return [Features(each[0], each[1:]) for each in zip(*levels, strict=True)]


def _keep(kept: OrderedDict[Frame, Value], new: dict[Frame, Value], capacity: int) -> None:
    for frame, value in new.items():
        kept[frame] = value
        kept.move_to_end(frame)
    while len(kept) > capacity:
        kept.popitem(last=False)


def _leaf(features: Features) -> Features:
    embeds, *deepstack = (level.clone().requires_grad_() for level in features.levels)
    return Features(embeds, tuple(deepstack))


def _join(features: Sequence[Features]) -> Features:
    embeds = torch.cat([feature.embeds for feature in features])
    return Features(embeds, tuple(torch.cat(level) for level in zip(*(f.deepstack for f in features), strict=True)))
