"""Stage `evaluate`: the three benchmarks, streaming and greedy, for one arm (or `sft`) and seed."""

from pathlib import Path

from tasks.common import run, seed_of, timed
from tasks.models import policy_of, sampler_of
from turnwise.benchmarks import evaluate
from turnwise.config import read_params
from turnwise.judging import VerdictCache, build_judge
from turnwise.policy import FrameStore, HfSampler


def main(name: str, word: str) -> None:
    """Write runs/<arm>/<seed>/eval/{predictions.jsonl, samples.parquet, metrics.json}."""
    params = read_params()
    if name != "sft":
        params.arm(name)
    folder = Path(f"runs/{name}/{seed_of(word, params)}")
    with timed("evaluate", f"{name}-{word}"):
        policy = policy_of(params, folder / "model")

        def sampler_for(root: Path) -> HfSampler:
            return sampler_of(params, policy, FrameStore(root, policy))

        describe = {
            "protocol": params.protocol,
            **params.policy.model_dump(include={"model", "frame_pixels", "dtype"}),
            **params.rollout.model_dump(include={"max_action_tokens", "max_context"}),
        }
        root = Path("data/benchmarks")
        judge, verdicts = build_judge(params.judge.eval), VerdictCache("state/verdicts.sqlite")
        evaluate(sampler_for, judge, verdicts, params.evaluate, params.stream, root, folder / "eval", describe)


if __name__ == "__main__":
    run(main)
