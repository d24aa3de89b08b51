import torch

from turnwise.training.checkpoints import (
    Checkpoint,
    latest_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)


def trained(steps: int) -> tuple[torch.nn.Linear, torch.optim.AdamW]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(steps):
        train(model, optimizer, step)
    return model, optimizer


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    model(torch.full((1, 3), float(step + 1))).square().sum().backward()
    optimizer.step()


def checkpoint(update: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Checkpoint:
    return Checkpoint(update, model.state_dict(), optimizer_tensors(optimizer), {"alpha": 0.5})


def test_training_goes_on_bit_for_bit_from_a_checkpoint(tmp_path):
    save_checkpoint(tmp_path, checkpoint(2, *trained(2)), keep=1)
    found = latest_checkpoint(tmp_path)
    model, optimizer = trained(0)
    model.load_state_dict(found.weights)
    restore_optimizer(optimizer, found.optimizer)
    train(model, optimizer, 2)
    straight, _ = trained(3)
    assert found.update == 2
    assert found.state == {"alpha": 0.5}
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), straight.parameters(), strict=True))


def test_only_the_last_ones_are_kept_and_a_damaged_one_is_passed_over(tmp_path, capsys):
    for update in (1, 2, 3):
        save_checkpoint(tmp_path, checkpoint(update, *trained(1)), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-00002", "update-00003"]
    weights = tmp_path / "update-00003" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert latest_checkpoint(tmp_path).update == 2
    assert "update-00003: damaged (weights.safetensors)" in capsys.readouterr().err


def test_a_checkpoint_that_is_not_usable_or_not_complete_is_passed_over(tmp_path, capsys):
    for update in (1, 2, 3):
        save_checkpoint(tmp_path, checkpoint(update, *trained(1)), keep=3)
    (tmp_path / "update-00003" / "sha256.json").write_text("[]")
    assert latest_checkpoint(tmp_path, lambda update: update < 2).update == 1
    said = capsys.readouterr().err
    assert "update-00003: damaged" in said
    assert "update-00002: damaged (tables of its updates)" in said


def test_no_checkpoint_is_none(tmp_path):
    assert latest_checkpoint(tmp_path) is None
