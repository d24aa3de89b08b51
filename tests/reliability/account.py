"""What was broken and what came of it, for the table at the end of a run."""

from collections import defaultdict

ACCOUNT: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
"""Fault -> times tried, times resumed, things lost."""
INPUTS: dict[str, dict[str, int]] = defaultdict(lambda: {"read": 0, "refused": 0})
"""Kind of file -> damaged ones that were read, and those of them that were refused."""


def table() -> list[str]:
    """The lines to print."""
    lines = []
    if ACCOUNT:
        lines += ["", f"{'fault':50} {'tried':>6} {'resumed':>8} {'lost':>6}"]
        lines += [f"{fault:50} {tried:6} {resumed:8} {lost:6}" for fault, (tried, resumed, lost) in ACCOUNT.items()]
        tried, resumed, lost = map(sum, zip(*ACCOUNT.values(), strict=True))
        lines.append(f"{'all':50} {tried:6} {resumed:8} {lost:6}")
    if INPUTS:
        lines += ["", f"{'damaged input':50} {'read':>6} {'refused':>8}"]
        lines += [f"{kind:50} {counts['read']:6} {counts['refused']:8}" for kind, counts in INPUTS.items()]
        read, refused = (sum(counts[name] for counts in INPUTS.values()) for name in ("read", "refused"))
        lines.append(f"{'all':50} {read:6} {refused:8}")
    return lines
