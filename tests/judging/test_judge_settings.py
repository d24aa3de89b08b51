"""What `params.yaml` may say of judges."""

import re
from pathlib import Path

import pytest
import yaml

from turnwise.config import compose, merge, validate
from turnwise.errors import UserError
from turnwise.judging import build_judge

ROOT = Path(__file__).parents[2]
REMOTE = {"kind": "openai", "levels": 5, "model": "m", "server": "s"}
SERVER = {"base_url": "http://127.0.0.1:8000/v1"}


def judges(**changes):
    return validate(merge(compose([], ROOT / "profiles"), {"judge": changes}), "params.yaml").judge


def test_the_page_on_judges_shows_a_valid_section():
    page = (ROOT / "docs/judges.md").read_text(encoding="utf-8")
    section = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])["judge"]
    read = judges(**section)
    assert build_judge(read.train, read).name == "openai/gpt-oss-20b-5"
    assert read.eval.name == "gpt-4.1-3"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"train": {**REMOTE, "server": "x"}, "servers": {"s": SERVER}}, "train.server: 'x' is not in judge.servers"),
        ({"others": {"gpt": REMOTE}}, "gpt.server: 's' is not in judge.servers"),
        ({"train": {**REMOTE, "levels": 4}, "servers": {"s": SERVER}}, "openai has rubrics of 3 and of 5 levels"),
        ({"train": {"kind": "openai"}}, "openai needs a model and the name of a server"),
        ({"train": {"model": "m"}}, "rule takes no model; it belongs to openai"),
        (
            {"servers": {"s": {**SERVER, "base_url": "http://me:secret@host/v1"}}},
            "judge.servers.s.base_url: String should",
        ),
        ({"servers": {"s": {**SERVER, "key": "sk-secret"}}}, "judge.servers.s.key: String should match"),
        ({"servers": {"s": {**SERVER, "key": "gsk_secret0"}}}, "judge.servers.s.key: String should match"),
        ({"servers": {"s": {**SERVER, "tries": 1}}}, "judge.servers.s.tries: .*; known are base_url, key, concurrency"),
        ({"train": REMOTE, "servers": {"s": SERVER}, "budget": {"money": 1.0}}, "money needs the price of 'm'"),
        ({"abstain": "zero"}, "judge.abstain: Input should be"),
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_is_repeated(changes, fault):
    with pytest.raises(UserError, match=fault) as caught:
        judges(**changes)
    assert "secret" not in str(caught.value)
