from pathlib import Path

import pytest
import yaml

from tasks import evaluate as stage
from turnwise.config import compose, merge

PROFILES = Path(__file__).parents[2] / "profiles"


@pytest.fixture
def described(tmp_path, monkeypatch):
    """What the stage says of the policy, given changes of params.yaml; nothing is loaded or rolled out."""
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "policy_of", lambda *_: None)
    monkeypatch.setattr(stage, "prediction_identity", lambda *_: "x")
    monkeypatch.setattr(stage, "evaluate", lambda *arguments, **_: seen.append(arguments[-1]))

    def describe(**changes) -> dict:
        Path("params.yaml").write_text(yaml.safe_dump(merge(compose([], PROFILES), changes)))
        stage.main("sft", "0")
        return seen[-1]

    return describe


def test_all_that_predictions_depend_on_is_in_the_protocol_and_the_batch_is_not(described):
    base = described()
    changes = (
        {"policy": {"model": "some/model"}},
        {"policy": {"dtype": "bfloat16"}},
        {"rollout": {"max_action_tokens": 7}},
        {"rollout": {"max_context": 999}},
    )
    for change in changes:
        assert described(**change) != base
    assert described(evaluate={"batch": 1}) == base
