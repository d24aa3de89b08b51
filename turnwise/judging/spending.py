"""What judging has cost so far, booked in the cache's file by all processes, and held to the budget."""

import sqlite3
from pathlib import Path

from turnwise import config
from turnwise.errors import UserError
from turnwise.judging.cache import connected

Row = tuple[str, int, int, int]
"""model, calls, tokens sent, tokens answered."""


class Spending:
    """Calls and tokens by model. The number of calls is held exactly; tokens and money by calls that have ended."""

    def __init__(self, path: Path, budget: config.Budget):
        """`path` is the file of a `VerdictCache`."""
        self.path, self.budget = path, budget

    def rows(self) -> list[Row]:
        """All that was ever booked."""
        with connected(self.path) as db:
            return _rows(db)

    def money(self, rows: list[Row]) -> float:
        """What they cost by the budget's prices; a model without a price costs nothing."""
        free = config.Price(prompt=0.0, completion=0.0)
        priced = [(self.budget.prices.get(model, free), sent, answered) for model, _, sent, answered in rows]
        return sum(price.prompt * sent + price.completion * answered for price, sent, answered in priced) / 1e6

    def book_call(self, model: str) -> None:
        """Book a call before it is made. Raises UserError where the budget is used up; then nothing is booked."""
        with connected(self.path) as db:
            db.execute("BEGIN IMMEDIATE")
            rows = _rows(db)
            self._hold(rows)
            db.execute("INSERT INTO spending VALUES (?, 1, 0, 0) ON CONFLICT DO UPDATE SET calls = calls + 1", [model])

    def book_tokens(self, model: str, prompt: int, completion: int) -> None:
        """Book what the server says that a call took."""
        change = "UPDATE spending SET prompt = prompt + ?, completion = completion + ? WHERE model = ?"
        with connected(self.path) as db:
            db.execute(change, [prompt, completion, model])

    def _hold(self, rows: list[Row]) -> None:
        spent = {
            "calls": sum(calls for _, calls, _, _ in rows),
            "tokens": sum(sent + answered for _, _, sent, answered in rows),
            "money": self.money(rows),
        }
        for name, value in spent.items():
            limit = getattr(self.budget, name)
            if limit is not None and value >= limit:
                raise UserError(
                    f"params.yaml: judge.budget.{name}: {value:g} of {limit:g} are spent ({self.path} keeps the account); "
                    "raise it and run again, verdicts so far are kept"
                )


def _rows(db: sqlite3.Connection) -> list[Row]:
    return db.execute("SELECT model, calls, prompt, completion FROM spending ORDER BY model").fetchall()
