"""The schemas as the reference section of docs/tables.md; `python -m turnwise.tables.describe` writes it there."""

from pathlib import Path

import pyarrow as pa

from turnwise.files import write_text
from turnwise.tables.schema import KEYS, PLACES, SCHEMAS, sql_type


def reference() -> str:
    """Markdown: each table's place, key, and columns with type, unit and meaning, as SCHEMAS has them."""
    return "\n\n".join(_section(name) for name in SCHEMAS) + "\n"


def _section(name: str) -> str:
    rows = [_row(field) for field in SCHEMAS[name]]
    where = f"`runs/<arm>/<seed>/{PLACES[name]}`; key: {', '.join(f'`{key}`' for key in KEYS[name])}"
    return "\n".join([f"### {name}", "", where, "", "| column | type | unit | meaning |", "|---|---|---|---|", *rows])


def _row(field: pa.Field) -> str:
    facts = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind = f"{sql_type(field.type)} or null" if field.nullable else sql_type(field.type)
    return f"| `{field.name}` | {kind} | {facts['unit']} | {facts['meaning']} |"


START, END = "<!-- columns: written by `python -m turnwise.tables.describe` -->", "<!-- end of columns -->"


def refreshed(page: str) -> str:
    """The page with `reference()` between its two column marks, whatever stood there."""
    before, rest = page.split(START)
    return f"{before}{START}\n{reference()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    document = Path("docs/tables.md")
    write_text(document, refreshed(document.read_text(encoding="utf-8")))
