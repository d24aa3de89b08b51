"""The conversation with a model that judges: what it is told, how the judged text is fenced, and how its answer is read.

Prompts are files of this package, versioned by their content. The judged texts go as JSON strings in one object, in which
the brackets that chat templates give meaning to are escaped: no text can close its string, add a field, or end the
message.
"""

import functools
import hashlib
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from turnwise.errors import UserError
from turnwise.judging.base import Grade, Verdict

_ESCAPES = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>[]"})
"""Marks of chat templates (`<|im_end|>`, `[/INST]`, `</s>`), escaped inside JSON strings."""
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_ANSWER = re.compile(r'\s*(?:\{\s*"verdict"\s*:\s*(?P<quote>"?)(?P<json>\w+)(?P=quote)\s*\}|(?P<bare>\w+)\.?)\s*')


@dataclass(frozen=True)
class Rubric:
    """A prompt, and what its answers are worth."""

    prompt: str
    scores: dict[str, float]
    """Answer as the prompt asks for it -> score."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the answer."""
        answers = [int(answer) if answer.isdigit() else answer for answer in self.scores]
        verdict = {"type": "integer" if isinstance(answers[0], int) else "string", "enum": answers}
        properties = {"verdict": verdict}
        return {"type": "object", "properties": properties, "required": ["verdict"], "additionalProperties": False}

    def read(self, answer: str) -> Verdict:
        """The score, where the whole answer is a verdict (after a thought, if there is one); else an abstention."""
        found = _ANSWER.fullmatch(_THOUGHT.sub("", answer, count=1))
        said = (found["json"] or found["bare"]).lower() if found else ""
        return Verdict(self.scores[said]) if said in self.scores else Verdict(None, "no score in the answer")


@functools.cache
def rubric(kind: str, levels: int) -> Rubric:
    """The rubric of `level` with 3 or 5 levels, of `repeat`, or of `dialogue` with 4. Raises UserError for other levels."""
    if kind == "level" and levels not in (3, 5):
        raise UserError(f"params.yaml: judge.train.levels: a model judges by 3 or 5 levels, not by {levels}")
    first = 1 if kind == "level" else 0
    scores = {"yes": 1.0, "no": 0.0} if kind == "repeat" else {str(n + first): float(n) for n in range(levels)}
    name = f"level-{levels}" if kind == "level" else kind
    return Rubric((files("turnwise.judging") / "prompts" / f"{name}.md").read_text(encoding="utf-8"), scores)


def messages(item: Grade) -> list[dict[str, str]]:
    """The conversation that puts an item to the model: the prompt, and one JSON object that holds the judged texts."""
    fields: dict[str, dict[str, str | list[str]]] = {
        "level": {"reference": item.reference, "reply": item.reply},
        "repeat": {"earlier": item.reference.splitlines(), "reply": item.reply},
        "dialogue": {"expected": item.reference.splitlines(), "replies": item.reply.splitlines()},
    }
    lines = [f'"{name}": {_fenced(value)}' for name, value in {"question": item.question, **fields[item.kind]}.items()]
    prompt = rubric(item.kind, item.levels).prompt
    return [{"role": "system", "content": prompt}, {"role": "user", "content": "{" + ",\n".join(lines) + "}"}]


def _fenced(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_fenced, value))}]"
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)


def version() -> str:
    """Changes with every prompt, and with the way in which items are put."""
    kinds: tuple[tuple[Literal["level", "repeat", "dialogue"], int], ...]
    kinds = (("level", 3), ("level", 5), ("repeat", 2), ("dialogue", 4))
    asked = [messages(Grade(kind, "<question>", "[reference]\n...", '"reply"', levels)) for kind, levels in kinds]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]
