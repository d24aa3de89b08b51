"""How every command of `turnwise` is set up."""

from typing import Any

SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown", "pretty_exceptions_enable": False}
