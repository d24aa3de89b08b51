"""Stage `sft`: supervised warm-up on captions and imperfect streamed demonstrations; goes on from its last checkpoint."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.common import identity, run, seed_of, timed
from tasks.models import policy_of
from turnwise.config import Params, read_params
from turnwise.episodes import Demonstration, read_demonstrations
from turnwise.policy import FrameStore, Loaded, build_embedded
from turnwise.progress import Bar
from turnwise.protocols import protocol
from turnwise.training.sft import warm_up

SECTIONS = {"protocol", "policy", "sft", "runtime"}
"""What of params.yaml a checkpoint depends on, beside the seed."""
CODE = ("policy/*", "training/*", "episodes", "protocols", "records", "videos")
"""The code that it depends on."""
FILES = (Path("data/captions.jsonl"), Path("data/demonstrations.jsonl"))


def main(word: str) -> None:
    """Write runs/sft/<seed>/model."""
    params = read_params()
    seed = seed_of(word, params)
    captions, demonstrations = map(read_demonstrations, FILES)
    state = Path("state/sft") / checkpoint_identity(params, seed, captions + demonstrations)
    with timed("sft", word), TemporaryDirectory() as scratch:
        if params.policy.model == "embedded":
            texts = texts_of(captions + demonstrations)
            build_embedded(params.policy, texts, Path(scratch) / "model", seed, protocol(params.protocol))
            policy = policy_of(params, Path(scratch) / "model")
        else:
            policy = policy_of(params, None)
        train(policy, captions, demonstrations, params, seed, state)
        policy.save(Path(f"runs/sft/{seed}/model"))
        shutil.rmtree(state, ignore_errors=True)


def checkpoint_identity(params: Params, seed: int, demonstrations: list[Demonstration]) -> str:
    """What a checkpoint belongs to: parameters, inputs with their clips, the model to start from, and the code."""
    values = {"seed": seed, **params.model_dump(mode="json", include=SECTIONS)}
    clips = sorted({Path("data") / one.episode.clip for one in demonstrations})
    base = [Path(params.policy.model)] if Path(params.policy.model).is_dir() else []
    return identity(values, CODE, *FILES, *clips, *base)


def train(
    policy: Loaded,
    captions: list[Demonstration],
    streams: list[Demonstration],
    params: Params,
    seed: int,
    state: Path,
) -> None:
    """Run the warm-up, showing progress."""
    steps = params.sft.caption_steps + params.sft.stream_steps
    with Bar(f"sft {seed}", steps) as bar:
        for step in warm_up(policy, FrameStore(Path("data"), policy), captions, streams, params.sft, seed, state):
            bar.advance(step.done - bar.done, phase=step.phase, loss=step.loss)


def texts_of(demonstrations: list[Demonstration]) -> list[str]:
    """All that users and demonstrations say: the corpus of the embedded model's tokenizer."""
    queries = [query.text for one in demonstrations for query in one.episode.queries]
    said = [text for one in demonstrations for text in (*one.actions, *one.thoughts) if text is not None]
    return queries + said


if __name__ == "__main__":
    run(main)
