"""The one error a user is meant to read: what is wrong, where, and what to do about it."""


class UserError(Exception):
    """Bad input or a bad environment. The message names the file, the field and the remedy; no traceback is shown."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: Python's, pyarrow's, or torch's on CPU and CUDA."""
    said = str(error)
    words = ("can't allocate memory", "out of memory", "could not create a primitive")  # the last is oneDNN's
    return isinstance(error, MemoryError) or any(word in said for word in words)
