"""What the policy engine saves, each against the plain way, in one run: the past, the tower, and the logits."""

import ctypes
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.config import compose, validate
from turnwise.episodes import Episode, Grid, Query
from turnwise.objective import policy_loss, token_weights
from turnwise.policy import (
    Batch,
    FrameStore,
    HfSampler,
    Loaded,
    action_logprobs,
    attention,
    build_embedded,
    learning_batch,
    load_policy,
)
from turnwise.policy.conversation import Conversation, Script
from turnwise.protocols import NO_REPLY
from turnwise.records import Trajectory
from turnwise.videos import write_clip

ROWS, TOKENS, LONG, REPEATS = 8, 4, 64, 5
VOCABULARY = 151_936
"""Output rows of the published Qwen2.5-VL and Qwen3-VL."""


def engine() -> None:
    """Print all tables, of the embedded policy with random weights."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rng = np.random.default_rng(0)
        images = (rng.integers(0, 255, (224, 224, 3), np.uint8) for _ in range(LONG + ROWS + 1))
        write_clip(root / "clip.mp4", images, fps=1)
        spec = validate(compose([]), "profiles/embedded.yaml").policy
        build_embedded(spec, ["What comes into view?"], root / "model", 0)
        policy = load_policy(spec, NO_REPLY, root / "model", "cpu")
        appending(policy, root)
        seeing(policy, root)
        scoring(load_policy(spec.model_copy(update={"frame_pixels": 224 * 224}), NO_REPLY, root / "model", "cpu"), root)


def episodes(count: int, turns: int, apart: int = 1) -> list[Episode]:
    """Streams of one frame a turn, each so many frames later than the one before."""
    asked = (Query(text="What comes into view?", time=0.0),)
    grids = [Grid(start=n * apart, frame_interval=1.0, turns=turns) for n in range(count)]
    return [
        Episode(id=str(n), clip="clip.mp4", task="perf", grid=grid, queries=asked, windows=())
        for n, grid in enumerate(grids)
    ]


def appending(policy: Loaded, root: Path) -> None:
    """Roll-out with the appended cache against `generate` over the whole history, both greedy; and the time of a turn."""
    frames = FrameStore(root, policy)
    print(f"\nroll-out of {ROWS} trajectories, one frame a turn, actions cut at {TOKENS} tokens; seconds")
    print("  turns   appended   generate over the history   times faster")
    for turns in (8, 32):
        streams = episodes(ROWS, turns)
        frames.prefetch(streams)
        rolled = [rollout(policy, frames, streams) for _ in range(3)]
        fast, trajectories = min(seconds for seconds, _, _ in rolled), rolled[0][2]
        slow = regenerated(policy, frames, streams, trajectories)
        print(f"  {turns:5d}   {fast:8.2f}   {slow:25.2f}   {slow / fast:12.1f}")
    print(f"  milliseconds of a turn             turn 8   turn {LONG}   times")
    for count in (1, ROWS):
        streams = episodes(count, LONG)
        laps = 1e3 * np.median([rollout(policy, frames, streams)[1] for _ in range(REPEATS)], axis=0)
        for name, times in (("all", laps[:, 0]), ("without the attention kernel", laps[:, 0] - laps[:, 1])):
            early, late = (float(np.median(times[turn - 5 : turn])) for turn in (8, LONG))
            print(f"  {count:2d} side by side, {name:28s} {early:6.1f}   {late:7.1f}   {late / early:5.2f}")


def rollout(
    policy: Loaded, frames: FrameStore, streams: list[Episode]
) -> tuple[float, NDArray[np.float64], list[Trajectory]]:
    """Seconds in all, seconds [T, 2] of each turn (all, and in the attention kernel), and the trajectories."""
    sampler = HfSampler(policy, frames, max_action_tokens=TOKENS, max_context=32768)
    kernel, within, marks = attention.scaled_dot_product_attention, 0.0, []

    def timed(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal within
        start = time.perf_counter()
        found = kernel(*args, **kwargs)
        within += time.perf_counter() - start
        return found

    def mark(*_: Any) -> None:
        marks.append((time.perf_counter(), within))

    with patch.object(attention, "scaled_dot_product_attention", timed):
        mark()
        trajectories = sampler.rollout(streams, 1, temperature=0.0, top_k=0, top_p=1.0, seed=0, on_turn=mark)
    return marks[-1][0] - marks[0][0], np.diff(marks, axis=0), trajectories


@torch.no_grad()
def regenerated(policy: Loaded, frames: FrameStore, streams: list[Episode], trajectories: list[Trajectory]) -> float:
    """Seconds of the same roll-out where each turn calls `generate` with all frames and tokens so far."""
    told = [Conversation(policy, Script(policy, frames, episode)) for episode in streams]
    generate = policy.model.generate
    spent = 0.0
    for turn in range(streams[0].turns):
        for conversation in told:
            conversation.show(turn)
        inputs = whole(policy, frames, told)
        start = time.perf_counter()
        said = generate(
            **inputs,
            do_sample=False,
            max_new_tokens=TOKENS,
            logits_processor=[lambda _, scores: scores + policy.bans],
            eos_token_id=policy.end_id,
        )[:, inputs["input_ids"].shape[1] :]
        spent += time.perf_counter() - start
        for conversation, tokens, trajectory in zip(told, said.tolist(), trajectories, strict=True):
            expected = list(trajectory.actions[turn].tokens)
            assert tokens[: len(expected)] == expected, "both ways say the same"
            conversation.act(turn, expected)
    return spent


def whole(policy: Loaded, frames: FrameStore, told: list[Conversation]) -> dict[str, Tensor]:
    """What the model's own forward wants for conversations of one length, with every frame anew."""
    pieces = [conversation.since(0) for conversation in told]
    ids = torch.tensor([piece.ids for piece in pieces])
    shown = [frame for piece in pieces for frame, _ in piece.frames]
    patches, merge = frames.patches(shown), policy.merge
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == policy.image_id).long(),
        "pixel_values": torch.cat([p.values for p in patches]).unsqueeze(2).expand(-1, -1, 2, -1).flatten(1),
        "image_grid_thw": torch.tensor([(1, h * merge, w * merge) for _, (h, w) in patches]),
    }


