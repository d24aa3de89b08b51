"""What was broken and what came of it, for the table at the end of a run."""

from collections import Counter, defaultdict

Book = dict[str, Counter[str]]
ACCOUNT: Book = defaultdict(Counter)
"""Fault -> times `tried`, times `resumed`, things `lost`."""
INPUTS: Book = defaultdict(Counter)
"""Kind of file -> damaged ones that were `read`, and those of them that were `refused`."""


def books() -> list[dict[str, dict[str, int]]]:
    """Both books as plain mappings, which one process can send to another."""
    return [{name: dict(counts) for name, counts in book.items()} for book in (ACCOUNT, INPUTS)]


def add(others: list[dict[str, dict[str, int]]]) -> None:
    """Add another process's `books`."""
    for book, entries in zip((ACCOUNT, INPUTS), others, strict=True):
        for name, counts in entries.items():
            book[name].update(counts)


def table() -> list[str]:
    """The lines to print."""
    return _lines("fault", ACCOUNT, ("tried", "resumed", "lost")) + _lines("damaged input", INPUTS, ("read", "refused"))


def _lines(title: str, book: Book, columns: tuple[str, ...]) -> list[str]:
    if not book:
        return []
    rows = [*sorted(book.items()), ("all", sum(book.values(), Counter()))]
    head = f"{title:50}" + "".join(f"{column:>9}" for column in columns)
    return ["", head, *(f"{name:50}" + "".join(f"{counts[column]:9}" for column in columns) for name, counts in rows)]
