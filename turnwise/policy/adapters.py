"""LoRA adapters: made, loaded and saved in peft's layout, inside the real module and never around it.

peft puts the adapter's layers into the model in place; its `PeftModel` is kept at the side, for what it knows about them.
It is imported where an adapter is wanted, so that the stages of other policies do not wait for it.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedModel

from turnwise.config import Lora

if TYPE_CHECKING:
    from peft import PeftModel


def new_adapter(model: PreTrainedModel, lora: Lora) -> "PeftModel":
    """Put a fresh float32 adapter into the language model's projections; until it is trained it changes nothing."""
    from peft import LoraConfig, get_peft_model

    targets = rf".*\.language_model\..*\.({'|'.join(lora.targets)})"
    settings = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return get_peft_model(model, settings)


def load_adapter(model: PreTrainedModel, folder: str) -> "PeftModel":
    """Put the adapter saved in `folder` into its base model, to be trained on. Raises FileNotFoundError for pickled ones."""
    if not (Path(folder) / "adapter_model.safetensors").is_file():
        raise FileNotFoundError("there is no adapter_model.safetensors")
    from peft import PeftModel

    return PeftModel.from_pretrained(model, folder, is_trainable=True)


def save_adapter(adapter: "PeftModel", folder: Path) -> None:
    """Write the adapter alone, with the name of its base model, to a new `folder`."""
    adapter.save_pretrained(str(folder), save_embedding_layers=False)
    (folder / "README.md").unlink()


def base_of(source: str) -> str | None:
    """The base model (directory or hub id) of the adapter in the folder `source`; None where there is no adapter."""
    settings = Path(source) / "adapter_config.json"
    return json.loads(settings.read_text())["base_model_name_or_path"] if settings.exists() else None