def seeing(policy: Loaded, root: Path) -> None:
    """Frames that the tower sees in one update, against one visit for each trajectory that shows them in each pass."""
    frames, streams = FrameStore(root, policy), episodes(2, 16, apart=16)
    sampler = HfSampler(policy, frames, max_action_tokens=TOKENS, max_context=4096)
    rolled = sampler.rollout(streams, ROWS, temperature=1.0, top_k=0, top_p=1.0, seed=0)
    batch = learning_batch(policy, frames, [(streams[int(t.episode)], t) for t in rolled])
    for start in range(0, len(rolled), ROWS):
        action_logprobs(policy, batch.select(slice(start, start + ROWS)), temperature=1.0, with_grad=False)
    naive = 2 * sum(len(trajectory.actions) for trajectory in rolled)
    print(f"\nvision tower, frozen: roll-out and one learning pass over 2 groups of {ROWS} trajectories of 16 frames")
    print(f"  {frames.tower_frames} frames seen; {naive} if each trajectory saw its own in each pass")


def scoring(policy: Loaded, root: Path) -> None:
    """Log-probs, entropy and loss with gradient at Qwen's vocabulary, against TRL's functions on the same rows."""
    policy.model.resize_token_embeddings(VOCABULARY, mean_resizing=False)
    policy.bans.zero_()
    frames, streams = FrameStore(root, policy), episodes(2, 8)
    sampler = HfSampler(policy, frames, max_action_tokens=TOKENS, max_context=4096)
    rolled = sampler.rollout(streams, 1, temperature=1.0, top_k=0, top_p=1.0, seed=0)
    batch = learning_batch(policy, frames, list(zip(streams, rolled, strict=True)))
    said = int(batch.mask.sum())
    print(f"\nlog-probs, entropy and loss with gradient of {said} action tokens, vocabulary {VOCABULARY:,}")
    expected = action_logprobs(policy, batch, temperature=1.0, with_grad=False)
    for name, way in ways(policy, batch, whole(policy, frames, list(batch.conversations))).items():
        for one, other in zip(way(), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
        seconds, megabytes = cost(lambda way=way: step(policy, batch, way))
        print(f"  {name:45s} {seconds:6.2f} s  {megabytes:6.0f} MB at the peak")


def ways(policy: Loaded, batch: Batch, inputs: dict[str, Tensor]) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Functions that return log-probs and entropies [B, K] of the batch's action tokens.

    TRL scores a row from its first action on, what was shown between actions included.
    """

    def ours() -> tuple[Tensor, Tensor]:
        return action_logprobs(policy, batch, temperature=1.0, with_grad=True)

    try:
        from trl.trainer.utils import add_fused_lm_head, entropy_from_logits, selective_log_softmax
    except ImportError:
        print("  trl is not installed, so there is nothing to compare with")
        return {"turnwise": ours}
    ids, rows = inputs["input_ids"], torch.arange(len(batch.tokens))[:, None]
    first = int(batch.predicts.min())
    labels = ids.masked_fill(torch.arange(ids.shape[1]) <= first, -100)
    add_fused_lm_head(policy.model, outputs=("log_probs", "entropy"))

    def selective() -> tuple[Tensor, Tensor]:
        logits = policy.model(**inputs, logits_to_keep=ids.shape[1] - first).logits[:, :-1]
        logps = selective_log_softmax(logits, ids[:, first + 1 :])
        with torch.no_grad():
            entropy = entropy_from_logits(logits)
        return logps[rows, batch.predicts - first], entropy[rows, batch.predicts - first]

    def fused() -> tuple[Tensor, Tensor]:
        out = policy.model(**inputs, labels=labels, fused_lm_head=True)
        return out.log_probs[rows, batch.predicts], out.entropy[rows, batch.predicts]

    scored = f"{ids.shape[0]} x {ids.shape[1] - first - 1} positions"
    named = {f"TRL, selective_log_softmax, {scored}": selective, f"TRL, fused head, {scored}": fused}
    return {"turnwise": ours, **named}


def step(policy: Loaded, batch: Batch, logprobs: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """The loss of a batch and its gradient."""
    logp, _ = logprobs()
    advantages = torch.ones_like(logp)
    weights = token_weights(batch.mask, batch.turn_ids, "turn-mean")
    clips = {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": 3.0}
    policy_loss(logp - batch.old_logprobs, advantages, weights, **clips).loss.backward()
    policy.model.zero_grad()


def cost(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds, the best of three calls, and how far memory rises above its level before them, in MB."""
    work()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, seconds = memory("VmRSS"), []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), memory("VmHWM") - before


def memory(field: str) -> float:
    """Resident memory of this process, in MB: now (VmRSS), or at its peak since the last reset (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


if __name__ == "__main__":
    torch.set_num_threads(1)
    engine()
