"""`python -m turnwise.cli` is the `turnwise` command."""

from turnwise.cli import main

main()
