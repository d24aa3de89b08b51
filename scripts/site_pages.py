"""MkDocs hooks: README.md is the site's first page, and links to files that are no pages of it are shown as their text."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

CODE = r"^```.*?^```|`[^`\n]*`"
LINK = r"(?<!!)\[(?P<text>[^\]]+)\]\((?!https?:|#)(?P<file>[^)#\s]+)(?:#[^)\s]*)?\)"
PLACES = re.compile(f"(?P<code>{CODE})|{LINK}", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as `index.md`, its links seen from `docs/`."""
    text = (Path(config["docs_dir"]).parent / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Keep links to pages; of any other file of the repository, the text."""
    del page

    def shown(found: re.Match[str]) -> str:
        return found[0] if found["code"] or files.get_file_from_path(found["file"]) else found["text"]

    return PLACES.sub(shown, markdown)
