"""Blobs by PUT, POST, GET and HEAD: bytes that are streamed both ways, and never stand in JSON."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from msgspec.json import encode

from rote.contract import View
from rote.contract.commands import AdoptBlob, DropUpload, GetBlobInfo, PutBlob, PutPiece, ReadPiece
from rote.errors import Corrupt, InvalidInput, RoteError, Unavailable
from rote.server.messages import Headers, Http, Response
from rote.server.parameters import BRANCH, parameters
from rote.server.ranges import parse_range
from rote.server.requests import once_in
from rote.server.rows import note_head
from rote.server.statuses import error_response
from rote.server.visits import Visit, json, visit
from rote.values import decode
from rote.values.blobs import (
    CONTENT_TYPE_DEFAULT,
    check_blob_hash,
    check_content_type,
    check_expected,
    check_labels,
)
from rote.values.limits import BLOB_PIECE_BYTES

PUT = (BRANCH,)
GET = (BRANCH,)

_ATTACHED = (b"content-disposition", b"attachment")


# -- reading ---------------------------------------------------------------------------------------


def get_blob(http: Http) -> Response:
    given = parameters(http.head, *GET)
    visited = visit(http, "blob_get")
    hash = http.names["hash"]
    info = visited.answer(GetBlobInfo(hash, View(given.get("branch", "main"))))
    headers: Headers = (
        (b"etag", f'"{hash}"'.encode()),
        (b"accept-ranges", b"bytes"),
        _ATTACHED,
    )
    if _is_known(http, hash):
        return Response(304, headers)
    asked = http.head.one(b"range")
    try:
        wanted = parse_range(None if asked is None else asked.decode("latin-1"), info.size)
    except InvalidInput as error:
        more = (b"content-range", b"bytes */%d" % info.size)
        return error_response(error, headers=(more,))
    start, end = wanted or (0, info.size)
    headers = (
        (b"content-type", info.content_type.encode("latin-1", "replace")),
        (b"content-length", b"%d" % (end - start)),
        *headers,
    )
    if wanted is not None:
        headers += ((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, info.size)),)
    pieces = _pieces(visited, hash, start, end, is_whole=wanted is None)
    return Response(200 if wanted is None else 206, headers, pieces)


def _is_known(http: Http, hash: str) -> bool:
    given = http.head.one(b"if-none-match")
    return given is not None and (given.strip() == b"*" or f'"{hash}"'.encode() in given)


def _pieces(visited: Visit, hash: str, start: int, end: int, *, is_whole: bool) -> Iterator[bytes]:
    """Yield the bytes of a blob; those of a whole one are compared with its hash at the end.

    When they differ the last piece is held back, so that the connection is cut short of its length.
    """
    hasher = sha256()
    while start < end:
        piece = visited.answer(ReadPiece(hash, start))[: end - start]
        if not piece:
            raise Corrupt(f"the blob {hash} is damaged; run `rote verify`", blob=hash)
        start += len(piece)
        if is_whole:
            hasher.update(piece)
            if start >= end and hasher.hexdigest() != hash:
                raise Corrupt(f"the blob {hash} is damaged; run `rote verify`", blob=hash)
        yield piece


# -- writing ---------------------------------------------------------------------------------------


class BlobUpload:
    """Bytes on their way into a space; implements messages.Upload.

    They are an upload of the store, which is no blob yet: a body that was cut leaves nothing.
    """

    def __init__(self, http: Http, row: str) -> None:
        parameters(http.head, *PUT)
        self._http = http
        self._visited = visit(http, row)
        self._hash = http.names.get("hash")
        if self._hash is not None:
            check_blob_hash(self._hash)
        self._waiting = b""  # less than a piece
        self._upload: str | None = None
        self._offset = 0

    def take(self, piece: bytes) -> None:
        if not self._waiting and len(piece) == BLOB_PIECE_BYTES:
            self._put(piece)  # the usual case, without a copy
            return
        self._waiting += piece
        while len(self._waiting) >= BLOB_PIECE_BYTES:
            self._put(self._waiting[:BLOB_PIECE_BYTES])
            self._waiting = self._waiting[BLOB_PIECE_BYTES:]

    def drop(self) -> None:
        if self._upload is None:
            return
        try:
            self._answer(DropUpload(self._upload))
        except RoteError:
            pass  # gc drops it later

    def finish(self) -> Response:
        try:
            if self._waiting or self._upload is None:
                self._put(self._waiting)
            return self._finished()
        finally:
            self.drop()  # unless it counts now

    def _put(self, piece: bytes) -> None:
        self._upload = self._answer(PutPiece(self._upload, self._offset, piece))
        self._offset += len(piece)

    def _finished(self) -> Response:
        raise NotImplementedError

    def _answer(self, command: Any) -> Any:
        return self._visited.answer(command)


class PutUpload(BlobUpload):
    """A blob that a commit describes."""

    def __init__(self, http: Http) -> None:
        super().__init__(http, "blob_put")
        head = http.head
        once = once_in(head)
        given = head.one(b"content-type")
        content_type = CONTENT_TYPE_DEFAULT if given is None else given.decode("latin-1")
        labels = head.one(b"rote-labels")
        self._command = PutBlob(
            content_type=content_type,
            labels=() if labels is None else _labels(labels),
            expect=self._hash,
            key=once.key,
            branch=parameters(head, *PUT).get("branch", "main"),
            attempt=once.attempt,
        )
        check_content_type(content_type)
        check_labels(self._command.labels)

    def _finished(self) -> Response:
        members = {name: getattr(self._command, name) for name in PutBlob.__struct_fields__}
        hash = self._answer(PutBlob(**{**members, "upload": self._upload}))
        service, seen = self._http.service, self._http.seen
        is_repeatable = self._command.key is not None or self._command.attempt is not None
        note_head(seen, service.look(seen), is_repeatable=is_repeatable)
        return json(encode({"hash": hash, "size": self._offset}))


class AdoptUpload(BlobUpload):
    """A blob that another store has described; it makes no commit."""

    def __init__(self, http: Http) -> None:
        super().__init__(http, "adopt_blob")
        self._hasher = sha256()

    def take(self, piece: bytes) -> None:
        self._hasher.update(piece)
        super().take(piece)

    def _finished(self) -> Response:
        assert self._hash is not None
        check_expected(self._hash, self._hasher.hexdigest())
        adopted = self._answer(AdoptBlob(self._hash, self._upload))
        return json(encode({"adopted": adopted}))


def _labels(text: bytes) -> tuple[str, ...]:
    labels = decode(text)
    if type(labels) is not list:
        raise InvalidInput("the header rote-labels is a JSON array of texts")
    return tuple(labels)


def only_streamed(http: Http) -> Response:
    """Stand in for a route whose body is always taken in pieces."""
    raise Unavailable("this route takes its body in pieces")
