"""Faces: an object of the library, asked with await. A class of them is a table, one line for a name.

    get = Reads(rote.Space.get)         await space.get(id)            a cancelled call ends at once
    set = Writes(rote.Space.set)        await space.set(id, value)     a cancelled call is settled first
    scan = Lists(rote.Space.scan)       async for state in space.scan()
    transaction = Opens(…)              async with space.transaction() as tx

The table gives the names; signatures are those of the functions, for people and for type checkers. A
call goes to the method of that name of the object itself, so a subclass answers in its own way.
"""

from asyncio import CancelledError
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from functools import partial
from inspect import iscoroutine
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from rote.aio.threads import Threads
from rote.contract.paging import Pages
from rote.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
F = TypeVar("F", bound="Block[Any]")

FACES: dict[type, "type[Face[Any]]"] = {}  # by the class that they are the face of


class Face(Generic[S]):
    """The async face of an object; it has no state and no behaviour of its own."""

    def __init__(self, sync: S, threads: Threads) -> None:
        self.sync = sync  # the object itself; both may be used at once
        self._threads = threads

    def __repr__(self) -> str:
        return f"rote.aio.of({self.sync!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Face) and other.sync is self.sync

    def __hash__(self) -> int:
        return id(self.sync)


class Block(Face[S]):
    """The face of a context manager, for `async with`."""

    async def __aenter__(self) -> Self:
        block: Any = self.sync

        def leave(_: object) -> None:
            block.__exit__(CancelledError, CancelledError(), None)

        await self._threads.write(block.__enter__, leave)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block: Any = self.sync
        await self._threads.leave(block.__exit__, kind, error, trace)


class OpenBlock(Block[S]):
    """The face of one that is open already: entering it waits for nothing, so nothing is left open by a
    cancellation before the block."""

    async def __aenter__(self) -> Self:
        return self


def face_of(kind: type) -> "Callable[[type[Face[Any]]], Any]":
    """Register a face as that of a class and its subclasses."""

    def register(face: type[Face[Any]]) -> Any:
        FACES[kind] = face
        return face

    return register


def shown(value: Any, threads: Threads) -> Any:
    """Return the face of an object, or of each in a list or a tuple; None for None."""
    if value is None:
        return None
    if type(value) in (list, tuple):
        return type(value)(shown(each, threads) for each in value)
    for kind in type(value).__mro__:
        if kind in FACES:
            return FACES[kind](value, threads)
    raise InvalidInput(f"there is no async face of {type(value).__qualname__}")


def plain(value: Any) -> Any:
    """Return the object behind a face; anything else as it is."""
    return value.sync if isinstance(value, Face) else value


def called(name: str, function: Any) -> Any:
    """Return a function that refuses to be a coroutine function: nobody would await it on its thread."""
    if not callable(function):
        return function

    def call(*args: Any, **named: Any) -> Any:
        answer = function(*args, **named)
        if iscoroutine(answer):
            answer.close()
            raise InvalidInput(
                f"{name} calls its function on a thread, maybe again later; it takes a plain function,"
                " which asks without await"
            )
        return answer

    return call


class Name(Generic[P, R]):
    """A name of a face, made from a function of the class behind it."""

    def __init__(self, function: Callable[Concatenate[Any, P], R], *, calls: bool = False) -> None:
        """calls  the functions that it is given"""
        self.function = function  # a property's getter is its name on the class
        self.calls = calls
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = self.function.__doc__

    def asked(self, face: Face[Any]) -> Callable[P, R]:
        """Return a function that calls the method, or reads the property."""
        if isinstance(self.function, property):
            return lambda *_, **__: getattr(face.sync, self.name)
        bound: Callable[P, R] = getattr(face.sync, self.name)
        if not self.calls:
            return bound
        check = partial(called, self.name)

        def ask(*args: Any, **named: Any) -> R:
            return bound(*map(check, args), **{key: check(each) for key, each in named.items()})

        return ask


