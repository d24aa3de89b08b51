"""Qwen's own vocabulary with its true ids, from tables of ranks; nothing is asked of a hub.

`PIECES` is the part that `TEXTS` go through while they are merged, so that these are cut as by the whole vocabulary.
The whole is in the package dashscope (Apache-2.0), which `make real-vocabulary` fetches.
"""

import base64
import json
import zipfile
from itertools import pairwise
from pathlib import Path

from tokenizers import AddedToken
from transformers import Qwen2Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from turnwise.policy.embedded import CHAT_TEMPLATE, SPECIAL
from turnwise.protocols import NO_REPLY

PIECES = Path(__file__).parent / "published" / "qwen_pieces.json"
WHEEL = Path(".cache/dashscope-2.0.2-py3-none-any.whl")
FIRST_SPECIAL = 151_643
ROLES = ["system\n", "user\n", "assistant\n", "\n"]
TEXTS = [NO_REPLY.silence, NO_REPLY.system, *ROLES, "A red striped ball appears.", "How many cubes?"]
CHARACTERS = bytes_to_unicode()

Ranks = dict[bytes, int]


def excerpt() -> Ranks:
    """The committed part."""
    return {bytes.fromhex(piece): rank for piece, rank in json.loads(PIECES.read_text()).items()}


def whole() -> Ranks:
    """All 151,643 pieces, from the wheel."""
    lines = zipfile.ZipFile(WHEEL).read("dashscope/resources/qwen.tiktoken").split(b"\n")
    return {base64.b64decode(piece): int(rank) for piece, rank in (line.split() for line in lines if line)}


def merged(ranks: Ranks, text: bytes, below: int) -> list[bytes]:
    """The pieces of one word, merging the pair of the lowest rank until none under `below` is left."""
    parts = [bytes([byte]) for byte in text]
    while len(parts) > 1:
        pairs = [ranks.get(a + b, below) for a, b in pairwise(parts)]
        if (rank := min(pairs)) >= below:
            break
        at = pairs.index(rank)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def tokenizer(ranks: Ranks) -> Qwen2Tokenizer:
    """Qwen's tokenizer over these pieces; a piece's merge is the pair that the ranks below its own leave of it."""
    vocabulary = {"".join(CHARACTERS[byte] for byte in piece): rank for piece, rank in ranks.items()}
    vocabulary |= {token: FIRST_SPECIAL + i for i, token in enumerate(SPECIAL)}
    merges = []
    for piece, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(piece) > 1:
            merges.append(tuple("".join(CHARACTERS[byte] for byte in part) for part in merged(ranks, piece, rank)))
    made = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[pair for pair in merges if len(pair) == 2],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    )
    made.add_tokens([AddedToken(token, special=True) for token in SPECIAL], special_tokens=True)
    return made
