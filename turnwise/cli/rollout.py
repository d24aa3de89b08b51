"""`turnwise rollout`: watch a policy watch a clip."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from turnwise.cli.settings import printable
from turnwise.errors import UserError

if TYPE_CHECKING:
    from turnwise.config import Params
    from turnwise.episodes import Episode
    from turnwise.policy import HfSampler
    from turnwise.records import Action

FRAMES_AT_ONCE = 8
"""Decoded when the first of them is due: opening the clip costs as much as a frame or two."""


def rollout(
    model: Annotated[str, typer.Option(help="Directory or hub id of a Qwen2.5-VL or Qwen3-VL.", show_default=False)],
    video: Annotated[Path, typer.Option(help="The clip.", show_default=False)],
    query: Annotated[str, typer.Option(help="What the user says.", show_default=False)],
    query_time: Annotated[float, typer.Option(min=0, help="When the user says it, in seconds.")] = 0.0,
    grid: Annotated[float, typer.Option(min=0.01, max=3600, help="Seconds from one decision to the next.")] = 2.0,
    frames_per_turn: Annotated[int, typer.Option(min=1, help="Frames shown at each decision, evenly apart.")] = 1,
    temperature: Annotated[
        float, typer.Option(help="Of the sampling, 0.01 to 100; 0 takes the likeliest token.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    max_tokens: Annotated[
        int | None, typer.Option(min=2, help="Token cap of an action.", show_default="rollout.max_action_tokens")
    ] = None,
) -> None:
    """Stream a clip through a policy and print what it says, and when it waits, as it comes.

    What the options leave open comes from `params.yaml`: protocol, pixels of a frame, type of the weights, device,
    top-k and top-p. So choose the profile that the checkpoint was trained with.

    Examples:

    - `turnwise rollout --model runs/turnwise/0/model --video data/clips/dev/dev-0000.mp4 --grid 2
      --query "Tell me about every new object that comes into view."`

    - as MMDuet2 watches, after `turnwise profile use qwen2.5-vl-3b`: `turnwise rollout --model
      Qwen/Qwen2.5-VL-3B-Instruct --video match.mp4 --grid 4 --frames-per-turn 2 --query "Say when a goal is scored."`
    """
    from turnwise.config import read_params

    if temperature and not 0.01 <= temperature <= 100:
        raise UserError(f"--temperature: {temperature:g} is neither 0 nor from 0.01 to 100")
    params = read_params()
    episode = _episode(video, query, query_time, grid, frames_per_turn)
    sampler = _sampler(params, model, video.parent, max_tokens or params.rollout.max_action_tokens)
    _check_length(sampler, episode)
    start, tell = time.monotonic(), _Teller(episode)
    drawing = params.rollout.model_dump(include={"top_k", "top_p"})
    sampler.rollout([episode], 1, temperature=temperature, seed=seed, on_turn=tell, **drawing)
    seconds = time.monotonic() - start
    _note(f"{tell.replies} replies in {episode.turns} decisions; {seconds / episode.turns:.2f} s a decision")


class _Teller:
    """Prints each decision as it is taken, and counts the replies."""

    def __init__(self, episode: "Episode"):
        self.times, self.queries, self.replies = episode.grid.times, episode.shown_queries(), 0

    def __call__(self, turn: int, actions: "Sequence[Action | None]") -> None:
        (action,) = actions
        assert action is not None
        self.replies += action.kind == "reply"
        for said in self.queries[turn]:
            print(f"{said.time:8.1f} s  > {said.text}")
        print(f"{self.times[turn]:8.1f} s  {_told(action)}", flush=True)


def _episode(video: Path, query: str, query_time: float, grid: float, frames_per_turn: int) -> "Episode":
    """The whole clip on the grid. Raises UserError for a bad clip, a grid that is none, and a query that is empty, no
    text, or comes too late.
    """
    from turnwise.benchmarks.items import grid_over
    from turnwise.config import Stream
    from turnwise.episodes import Episode, Query, describe
    from turnwise.videos import clip_duration

    if not query:
        raise UserError("--query: is empty; say what the policy is to look for")
    duration = clip_duration(video)
    try:
        stream = Stream(frame_interval=grid / frames_per_turn, frames_per_turn=frames_per_turn)
        times = grid_over(0.0, duration, duration, stream)
        asked = (Query(text=query, time=query_time),)
        episode = Episode(id=video.name, clip=video.name, task="rollout", grid=times, queries=asked, windows=())
    except ValidationError as error:
        raise UserError(f"{video}, asked that way: {describe(error)}; correct the options") from None
    if query_time > times.times[-1]:
        raise UserError(f"--query-time: {query_time:g} s is after the last decision, at {times.times[-1]:g} s")
    return episode


def _sampler(params: "Params", model: str, root: Path, max_tokens: int) -> "HfSampler":
    _note(f"loading {model}")
    import torch

    from turnwise.policy import FrameStore, HfSampler, load_policy
    from turnwise.protocols import protocol

    torch.set_num_threads(params.runtime.threads)
    spec = params.policy.model_copy(update={"model": model})
    policy = load_policy(spec, protocol(params.protocol), None, params.runtime.device)
    frames = FrameStore(root, policy, ahead=FRAMES_AT_ONCE)
    limit = policy.model.config.text_config.max_position_embeddings
    return HfSampler(policy, frames, max_action_tokens=max_tokens, max_context=limit)


def _check_length(sampler: "HfSampler", episode: "Episode") -> None:
    """Refuse a clip that may take more tokens than the model has positions for."""
    from turnwise.policy.conversation import Script

    tokens = episode.turns * episode.grid.frames_per_turn  # the fewest that it can be: a clip of days is not laid out
    if tokens <= sampler.max_context:
        tokens = Script(sampler.policy, sampler.frames, episode).longest(sampler.max_action_tokens)
    if tokens > sampler.max_context:
        raise UserError(
            f"{episode.clip}: {episode.turns} decisions may take {tokens} tokens, the model has room for "
            f"{sampler.max_context}; use a wider --grid, fewer --max-tokens, or lower policy.frame_pixels in params.yaml"
        )


def _told(action: "Action") -> str:
    if action.kind == "silence":
        return "·"
    text = printable(" ".join(action.text.split())) or "(malformed)"
    return f"{text} …" if action.capped else text


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
