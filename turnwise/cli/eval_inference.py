"""`turnwise eval infer`: from a model to a predictions file."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import turnwise
from turnwise.benchmarks import streamingbench
from turnwise.benchmarks.items import Item, Loaded, Reply
from turnwise.benchmarks.runner import MODES, Mode, infer, prepare
from turnwise.benchmarks.scoring import first_of_each
from turnwise.benchmarks.store import PredictionFile, line_of
from turnwise.cli.eval_inputs import note
from turnwise.config import Params
from turnwise.errors import UserError
from turnwise.files import fingerprint
from turnwise.progress import Bar
from turnwise.protocols import protocol


def run_inference(
    module: ModuleType,
    loaded: Loaded[Any],
    params: Params,
    model: str,
    out: Path,
    videos: Path | None,
    mode: Mode,
    context: float | None,
    limit: int | None,
) -> None:
    """Predict what `out` does not hold yet. Raises UserError before the model is loaded for a bad clip or file."""
    if mode == "poll" and module is not streamingbench:
        raise UserError(f"--mode: poll is how streamingbench asks; {module.NAME} has no such mode, leave it out")
    options = _context(module, loaded, context)
    chosen = replace(loaded, items=tuple(first_of_each(loaded, limit)))
    prepared = prepare(module, chosen, videos or _folder(module, loaded), params.stream, **options)
    record = inference_record(loaded, params, model, mode, options)
    with PredictionFile(out, module.NAME, record) as file:
        missing = [item for item in chosen.items if item.key not in file.done]
        if missing:
            note(f"{out}: {len(chosen.items) - len(missing)} of {len(chosen.items)} items are there; loading {model}")
            with Bar(module.NAME, len(missing)) as bar:

                def keep(part: list[tuple[Item, list[Reply]]]) -> None:
                    file.append(line_of(item, said) for item, said in part)
                    bar.advance(len(part))

                sampler = _sampler(params, model, prepared.root)
                batch = params.evaluate.batch
                infer(prepared, sampler, params.stream, batch=batch, done=keep, mode=mode, skip=file.done)
    note(f"{out}: {len(chosen.items)} of {len(loaded.items)} items; `turnwise eval score` scores them")


def _context(module: ModuleType, loaded: Loaded[Any], seconds: float | None) -> dict[str, Any]:
    """What `episode` is told of the seconds before a question that is asked at once."""
    if all(item.asked is None for item in loaded.items):
        if seconds is not None:
            raise UserError(f"--context: {module.NAME} streams from the question on; leave it out")
        return {}
    return {"context": seconds or (streamingbench.CONTEXT if module is streamingbench else None)}


def _folder(module: ModuleType, loaded: Loaded[Any]) -> Path:
    """What clips are relative to: the annotation's folder, or ProactiveVideoQA's above the subset's."""
    folder = loaded.files[0].resolve().parent
    return folder.parent if folder.name in module.SUBSETS else folder


def inference_record(
    loaded: Loaded[Any], params: Params, model: str, mode: Mode, options: dict[str, Any]
) -> dict[str, Any]:
    """All that predictions depend on; a hub id stands for its model, a directory for the bytes in it."""
    prompts = {"system": protocol(params.protocol).system} | ({"poll": streamingbench.POLL} if mode == "poll" else {})
    return {
        "turnwise": turnwise.__version__,
        "annotations": fingerprint(None, *loaded.files),
        "model": model,
        "model_files": fingerprint(None, model) if Path(model).is_dir() else None,
        "policy": params.policy.model_dump(include={"frame_pixels", "dtype"}),
        "caps": params.rollout.model_dump(include={"max_action_tokens", "max_context"}),
        "protocol": params.protocol,
        "prompts": prompts,
        "streaming": MODES[mode],
        "sampling": "greedy",
        "grid": params.stream.model_dump(),
        **options,
    }


def _sampler(params: Params, model: str, root: Path) -> Any:
    import torch

    from turnwise.policy import FrameStore, HfSampler, load_policy

    torch.set_num_threads(params.runtime.threads)
    spec = params.policy.model_copy(update={"model": model})
    policy = load_policy(spec, protocol(params.protocol), None, params.runtime.device)
    settings = params.rollout
    caps = {"max_action_tokens": settings.max_action_tokens, "max_context": settings.max_context}
    return HfSampler(policy, FrameStore(root, policy), **caps)