class Reads(Name[P, R]):
    """A method, or a property that reads, which changes nothing."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked, threads = self.asked(face), face._threads
        return lambda *args, **named: threads.read(partial(asked, *args, **named))


class Writes(Name[P, R]):
    """A method that may change something."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked, threads = self.asked(face), face._threads
        return lambda *args, **named: threads.write(partial(asked, *args, **named))


class Shows(Name[P, R]):
    """A method that returns an object which has a face, or a list of them."""

    def __init__(self, function: Callable[Concatenate[Any, P], Any], *, writes: bool) -> None:
        super().__init__(function)
        self.writes = writes

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked, threads = self.asked(face), face._threads
        call = threads.write if self.writes else threads.read

        async def show(*args: Any, **named: Any) -> Any:
            return shown(await call(partial(asked, *args, **named)), threads)

        return show


class Makes(Name[P, R]):
    """A method that returns an object which has a face, without asking the store."""

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> Callable[P, R]: ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked = self.asked(face)
        return lambda *args, **named: shown(asked(*args, **named), face._threads)


class Has(Generic[S, R]):
    """An attribute that asks nothing."""

    def __init__(self, get: Callable[[S], Any], *, is_face: bool = False) -> None:
        self._get = get
        self._is_face = is_face

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> R: ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        value = self._get(face.sync)
        return shown(value, face._threads) if self._is_face else value


class Lists(Generic[P, R]):
    """A method that returns an iterator."""

    def __init__(self, function: Callable[Concatenate[Any, P], Iterator[R]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> "Callable[P, Items[R]]": ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked = getattr(face.sync, self.function.__name__)
        return lambda *args, **named: Items(face._threads, partial(asked, *args, **named))


class Opens(Name[P, R]):
    """A method that returns a context manager, and asks the store to make it."""

    def __init__(
        self,
        function: Callable[Concatenate[Any, P], Any],
        *,
        undo: Callable[[Any], object] | None = None,
        calls: bool = False,
    ) -> None:
        """undo  called with what was made when nobody else will get that"""
        super().__init__(function, calls=calls)
        self.undo = undo

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: object, owner: type) -> "Callable[P, Opening[R]]": ...
    def __get__(self, face: Any, owner: type) -> Any:
        if face is None:
            return self
        asked, threads = self.asked(face), face._threads

        def begin(*args: Any, **named: Any) -> Opening[Any]:
            async def make() -> Any:
                made = await threads.write(partial(asked, *args, **named), self.undo)
                return shown(made, threads)

            return Opening(make)

        return begin


class Opening(Generic[R_co]):
    """An object that is made when it is awaited, or when its block begins."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, R_co]]) -> None:
        self._make = make
        self._made: Any = None

    def __await__(self) -> Generator[Any, None, R_co]:
        return self._make().__await__()

    if not TYPE_CHECKING:  # a type checker knows that there is nothing else

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"this is not open yet and has no {name!r}: await it, or open it by `async with`"
            )

    async def __aenter__(self) -> R_co:
        made: Any = await self._make()
        self._made = made
        entered: R_co = await made.__aenter__()
        return entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._made.__aexit__(kind, error, trace)


class Items(AsyncIterator[R]):
    """The items of an iterator. It is made by the first look; a cancellation ends it."""

    def __init__(self, threads: Threads, make: Callable[[], Iterator[R]]) -> None:
        self._threads = threads
        self._make = make
        self._pages: Iterator[Sequence[R]] | None = None
        self._items: Iterator[R] = iter(())
        self._is_over = False

    async def __anext__(self) -> R:
        for item in self._items:
            return item
        while not self._is_over:
            self._is_over = True  # unless the look ends well
            page = await self._threads.read(self._next_page)
            if page is None:
                break
            self._is_over = False
            self._items = iter(page)
            for item in self._items:
                return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End it; nothing is held between two looks."""
        self._is_over, self._items = True, iter(())

    def _next_page(self) -> Sequence[R] | None:
        if self._pages is None:
            made = self._make()
            self._pages = made.pages if isinstance(made, Pages) else _one_by_one(made)
        return next(self._pages, None)


def _one_by_one(items: Iterable[R]) -> Iterator[Sequence[R]]:
    return ((item,) for item in items)
