"""The one error a user is meant to read: what is wrong, where, and what to do about it."""


class UserError(Exception):
    """Bad input or a bad environment. The message names the file, the field and the remedy; no traceback is shown."""


def lacked(error: BaseException) -> str | None:
    """What the machine lacked (disk, memory, a right), as far as an exception says so; safetensors words it as text alone."""
    if out_of_memory(error):
        return (
            "out of memory: lower rl.micro_batch, rollout.group_size or evaluate.batch, or run fewer stages at a time"
        )
    if isinstance(error, OSError):
        return f"{error.filename or 'file system'}: {error.strerror or error}"
    return str(error).splitlines()[0] if "(os error " in str(error) else None


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: Python's, pyarrow's, or torch's on CPU and CUDA."""
    said = str(error)
    words = ("can't allocate memory", "out of memory", "could not create a primitive")  # the last is oneDNN's
    return isinstance(error, MemoryError) or any(word in said for word in words)
