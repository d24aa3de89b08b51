from pathlib import Path
from typing import get_args

import pytest
import yaml

from turnwise.config import Params, compose, merge, read_params, read_yaml, validate
from turnwise.errors import UserError


def write(path, values):
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def test_the_default_profile_is_complete_and_names_the_four_arms(tmp_path):
    params = read_params(write(tmp_path / "params.yaml", compose([])))
    assert list(params.arms) == ["grpo", "turn_mean", "credit", "turnwise"]
    assert params.seeds == (0, 1, 2)
    assert params.profiles == ("embedded",)


def test_every_field_has_a_description():
    def undescribed(model, path=""):
        for name, field in model.model_fields.items():
            sections = [one for one in (field.annotation, *get_args(field.annotation)) if hasattr(one, "model_fields")]
            for section in sections:
                yield from undescribed(section, f"{path}{name}.")
            if not sections and not field.description:
                yield path + name

    assert list(undescribed(Params)) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"rl": {"lerning_rate": 1}},
            r"rl\.lerning_rate: Extra inputs .* known are updates, groups_per_update, .* lr,",
        ),
        ({"seed": [0]}, r"seed: Extra inputs .* known are profiles, seeds, arms"),
        ({"arms": {"a": {"credit": "grpo", "alfa": 0}}}, r"arms\.a\.alfa: Extra inputs .* known are credit, alpha,"),
        ({"judge": {"train": {"level": 5}}}, r"judge\.train\.level: Extra inputs .* known are kind, levels"),
        ({"rl": {"updates": "3"}}, r"rl\.updates: .*integer"),
        ({"seeds": [True]}, r"seeds\.0: .*integer"),
        ({"protocol": "noreply"}, "protocol: 'noreply' is unknown; choose one of eos, no_reply,"),
        ({"policy": {"heads": 7}}, "hidden: 128 must be a multiple"),
        ({"rl": {"updates": "many"}}, r"rl\.updates: .*integer"),
        (
            {"arms": {"turnwise": {"credit": "turnwise", "alpha": 1.5}}},
            r"arms\.turnwise\.alpha: .*less than or equal to 1",
        ),
        ({"arms": {"a": {"credit": "grpo", "alpha": 0.5}}}, "credit: grpo takes no alpha; it belongs to turnwise"),
        ({"arms": {"a/b": {"credit": "grpo"}}}, "is no arm name"),
        ({"arms": {"sft": {"credit": "grpo"}}}, "is no arm name"),
        ({"arms": {}}, "at least one arm"),
        ({"seeds": [1, 1]}, "seeds: must be one or more different"),
        ({"data": {"min_turns": 30}}, "data.min_turns: must not be above"),
        ({"judge": {"eval": {"levels": 5}}}, r"judge\.eval\.levels: must be 3"),
        ({"rollout": {"groups": 1}}, "rollout.groups: must be at least"),
        ({"reward": {"tau": 1}}, r"reward\.mmduet2\.tau: Extra inputs .* known are name, variant, pauc"),
        ({"reward": {"name": "x"}}, "reward: Input tag 'x' .* 'mmduet2', 'thinkstream', 'streampro'"),
        (
            {
                "reward": {
                    "name": "streampro",
                    "format": 0.1,
                    "turn": 0.5,
                    "rubric": 0.4,
                    "reach": 8.0,
                    "judged": "trajectory",
                }
            },
            r"reward\.judged: a rubric of the whole trajectory pays a reply for what comes later",
        ),
    ],
)
def test_a_fault_in_params_names_file_field_and_reason(tmp_path, change, reason):
    path = write(tmp_path / "params.yaml", merge(compose([]), change))
    with pytest.raises(UserError, match=r"params\.yaml: ") as caught:
        read_params(path)
    with pytest.raises(UserError, match=reason):
        raise caught.value


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a: [1", "not valid YAML"), ("- 1", "must hold a mapping"), ("seeds: [0]\nseeds: [1]\n", "stands twice")],
)
def test_text_that_is_no_parameters_is_refused(tmp_path, text, reason):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=reason):
        read_params(path)


@pytest.mark.parametrize("text", ["1e-6", "1E-06", "1.e-6", ".1e-5", "0.000001", "+1e-6"])
def test_a_number_with_an_exponent_is_a_number(tmp_path, text):
    path = tmp_path / "a.yaml"
    path.write_text(f"lr: {text}\nname: e1e-6\nhash: '1e6'\n")
    assert read_yaml(path) == {"lr": 1e-6, "name": "e1e-6", "hash": "1e6"}


def test_a_missing_file_says_how_to_write_it(tmp_path):
    with pytest.raises(UserError, match="turnwise profile use"):
        read_params(tmp_path / "params.yaml")


def test_later_profiles_win_and_arms_are_replaced_whole(tmp_path):
    write(tmp_path / "embedded.yaml", {k: v for k, v in compose([]).items() if k != "profiles"})
    write(tmp_path / "one.yaml", {"rl": {"updates": 5, "lr": 0.1}, "arms": {"grpo": {"credit": "grpo"}}})
    write(tmp_path / "two.yaml", {"rl": {"updates": 6}})
    params = validate(compose(["one", "two"], tmp_path), "x")
    assert (params.rl.updates, params.rl.lr, list(params.arms), params.profiles) == (6, 0.1, ["grpo"], ("one", "two"))
    with pytest.raises(UserError, match="there is no profile 'three'; the profiles are embedded, one, two"):
        compose(["three"], tmp_path)


def test_a_reward_of_another_name_replaces_the_section_and_others_are_merged():
    change = {"reward": {"omega": 0.25}}
    assert validate(merge(compose([]), change), "x").reward.weights["pauc"] == 3.0
    other = validate(compose(["thinkstream", "smoke"]), "x").reward
    assert (other.name, list(other.weights)) == ("thinkstream", ["format", "time", "correctness"])


def test_an_unknown_arm_lists_the_arms():
    with pytest.raises(UserError, match="there is no arm 'x'; the arms are grpo, turn_mean, credit, turnwise"):
        validate(compose([]), "x").arm("x")


def test_every_profile_composes():
    names = [path.stem for path in Path("profiles").glob("*.yaml")]
    embedded = {"embedded", "smoke", "smoke-qwen3", "alpha-sweep", "thinkstream", "streampro", "eos"}
    assert {*embedded, "qwen2.5-vl-3b", "qwen3-vl-4b"} == set(names)
    for name in names:
        validate(compose([name]), name)


def test_a_misspelt_key_is_named_before_the_one_that_it_should_have_been(tmp_path):
    values = compose([])
    values["rl"]["updats"] = values["rl"].pop("updates")
    with pytest.raises(UserError, match=r"rl\.updats: Extra inputs .*\(and 1 more\); known are updates,"):
        read_params(write(tmp_path / "params.yaml", values))
