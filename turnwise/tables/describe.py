"""The schemas as the reference section of docs/tables.md; `python -m turnwise.tables.describe` writes it there."""

from pathlib import Path

import pyarrow as pa

from turnwise.files import write_text
from turnwise.tables.schema import KEYS, PLACES, SCHEMAS, TERM, TERMS, sql_type
from turnwise.tables.views import ABLATION, VIEWS

ABLATION_SAYS = (
    "One row an arm and metric, from `reports/ablation.csv`; a column `seed_<seed>` (percent) follows for each seed."
)


def reference() -> str:
    """Markdown: every table's and view's columns with type, unit and meaning, as SCHEMAS and VIEWS have them; the terms."""
    tables = [_section(name, _place(name), schema) for name, schema in SCHEMAS.items()]
    views = [_section(name, f"One row {view.row}.", view.schema) for name, view in VIEWS.items()]
    return "\n\n".join([*tables, _terms(), *views, _section("ablation", ABLATION_SAYS, ABLATION)]) + "\n"


def _terms() -> str:
    rows = [f"| `{term}` | {meaning} |" for term, meaning in TERMS.items()]
    return "\n".join(["### Terms", "", "What `<term>` stands for.", "", "| term | |", "|---|---|", *rows])


def _place(name: str) -> str:
    return f"`runs/<arm>/<seed>/{PLACES[name]}`; key: {', '.join(f'`{key}`' for key in KEYS[name])}"


def _section(name: str, about: str, schema: pa.Schema) -> str:
    head = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    return "\n".join([f"### {name}", "", about, "", *head, *map(_row, schema)])


def _row(field: pa.Field) -> str:
    facts = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind = f"{sql_type(field.type)} or null" if field.nullable else sql_type(field.type)
    return f"| `{field.name}` | {kind} | {facts['unit']} | {facts['meaning'].replace(TERM, f'`{TERM}`')} |"


START, END = "<!-- columns: written by `python -m turnwise.tables.describe` -->", "<!-- end of columns -->"


def refreshed(page: str) -> str:
    """The page with `reference()` between its two column marks, whatever stood there."""
    before, rest = page.split(START)
    return f"{before}{START}\n{reference()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    document = Path("docs/tables.md")
    write_text(document, refreshed(document.read_text(encoding="utf-8")))
