"""Two judges on the same trajectories: agreement by hand, and what moves."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from turnwise.cli import app
from turnwise.cli.profiles import params_yaml
from turnwise.config import compose, merge, validate
from turnwise.episodes import Episode, Grid, Query, Window, write_records
from turnwise.judging import RuleJudge, Verdict, VerdictCache
from turnwise.judging.agreement import agreement, kappa
from turnwise.judging.compare import compare
from turnwise.judging.strict import StrictJudge
from turnwise.records import Action, Trajectory
from turnwise.rewards import build_reward
from turnwise.tables import trajectory_columns, write_table

ROOT = Path(__file__).parents[2]
PARAMS = validate(compose([], ROOT / "profiles"), "test")
EPISODE = Episode(
    id="e",
    clip="e.mp4",
    task="new_object",
    grid=Grid(frame_interval=2.0, turns=3),
    queries=(Query(text="What?", time=0.0),),
    windows=(Window(text="striped red", related=(2.0, 6.0), reply=(2.0, 6.0)),),
)


def trajectory(index, *texts):
    kinds = ["reply" if text else "silence" for text in texts]
    actions = (Action((1,), (0.0,), text or "NO REPLY", kind, False) for text, kind in zip(texts, kinds, strict=True))
    return Trajectory("e", index, tuple(actions))


GROUP = [
    trajectory(0, "striped red", None, None),
    trajectory(1, "Something red", "striped red", None),
    trajectory(2, "striped red blue", "red", "blue"),
    trajectory(3, None, None, None),
]


def test_kappa_is_what_it_is_in_the_textbook():
    assert kappa(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)
    assert kappa(np.eye(3) * 7) == 1
    assert kappa(np.array([[5, 0], [0, 0]])) is None
    far, near = np.array([[4, 0, 4], [0, 4, 0], [0, 0, 4]]), np.array([[4, 4, 0], [0, 4, 0], [0, 0, 4]])
    assert kappa(far, weighted=True) == pytest.approx(1 - 16 / 26)
    assert kappa(far, weighted=True) < kappa(near, weighted=True) < 1
    assert kappa(far) == pytest.approx(kappa(near), abs=0.1)


def test_agreement_by_hand():
    found = agreement([0, 1, 2, 2, None, 1], [0, 2, 2, 2, 1, None], 3)
    assert (found["items"], found["both"], found["abstained"]) == (6, 4, [1, 1])
    assert found["agreement"] == 0.75
    assert found["by_level"] == [1.0, 0.0, 1.0]
    assert found["table"] == [[1, 0, 0], [0, 0, 1], [0, 0, 2]]
    assert found["means"] == [1.25, 1.5]
    nothing = agreement([None], [1], 3)
    assert (nothing["agreement"], nothing["kappa"], nothing["both"]) == (None, None, 0)


class Contrary(RuleJudge):
    """Says the opposite of the rule judge, and nothing of `blue`."""

    def __init__(self, levels):
        super().__init__(levels)
        self.name = self.version = "contrary"

    async def grade(self, item):
        if item.reply == "blue":
            return Verdict(None, "no idea")
        return Verdict(item.levels - 1 - (await super().grade(item)).score)


def compared(tmp_path, *judges):
    reward = build_reward(PARAMS.reward, 5)
    return compare(judges, VerdictCache(tmp_path / "v.sqlite"), reward, PARAMS.credit, 5, [(EPISODE, GROUP)])


def test_a_judge_agrees_with_itself(tmp_path):
    numbers = compared(tmp_path, RuleJudge(5), RuleJudge(5))
    assert numbers["level"]["agreement"] == numbers["repeat"]["agreement"] == numbers["ranks"]["kept"] == 1
    assert numbers["reward"]["mean_absolute_change"] == numbers["signs"]["turn_changed"] == 0
    assert numbers["ranks"] == {
        "groups": 1, "pairs": 6, "kept": 1, "reversed": 0, "tied_under_one": 0, "best_kept": 1,
    }  # fmt: skip


def test_a_contrary_judge_turns_things_round(tmp_path):
    numbers = compared(tmp_path, RuleJudge(5), Contrary(5))
    assert numbers["judges"] == ["rule-5", "contrary"]
    assert numbers["level"]["table"][4][0] == 1  # `striped red`, asked once for all that say it
    assert numbers["level"]["abstained"] == [0, 1]
    assert numbers["level"]["agreement"] == 0.5  # 4 and 0, 3 and 1, twice 2 and 2
    assert numbers["level"]["kappa"] == pytest.approx(1 / 3)
    assert numbers["reward"]["means"][1] < numbers["reward"]["means"][0]
    assert numbers["ranks"]["reversed"] > 0
    assert numbers["ranks"]["best_kept"] == 0
    assert numbers["signs"]["global_changed"] > 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A rolled-out cell of `sft` in a folder with params.yaml."""
    values = merge(compose([], ROOT / "profiles"), {"seeds": [0]})
    (tmp_path / "params.yaml").write_text(params_yaml(values))
    write_records(tmp_path / "data/rl.jsonl", [EPISODE])
    write_records(tmp_path / "data/dev.jsonl", [EPISODE])
    write_table("trajectories", trajectory_columns(1, GROUP), tmp_path / "runs/sft/0/trajectories.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(app, ["judge", *words])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else str(result.exception)


def test_compare_prints_and_writes(folder):
    shown = run("compare", "train", "strict")
    assert shown.startswith("A rule-5, B strict-5\nlevel ")
    numbers = json.loads((folder / "state/judges/train--strict.json").read_text())
    assert numbers["cells"] == ["sft-0"]
    assert numbers["level"]["items"] == 5
    expected = compared(folder, RuleJudge(5), StrictJudge(5))
    assert {name: numbers[name] for name in expected} == expected
    run("compare", "rule", "eval", "--out", str(folder / "mine.json"))
    mine = json.loads((folder / "mine.json").read_text())
    assert (mine["judges"], mine["reward"]["mean_change"]) == (["rule-5", "rule-5"], 0)
    assert "there is no judge 'gpt'; the judges are train, eval, rule, strict" in run("compare", "gpt", "rule", code=1)
    assert "there is no arm 'ppo'" in run("compare", "rule", "strict", "--arm", "ppo", code=1)


def test_plan_counts_what_is_rolled_out_and_makes_no_call(folder):
    openai = {"kind": "openai", "levels": 5, "model": "m", "server": "nowhere", "max_tokens": 100}
    judge = {
        "train": openai,
        "servers": {"nowhere": {"base_url": "http://127.0.0.1:9/v1", "key": "NOT_SET"}},
        "budget": {"prices": {"m": {"prompt": 0.0, "completion": 10_000.0}}},
    }
    values = merge(compose([], ROOT / "profiles"), {"seeds": [0], "judge": judge, "arms": {"grpo": {"credit": "grpo"}}})
    (folder / "params.yaml").write_text(params_yaml(values))
    lines = [line.split() for line in run("plan").splitlines()]
    items = 5 + 3  # levels: five different texts; repeats: all but the first reply of each
    assert lines[1][:4] == ["judge@0", "m-5", str(items), str(items)]
    assert lines[1][-1] == f"{items:.2f}"
    n = 27 * 4 * 8 + 5  # updates but the first, and a trajectory at updates 1, 8, 16, 24, 28
    assert lines[2][:4] == ["rl@grpo-0", "m-5", "about", f"{round(n * items / 4):,}"]
    assert lines[3] == ["evaluate_sft@0", "rule-3", "?", "?", "?", "?"]
    (folder / "runs/sft/0/trajectories.parquet").unlink()
    assert "nothing is rolled out" in run("plan", code=1)


@pytest.mark.usefixtures("folder")
def test_the_cache_command():
    assert "no such file; a stage that judges" in run("cache", "stats", code=1)
    run("compare", "rule", "strict")
    shown = run("cache", "stats").splitlines()
    assert [line.split()[1] for line in shown[:2]] == ["8", "8"]
    assert run("cache", "export", "v.jsonl") == "v.jsonl: 16 verdicts\n"
    assert run("cache", "prune", "strict@") == "8 verdicts of judges that begin with 'strict@' are gone\n"
    assert run("cache", "import", "v.jsonl") == "state/verdicts.sqlite: 8 of 16 verdicts were new\n"
    assert "name the judge" in run("cache", "prune", " ", code=1)
