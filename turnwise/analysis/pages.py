"""How the pages are made: templates, filters, and what they have in common."""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from turnwise.analysis.answer import percent
from turnwise.analysis.citing import cite, html
from turnwise.analysis.tabular import fewer, number


def render(template: str, **values: Any) -> str:
    """A template of this package with `values`; all that is no Markup is escaped."""
    return _environment().get_template(template).render(**values)


def source(name: str) -> Markup:
    """A style sheet or script of this package."""
    return Markup(files("turnwise.analysis").joinpath(name).read_text(encoding="utf-8").strip())


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("turnwise.analysis", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(cite=cite)
    named = {"number": number, "fewer": fewer, "percent": percent, "seconds": seconds, "html": html, "spell": spell}
    environment.filters.update(**named, signed=signed, quoted=in_shell, json=in_script, allowed=allowed)
    return environment


def in_script(value: Any) -> Markup:
    """A value as JSON that may stand in a script element: nothing in it ends the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def allowed(*scripts: str) -> Markup:
    """The content security policy's sources for inline scripts: their hashes, so that no other script runs."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    return Markup(" ".join(f"'sha256-{digest}'" for digest in digests))


def spell(value: Any) -> str:
    """A protocol entry to read: nested mappings as `key: value; key: value`."""
    if isinstance(value, dict):
        parts = [f"{str(key).replace('_', ' ')}: {spell(inner)}" for key, inner in value.items()]
        return "; ".join(parts)
    return str(value)


def in_shell(text: str) -> str:
    """Text as one word of a shell, in double quotes where it needs any."""
    return text if re.fullmatch(r"[\w./-]+", text) else '"' + re.sub(r'([\\$`"])', r"\\\1", text) + '"'


def signed(value: float, digits: int) -> str:
    """A number with its sign, a true minus sign."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def seconds(value: float) -> str:
    """A duration to read: 12.3 s, or 4 min 05 s from two minutes on."""
    return f"{value:.1f} s" if value < 120 else f"{int(value // 60)} min {int(value % 60):02d} s"
