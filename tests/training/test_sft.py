from itertools import pairwise

import pytest
import torch
from accelerate import Accelerator
from spy import Spy

from turnwise.config import compose, validate
from turnwise.episodes import read_demonstrations
from turnwise.policy import trainable_parameters
from turnwise.training.sft import _step, _warmup_cosine, token_weights


def test_the_warm_up_learns_in_both_phases(world):
    losses = [line.split() for line in (world / "losses.txt").read_text().splitlines()]
    captions = [float(loss) for phase, loss in losses if phase == "captions"]
    streams = [float(loss) for phase, loss in losses if phase == "streams"]
    assert (len(captions), len(streams)) == (8, 12)
    assert captions[-1] < 0.9 * captions[0]
    assert streams[-1] < 0.9 * streams[0]


def test_the_rate_rises_over_a_tenth_and_falls_to_a_tenth():
    rates = [_warmup_cosine(step, 100) for step in range(101)]
    assert rates[9] == rates[10] == 1.0
    assert rates[100] == pytest.approx(0.1)
    assert all(a < b for a, b in pairwise(rates[:10]))
    assert all(a > b for a, b in pairwise(rates[10:]))


@pytest.mark.parametrize("loss", ["plain", "class_balanced"])
def test_no_split_into_micro_batches_changes_the_gradient_or_the_loss(experiment, world, loss):
    items = read_demonstrations(world / "data" / "demonstrations.jsonl")[:5]

    def step(micro_batch):
        config = experiment.params.sft.model_copy(update={"loss": loss, "micro_batch": micro_batch})
        spy = Spy(trainable_parameters(experiment.policy, freeze_vision=True))
        return _step(experiment.policy, experiment.frames, Accelerator(cpu=True), spy, items, config), spy.seen[0]

    whole, gradient = step(5)
    for size in (1, 2):
        value, split = step(size)
        assert value == pytest.approx(whole, rel=1e-5)
        for a, b in zip(gradient, split, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


WAIT, REPLY = ["silence", "silence"], ["speak", "text", "text"]


def weights(turns, **changes):
    config = validate(compose([]), "x").sft.model_copy(update=changes)
    return token_weights([turns], config)


def test_a_wait_weighs_what_streaming_eos_says():
    assert weights([WAIT, REPLY], loss="streaming_eos", silence_weight=0.5) == [0.5, 0.5, 1, 1, 1]


def test_class_balance_weighs_decisions_by_effective_numbers():
    three, one = 1 + 0.5 + 0.25, 1
    silence, speak = 2 * (1 / three) / (1 / three + 1 / one), 2 * (1 / one) / (1 / three + 1 / one)
    found = weights([WAIT, WAIT, REPLY, WAIT], loss="class_balanced", class_beta=0.5, text_weight=3.0)
    assert found == pytest.approx([silence] * 4 + [speak, 3.0, 3.0] + [silence] * 2)
    assert silence + speak == pytest.approx(2)


def test_a_batch_of_one_kind_has_nothing_to_balance():
    assert weights([REPLY], loss="class_balanced") == [1.0, 2.0, 2.0]
    assert weights([WAIT], loss="class_balanced") == [1.0, 1.0]
