"""Stored bytes that make no sense: the exceptions that they cause become Corrupt.

Commands are checked before they are answered. So an exception of Python itself, in the middle of an
answer, means that a row is not as it was written: a number where a text was, a member that is missing.
Damage can be anywhere, and checking every cell of every row would cost every read.
"""

from rote.errors import Corrupt

NONSENSE = (
    TypeError, ValueError, LookupError, AttributeError, OverflowError, AssertionError,
    RecursionError, MemoryError,
)  # fmt: skip

_OF_CALLER = "a function, or a value, that was given to Rote has raised this"


def note_of_caller(error: Exception) -> None:
    """Note that an exception comes from the caller's own code: it is passed on as it is."""
    error.add_note(_OF_CALLER)


def is_of_caller(error: Exception) -> bool:
    return _OF_CALLER in getattr(error, "__notes__", ())


def unreadable(error: Exception) -> Corrupt:
    told = f"{type(error).__name__}: {error}"
    return Corrupt(
        f"what is stored cannot be understood ({told:.200}); run `rote verify`. If that finds"
        " nothing, this is a bug in Rote: please report it",
        reason=told,
    )
