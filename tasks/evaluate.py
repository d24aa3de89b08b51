"""Stage `evaluate`: the three benchmarks, streaming and greedy, of an arm or `sft` and seed; goes on from its last batch."""

import shutil
from pathlib import Path

from tasks.common import identity, run, seed_of, timed
from tasks.models import policy_of, sampler_of
from turnwise.benchmarks.evaluation import evaluate
from turnwise.config import Params, read_params
from turnwise.judging import build_judge, open_verdicts
from turnwise.policy import FrameStore, Sampler

TRAINING = [Path("data/captions.jsonl"), Path("data/demonstrations.jsonl"), Path("data/rl.jsonl")]
"""What policies learn from; the benchmarks must share no video with it."""
ROOT = Path("data/benchmarks")
SECTIONS = {"stream", "protocol", "policy", "rollout", "evaluate", "runtime"}
"""What of params.yaml unfinished predictions depend on."""
CODE = ("benchmarks/**/*", "policy/*", "episodes", "protocols", "records", "videos")
"""The code that they depend on."""


def main(name: str, word: str) -> None:
    """Write runs/<arm>/<seed>/eval/{predictions.jsonl, samples.parquet, metrics.json, scores.json}."""
    params = read_params()
    if name != "sft":
        params.arm(name)
    folder = Path(f"runs/{name}/{seed_of(word, params)}")
    with timed("evaluate", f"{name}-{word}"):
        policy = policy_of(params, folder / "model")

        def sampler_for(root: Path) -> Sampler:
            return sampler_of(params, policy, FrameStore(root, policy))

        describe = {
            "protocol": params.protocol,
            **params.policy.model_dump(include={"model", "frame_pixels", "dtype"}),
            **params.rollout.model_dump(include={"max_action_tokens", "max_context"}),
        }
        judge, verdicts = build_judge(params.judge.eval, params.judge), open_verdicts(params.judge)
        settings = (params.evaluate, params.stream, ROOT, folder / "eval", describe)
        state = Path("state/evaluate") / prediction_identity(params, folder / "model")
        evaluate(sampler_for, judge, verdicts, *settings, training=TRAINING, state=state)
        shutil.rmtree(state, ignore_errors=True)


def prediction_identity(params: Params, model: Path) -> str:
    """What unfinished predictions belong to: parameters, model, annotations, code, and clips by size and time of change."""
    files = sorted(path for path in ROOT.rglob("*") if path.is_file())
    annotations = [path for path in files if path.suffix == ".json"]
    clips = {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in files if path not in annotations}
    values = {"clips": clips, **params.model_dump(mode="json", include=SECTIONS)}
    return identity(values, CODE, model, *annotations)


if __name__ == "__main__":
    run(main)
