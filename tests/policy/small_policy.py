"""Configuration of the policies of these tests."""

from turnwise.config import Policy

TEXTS = ["A red striped ball appears.", "Tell me about every new object.", "How many cubes?", "A. red B. blue"]
FAMILIES = ["qwen2_5_vl", "qwen3_vl"]


def config_for(family: str) -> Policy:
    return Policy(
        model="embedded",
        family=family,
        hidden=64,
        layers=2,
        heads=4,
        vision_hidden=32,
        vision_layers=2,
        frame_pixels=3136 if family == "qwen2_5_vl" else 4096,
        dtype="float32",
        freeze_vision=True,
        attention="sdpa",
        gradient_checkpointing=False,
        lora=None,
    )
