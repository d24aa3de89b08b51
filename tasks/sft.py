"""Stage `sft`: supervised warm-up on captions and imperfect streamed demonstrations."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.common import run, seed_of, timed
from tasks.models import policy_of
from turnwise.config import Params, read_params
from turnwise.episodes import Demonstration, read_demonstrations
from turnwise.files import replacing
from turnwise.policy import FrameStore, Loaded, build_embedded
from turnwise.progress import Bar
from turnwise.training.sft import warm_up


def main(word: str) -> None:
    """Write runs/sft/<seed>/model."""
    params = read_params()
    seed = seed_of(word, params)
    captions = read_demonstrations("data/captions.jsonl")
    demonstrations = read_demonstrations("data/demonstrations.jsonl")
    with timed("sft", word), TemporaryDirectory() as scratch:
        if params.policy.model == "embedded":
            build_embedded(params.policy, texts_of(captions + demonstrations), Path(scratch) / "model", seed)
            policy = policy_of(params, Path(scratch) / "model")
        else:
            policy = policy_of(params, None)
        train(policy, captions, demonstrations, params, seed)
        with replacing(f"runs/sft/{seed}/model") as model:
            policy.save(model)


def train(
    policy: Loaded, captions: list[Demonstration], streams: list[Demonstration], params: Params, seed: int
) -> None:
    """Run the warm-up, showing progress."""
    steps = params.sft.caption_steps + params.sft.stream_steps
    with Bar(f"sft {seed}", steps) as bar:
        for step in warm_up(policy, FrameStore(Path("data"), policy), captions, streams, params.sft, seed):
            bar.advance(phase=step.phase, loss=step.loss)


def texts_of(demonstrations: list[Demonstration]) -> list[str]:
    """All that users and demonstrations say: the corpus of the embedded model's tokenizer."""
    queries = [query.text for one in demonstrations for query in one.episode.queries]
    return queries + [text for one in demonstrations for text in one.actions if text is not None]


if __name__ == "__main__":
    run(main)
