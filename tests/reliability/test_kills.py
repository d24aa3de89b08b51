"""kill -9 at any point of a stage, then the same command again: the same bytes as without."""

import pytest
from kill_at import Count, Kill, leftovers, said, stage

GRADE = "turnwise.judging.rules:RuleJudge.grade"
TOKEN = "turnwise.policy.sampler:HfSampler._step"
RENAME = "pathlib:Path.replace"
BATCH = "turnwise.benchmarks.runner:rollout"
RL, SFT, EVALUATE = "rl turnwise 0", "sft 0", "evaluate turnwise 0"
QUICK = [
    (RL, "rolling out", Kill(TOKEN, 60)),
    (RL, "learning", Kill("turnwise.training.learning:Learner._step", 4, after=True)),
    (RL, "before a checkpoint's rename", Kill(RENAME, 10)),
    (SFT, "learning", Kill("turnwise.training.sft:_step", 15, after=True)),
    (EVALUATE, "rolling out", Kill(TOKEN, 20)),
]
SLOW = [
    *((RL, "rolling out", Kill(TOKEN, n)) for n in (1, 30, 90)),
    *((RL, "judging", Kill(GRADE, n, after)) for n, after in ((1, False), (12, True))),
    *((RL, "learning", Kill("turnwise.training.learning:Learner._step", n, after=True)) for n in (1, 2, 6)),
    *((RL, "writing a table", Kill("turnwise.tables.parquet:pq.write_table", n, after=True)) for n in (1, 7, 14)),
    *((RL, "writing a checkpoint", Kill("turnwise.training.checkpoints:save_file", n, after=True)) for n in (1, 4, 5)),
    *(
        (RL, "removing an old checkpoint", Kill("turnwise.training.checkpoints:shutil.rmtree", 1, a))
        for a in (False, True)
    ),
    (RL, "writing the model", Kill("transformers:PreTrainedModel.save_pretrained", after=True)),
    *((SFT, "learning", Kill("turnwise.training.sft:_step", n)) for n in (1, 5, 7, 16)),
    *((SFT, "writing a checkpoint", Kill("turnwise.training.checkpoints:save_file", n, after=True)) for n in (1, 3, 4)),
    (SFT, "writing the model", Kill("transformers:PreTrainedModel.save_pretrained", 2, after=True)),
    *((EVALUATE, "rolling out", Kill(TOKEN, n)) for n in (1, 10, 30)),
    *(
        (EVALUATE, "keeping predictions", Kill("turnwise.benchmarks.runner:write_jsonl", n, a))
        for n, a in ((1, False), (3, True))
    ),
    (EVALUATE, "writing a table", Kill("turnwise.tables.parquet:pq.write_table", after=True)),
    ("data", "writing a clip", Kill("turnwise.worlds.build:write_clip", 4, after=True)),
    ("rollout 0", "rolling out", Kill(TOKEN, 15)),
    ("judge 0", "judging", Kill(GRADE, 5)),
    ("sweep 0", "writing a table", Kill("turnwise.tables.parquet:pq.write_table", after=True)),
]


def name(value: object) -> str | None:
    return f"{value.call}{'+' if value.after else ''}" if isinstance(value, Kill) else None


def check(before, resumes, words: str, when: str, kill: Kill) -> None:
    folder = before(words)
    assert stage(folder, words, kill).status == -9
    resumes(f"kill -9: {words.split()[0]}, {when}", folder, words)
    assert leftovers(folder) == []
    assert not [*(folder / "state").glob("*/*/")], "what resuming needed is removed"


@pytest.mark.parametrize(("words", "when", "kill"), QUICK, ids=name)
def test_a_killed_stage_goes_on_to_the_same_bytes(before, resumes, words, when, kill):
    check(before, resumes, words, when, kill)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "when", "kill"), SLOW, ids=name)
def test_wherever_it_is_killed(before, resumes, words, when, kill):
    check(before, resumes, words, when, kill)


@pytest.mark.parametrize(("words", "target", "call"), [("judge 0", GRADE, 5), (EVALUATE, BATCH, 4)])
def test_what_was_paid_for_is_not_asked_again(before, resumes, words, target, call):
    folder = before(words)
    count = Count(target, folder.with_name("asked.txt"))
    assert stage(folder, words, count, Kill(target, call)).status == -9
    assert len(asked(count)) == call - 1
    resumes(f"kill -9: {words.split()[0]}, asking", folder, words, count)
    assert len(asked(count)) == len(set(asked(count))) > call


def asked(count: Count) -> list[str]:
    return count.path.read_text().split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kill", "newest", "before_it"),
    [
        (RL, Kill("turnwise.training.learning:Learner._step", 5), "update-00002", 1),
        (SFT, Kill("turnwise.training.sft:_step", 14), "update-00012", 8),
    ],
)
def test_a_damaged_newest_checkpoint_falls_back(before, resumes, words, kill, newest, before_it):
    folder = before(words)
    stage(folder, words, kill)
    (weights,) = folder.glob(f"state/*/**/{newest}/weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    resumes(f"damaged checkpoint: {words.split()[0]}", folder, words)
    assert f"{newest}: damaged (weights.safetensors); falling back" in said(folder)
    assert f'"resume", "{"update" if words == RL else "step"}": {before_it}' in said(folder)
