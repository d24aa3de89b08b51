"""OVO-Bench: its own accuracy (`accuracy`), and the timing of replies on its forward tasks (`timing`)."""
