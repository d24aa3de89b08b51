"""How every command of `turnwise` is set up."""

from typing import Any
from unicodedata import category

SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False}


def is_port(text: str) -> bool:
    """Whether a text is the number of a port, 1 to 65535."""
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def printable(text: str) -> str:
    """Text for a terminal: control characters, which could steer it, show as U+FFFD."""
    return "".join("\N{REPLACEMENT CHARACTER}" if category(c) == "Cc" and c not in "\n\t" else c for c in text)
