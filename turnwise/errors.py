"""The one error a user is meant to read: what is wrong, where, and what to do about it."""


class UserError(Exception):
    """Bad input or a bad environment. The message names the file, the field and the remedy; no traceback is shown."""
