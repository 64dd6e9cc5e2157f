"""Functions that users name on the command line as MODULE:FUNCTION, and where one of them failed."""

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from rote.bridges.folders import shown_name
from rote.errors import InvalidInput
from rote.recordings.recordings import error_name
from rote.retrieval import Embedder
from rote.values.limits import ERROR_MESSAGE_CHARACTERS_MAX
from rote.values.names import told

_FORM = "name a function as MODULE:FUNCTION, such as agent:answer or package.agent:answer"
_OURS = str(Path(__file__).parents[1])
_PYTHON = sysconfig.get_paths()["stdlib"]
_SITE = "site-packages"
_ABSENT = object()
_STDOUT, _STDERR = 1, 2  # descriptors


@contextmanager
def importing_here() -> Iterator[str]:
    """Import as Python does in the working folder, and yield that folder; what is printed goes to
    stderr, because stdout has the answer of the command."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        with _stdout_to_stderr():
            yield here
    finally:
        if here in sys.path:  # nobody else has taken it out
            sys.path.remove(here)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send to stderr what is printed, and also what other programs and C libraries write to stdout."""
    outputs = [each for each in (sys.stdout, sys.__stdout__) if each is not None]
    for output in outputs:
        output.flush()
    try:
        kept = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
    except OSError:  # one of them is closed
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        for output in outputs:
            output.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def split_name(named: str) -> tuple[str, list[str]]:
    """Return the module and the attributes that lead to a function in it."""
    module, _, rest = named.partition(":")
    attributes = rest.split(".")
    if module.endswith(".py"):
        raise InvalidInput(f"{named} names a file; {_FORM}")
    if not all(part.isidentifier() for part in (*module.split("."), *attributes)):
        raise InvalidInput(f"{named!r:.120} is no function; {_FORM}")
    return module, attributes


def load_function(named: str, here: str) -> Callable[[Any], object]:
    """Import a function of one argument; InvalidInput says why that is not possible.

    here  the working folder, of which the error names a line
    """
    found = _load(named, here)
    _check_takes_a_run(named, found)
    function: Callable[[Any], object] = found
    return function


def load_embedder(named: str, here: str) -> Embedder:
    """Import an embedder, or a class or function that returns one; its errors become InvalidInput."""
    found = _load(named, here)
    if isinstance(found, type) or not hasattr(found, "embed"):
        with _telling(named, here):
            found = found()
    return NamedEmbedder(found, named, here)


class NamedEmbedder:
    """An embedder whose errors say where they came up."""

    def __init__(self, embedder: Any, named: str, here: str) -> None:
        self._embedder = embedder
        self._named = named
        self._here = here
        for member in ("name", "version", "dimension"):
            setattr(self, member, getattr(embedder, member, None))
        if callable(getattr(embedder, "embed_query", None)):
            self.embed_query = lambda text: self._said(embedder.embed_query, text)

    name: str
    version: str
    dimension: int

    def embed(self, texts: Sequence[str], /) -> Any:
        return self._said(self._embedder.embed, texts)

    def _said(self, ask: Callable[[Any], Any], texts: Any) -> Any:
        with _telling(self._named, self._here):
            return ask(texts)


@contextmanager
def _telling(named: str, here: str) -> Iterator[None]:
    """Raise InvalidInput for an error of the user's code."""
    try:
        yield
    except Exception as error:
        place = place_of(error, here)
        words = described(error) if place is None else f"{described(error)} ({place})"
        raise InvalidInput(f"{named} failed: {words}", code="invalid_embedding") from error


def _load(named: str, here: str) -> Any:
    """Import what a name leads to; InvalidInput says why that is not possible."""
    module, attributes = split_name(named)
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes:
            inner = getattr(found, attribute, _ABSENT)
            if inner is _ABSENT:
                break
            found = inner
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may do anything, sys.exit included
        place = place_of(error, here)
        words = described(error) if place is None else f"{described(error)} ({place})"
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            words += f"; it is looked for in the working folder, {shown_name(here)}"
        raise InvalidInput(f"cannot import {module}: {words}") from error
    if inner is _ABSENT:
        public = sorted(name for name in dir(found) if not name.startswith("_"))
        raise InvalidInput(f"{named}: there is no {attribute}; {told(public)}")
    return found


def _check_takes_a_run(named: str, found: Any) -> None:
    if not callable(found):
        raise InvalidInput(f"{named} is a {type(found).__name__} and cannot be called; {_FORM}")
    if (
        inspect.iscoroutinefunction(found)
        or inspect.isgeneratorfunction(found)
        or inspect.isasyncgenfunction(found)
    ):
        raise InvalidInput(
            f"{named} does nothing when it is called alone; name a function that does the work, such"
            " as lambda run: asyncio.run(function(run))"
        )
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        raise InvalidInput(
            f"{named} is called with the run alone, and that does not fit it: {error}"
        ) from None
    except ValueError:
        pass  # a function of C that does not tell


def described(error: BaseException) -> str:
    """Return the type of an error and what it says, on one line; of one from a recording, the type
    that was recorded."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # an error that cannot even tell itself
        message = ""
    return f"{error_name(error)}: {message}"[:ERROR_MESSAGE_CHARACTERS_MAX].removesuffix(": ")


def place_of(error: BaseException, here: str) -> str | None:
    """Return file and line of the user's code where an error came up; None when it was elsewhere.

    Code in the folder `here` comes first: what it calls may be installed, and fail far below.
    """
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(frame.f_code.co_filename)
    ]
    own = [(name, line) for name, line in lines if name.startswith(here) and _SITE not in name]
    for name, line in reversed(own or lines):
        return f"{shown_name(name)}, line {line}"
    return None


def _is_users(name: str) -> bool:
    """Whether a file of code is not Rote's, and not a part of Python."""
    is_python = name.startswith("<") or (name.startswith(_PYTHON) and _SITE not in name)
    return not is_python and not name.startswith(_OURS)
