"""`turnwise rollout` with a small random policy and a real clip."""

import av
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.cli.profiles import params_yaml
from turnwise.cli.settings import printable
from turnwise.config import Policy, compose, read_params
from turnwise.episodes import Episode, Grid, Query
from turnwise.errors import UserError
from turnwise.policy import FrameStore, HfSampler, build_embedded, load_policy
from turnwise.protocols import protocol
from turnwise.videos import write_clip

SMALL = {"hidden": 32, "heads": 2, "layers": 1, "vision_hidden": 16, "vision_layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A repository's root with params.yaml, a clip of eight seconds, the same in HEVC, and a model of either family."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("root")
    values = compose([])
    values["policy"] |= SMALL
    values["rollout"]["max_action_tokens"] = 6
    (root / "params.yaml").write_text(params_yaml(values))
    for family in ("qwen2_5_vl", "qwen3_vl"):
        build_embedded(Policy(**values["policy"] | {"family": family}), ["A red ball."], root / family, seed=0)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (64, 64, 3), dtype=np.uint8) for _ in range(32)]
    write_clip(root / "clip.mp4", images, 4)
    with av.open(str(root / "hevc.mp4"), "w") as container:
        stream = container.add_stream("libx265", rate=4, options={"x265-params": "log-level=none"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for image in [*images, None]:
            container.mux(stream.encode(image if image is None else av.VideoFrame.from_ndarray(image)))
    return root


def run(folder, monkeypatch, **options):
    monkeypatch.chdir(folder)
    options = {"model": "qwen2_5_vl", "video": "clip.mp4", "query": "What now?", "grid": 2} | options
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(app, ["rollout", *words])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_it_prints_what_the_sampler_says_at_each_time(folder, monkeypatch, family):
    options = {"grid": 2, "frames_per_turn": 2, "temperature": 1.0, "seed": 3, "query_time": 2.5}
    printed = run(folder, monkeypatch, model=family, **options)
    params = read_params()
    policy = load_policy(params.policy, protocol(params.protocol), folder / family, "cpu")
    episode = Episode(
        id="clip.mp4",
        clip="clip.mp4",
        task="x",
        grid=Grid(frame_interval=1.0, frames_per_turn=2, turns=4),
        queries=(Query(text="What now?", time=2.5),),
        windows=(),
    )
    sampler = HfSampler(policy, FrameStore(folder, policy), max_action_tokens=6, max_context=4096)
    (said,) = sampler.rollout([episode], 1, temperature=1.0, top_k=0, top_p=1.0, seed=3)
    lines = printed.splitlines()
    assert lines.pop(1) == "     2.5 s  > What now?"
    assert [line[:12] for line in lines] == ["     2.0 s  ", "     4.0 s  ", "     6.0 s  ", "     8.0 s  "]
    assert any(action.kind == "reply" for action in said.actions)
    for line, action in zip(lines, said.actions, strict=True):
        if action.kind == "reply":
            assert line[12:] == printable(" ".join(action.text.split())) + " …" * action.capped


def test_a_clip_of_one_frame_and_what_would_steer_a_terminal(folder, monkeypatch):
    from turnwise.records import Action

    write_clip(folder / "one.mp4", [np.zeros((64, 64, 3), np.uint8)], 1)
    said = Action(tokens=(1, 2), logprobs=(0.0, 0.0), text="a \x1b[2J b", kind="reply", capped=False)
    monkeypatch.setattr("turnwise.policy.loading.Loaded.action", lambda *_: said)
    lines = run(folder, monkeypatch, video="one.mp4").splitlines()
    assert lines[1:] == ["     1.0 s  a \N{REPLACEMENT CHARACTER}[2J b"]


def test_a_wait_is_a_dot(folder, monkeypatch):
    from turnwise.protocols import NO_REPLY
    from turnwise.records import Action

    waiting = Action(tokens=(1, 2), logprobs=(0.0, 0.0), text=NO_REPLY.silence, kind="silence", capped=False)
    monkeypatch.setattr("turnwise.policy.loading.Loaded.action", lambda *_: waiting)
    assert run(folder, monkeypatch, grid=4).splitlines()[1:] == ["     4.0 s  ·", "     8.0 s  ·"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "missing/"}, r"^missing/: no such directory, and no hub id .* `--model`"),
        ({"video": "none.mp4"}, r"^none\.mp4: no such video"),
        ({"video": "hevc.mp4"}, r"^hevc\.mp4: is HEVC.*normalise_clip"),
        ({"query": ""}, r"^--query: is empty"),
        ({"query": "\udcff"}, r"^clip\.mp4, asked that way: text: .*valid string"),
        ({"temperature": "1e-300"}, r"^--temperature: 1e-300 is neither 0 nor from 0\.01 to 100"),
        ({"temperature": "inf"}, r"^--temperature: inf is"),
        ({"frames_per_turn": 1_000_000}, r"^clip\.mp4: 4 decisions may take 4000000 tokens"),
        ({"query_time": 9}, r"^--query-time: 9 s is after the last decision, at 8 s"),
        ({"max_tokens": 9000}, r"^clip\.mp4: 4 decisions may take 36\d\d\d tokens.*room for 32768; use a wider --grid"),
    ],
)
def test_bad_input_is_one_message(folder, monkeypatch, options, message):
    with pytest.raises(UserError, match=message):
        run(folder, monkeypatch, **options)
