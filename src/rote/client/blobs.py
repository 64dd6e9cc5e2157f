"""Blobs and foundations over HTTP: bytes that are streamed, up from an upload and down by ranges."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import structs

from rote.client.calls import Request
from rote.client.replies import Reply
from rote.client.uploads import Uploads
from rote.client.works import LINES
from rote.contract import Head, IdSource
from rote.contract import commands as c
from rote.contract.wire import encode_command
from rote.errors import Corrupt, InvalidInput, NotFound
from rote.values import canonical, check_branch_name
from rote.values.blobs import check_blob_hash, check_content_type, check_labels
from rote.values.limits import ATTEMPT_BYTES, BLOB_PIECE_BYTES

Call = Callable[[str, Request], Reply]
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def place_of(space: str) -> str:
    """Return the path below which the commands of a space are."""
    return f"/v1/spaces/{quote(space, safe=':')}/"


def attempted(command: Any, ids: IdSource) -> Any:
    """Return a write with the name of its attempt, so that it may be sent again."""
    if command.attempt is not None:
        return command
    return structs.replace(command, attempt=ids.random_bytes(ATTEMPT_BYTES).hex())


def _in_header(key: str) -> str:
    """Return a key; InvalidInput for one that a header would change or end."""
    if key != key.strip(" ") or _CONTROLS.search(key):
        raise InvalidInput(
            "the key of a blob that is put over HTTP has no control characters, and no space at its ends",
            argument="key",
        )
    return key


class Blobs:
    """Answers the commands of one store that move bytes."""

    def __init__(self, ids: IdSource, *, call: Call) -> None:
        self._ids = ids
        self._call = call
        self._uploads = Uploads(ids)
        self.rules: dict[type[c.Command[Any]], Callable[[str, Any], Any]] = {
            c.PutPiece: lambda _, command: self._uploads.put(command),
            c.DropUpload: lambda _, command: self._uploads.drop(command.upload),
            c.PutBlob: self._put,
            c.ReadPiece: self._read,
            c.AdoptBlob: self._adopt,
            c.FoundationIn: self._foundation_in,
        }

    def close(self) -> None:
        self._uploads.close()

    def _put(self, space: str, command: c.PutBlob) -> str | None:
        check_content_type(command.content_type)
        check_labels(command.labels)
        if command.expect is not None:
            check_blob_hash(command.expect)
        if command.upload is None:
            if command.expect is None:
                raise InvalidInput(
                    "a blob is put by its upload, or by the hash of bytes that are there"
                )
            return None  # the bytes are sent, and the server stores them once
        ready = attempted(command, self._ids)
        encode_command(ready)  # refuses what cannot be sent
        check_branch_name(ready.branch)
        headers = {
            "content-type": ready.content_type,
            "rote-labels": canonical(list(ready.labels)).decode(),
            "rote-attempt": ready.attempt,
        }
        if ready.key is not None:
            headers["idempotency-key"] = _in_header(ready.key)
        hash = "" if ready.expect is None else f"/{ready.expect}"
        request = Request(
            "POST" if ready.expect is None else "PUT",
            f"{place_of(space)}blobs{hash}?branch={quote(ready.branch, safe='')}",
            self._uploads.find(ready.upload).body,
            headers,
            attempt=ready.attempt,
            is_write=True,
            is_long=True,
        )
        return self._call(space, request).member("hash", str)

    def _read(self, space: str, command: c.ReadPiece) -> bytes:
        check_blob_hash(command.hash)
        if type(command.offset) is not int or command.offset < 0:
            raise InvalidInput("an offset is an integer from 0 on, of 64 bits")
        last = command.offset + BLOB_PIECE_BYTES - 1
        headers = {"range": f"bytes={command.offset}-{last}"}
        request = Request("GET", f"{place_of(space)}blobs/{command.hash}", headers=headers)
        try:
            return self._call(space, request).body
        except InvalidInput as error:
            if error.code == "range":
                return b""  # at the end, or beyond
            raise

    def _adopt(self, space: str, command: c.AdoptBlob) -> bool | None:
        check_blob_hash(command.hash)
        if command.upload is None:
            try:
                self._read(space, c.ReadPiece(command.hash, BLOB_PIECE_BYTES))
            except NotFound:
                return None
            return False
        upload = self._uploads.find(command.upload)
        if upload.hash() != command.hash:
            raise Corrupt(
                f"the blob {command.hash} of the source is not what was written; nothing of it was"
                " copied, run `rote verify` on the source",
                blob=command.hash,
            )
        body, kind = upload.body, {"content-type": "application/octet-stream"}
        target = f"{place_of(space)}blob_parts/{command.hash}"
        request = Request("PUT", target, body, kind, is_write=True, is_long=True)
        return self._call(space, request).member("adopted", bool)

    def _foundation_in(self, space: str, command: c.FoundationIn) -> Head:
        body = self._uploads.find(command.upload).body
        target, kind = f"{place_of(space)}foundation_in", {"content-type": LINES}
        request = Request("POST", target, body, kind, is_write=True, is_long=True)
        reply = self._call(space, request)
        try:
            return msgspec.convert(reply.members, Head)
        except msgspec.ValidationError as error:
            raise reply.unreadable(error) from None
