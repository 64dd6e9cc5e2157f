"""The fs adapter: files below one folder, by the verbs of a host."""

import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any

from rote.errors import (
    Denied,
    InvalidInput,
    NotFound,
    RoteError,
    system_failure,
)
from rote.tiers.fs.files import Folder, Root, too_large
from rote.tiers.fs.paths import bad_path, extension_of, segments_of
from rote.tiers.grants import narrowed
from rote.tiers.options import checked_options
from rote.tiers.verbs import Parameter, Verb, table
from rote.values import Json
from rote.values.tier_limits import FS_FILE_BYTES_MAX, HOST_NAMES_MAX

_PATH = Parameter("path", {"type": "string"})
_CONTENT = Parameter("content", {"type": "string"})
_ENCODING = Parameter("encoding", {"enum": ["utf-8", "base64"]}, "utf-8")
VERBS = table(
    [
        Verb("read", (_PATH, _ENCODING), writes=False),
        Verb("write", (_PATH, _CONTENT, _ENCODING), writes=True, destructive=True),
        Verb("append", (_PATH, _CONTENT, _ENCODING), writes=True),
        Verb("list", (Parameter("path", {"type": "string"}, ""),), writes=False),
        Verb("exists", (_PATH,), writes=False),
        Verb("delete", (_PATH,), writes=True, destructive=True, switch="allow_delete"),
    ]
)


def _are_extensions(value: Json) -> bool:
    return len(value) <= HOST_NAMES_MAX and all(
        type(each) is str and len(each) > 1 and each.rfind(".") == 0 and "/" not in each
        for each in value
    )


_SIZE = {"type": "integer", "minimum": 0}
_EXTENSIONS = {"type": "array", "description": "a list of extensions like '.txt'"}
_OPTIONS = (
    Parameter("sandbox_root", {"type": "string", "minLength": 1}),
    Parameter("allow_extensions", _EXTENSIONS, optional=True, check=_are_extensions),
    Parameter("max_read_bytes", _SIZE, FS_FILE_BYTES_MAX),
    Parameter("max_write_bytes", _SIZE, FS_FILE_BYTES_MAX),
    Parameter("allow_delete", {"type": "boolean"}, False),
)


def open_fs(options: Mapping[str, Any]) -> "Files":
    """Return the files below a folder; NotFound when it is missing."""
    taken = checked_options("fs", _OPTIONS, options)
    return Files(open_root(taken.pop("sandbox_root")), taken)


def open_root(path: str) -> Root:
    """Open the folder of a sandbox. Links on the way to it are the operator's, and are followed."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"the folder {path!r} is not there; make it first", path=path) from None
    except (NotADirectoryError, ValueError):
        raise InvalidInput(f"{path!r} is no folder; name one", path=path) from None
    except OSError as error:
        raise system_failure(f"cannot open {path}", error, path) from error
    if os.path.samestat(os.fstat(root), os.stat("/")):  # noqa: PTH116
        os.close(root)
        raise InvalidInput("the sandbox must not be the whole file system; name another folder")
    return Root(Folder(root))


class Files:
    """Any thread may call it."""

    name = "fs"
    verbs: Mapping[str, Verb] = VERBS

    def __init__(self, root: Root, bounds: Mapping[str, Json]) -> None:
        self.switches: Mapping[str, bool] = {"allow_delete": bool(bounds["allow_delete"])}
        self._bounds = {name: each for name, each in bounds.items() if each is not None}
        self._root = root

    def call(
        self, verb: str, arguments: Mapping[str, Json], granted: Mapping[str, Json], /
    ) -> Json:
        bounds = narrowed(self._bounds, granted)
        path = arguments["path"]
        if verb == "list":
            path = "/" if path in ("", ".") else path
        try:
            return getattr(self, f"_{verb}")(arguments, bounds, segments_of(path))
        except OSError as error:
            raise system_failure(f"fs: cannot {verb} {path!r:.80}", error, path) from error

    def close(self) -> None:
        self._root.close()

    def _read(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        *folders, name = _file_path(path, bounds)
        with self._open(folders) as folder:
            data = folder.read(
                name, size_bytes_max=bounds["max_read_bytes"], limit="max_read_bytes"
            )
        return {"content": _text_of(data, arguments["encoding"], name), "bytes": len(data)}

    def _write(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        return self._put(arguments, bounds, path, is_append=False)

    def _append(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        return self._put(arguments, bounds, path, is_append=True)

    def _put(
        self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...], *, is_append: bool
    ) -> Json:
        *folders, name = _file_path(path, bounds)
        data = _bytes_of(arguments["content"], arguments["encoding"])
        size_max = bounds["max_write_bytes"]
        if len(data) > size_max:
            raise too_large("max_write_bytes", name, len(data), size_max)
        with self._open(folders, make=True) as folder, folder.held():
            before = folder.look_for_file(name)
            if is_append and before is not None:
                data = folder.read(name, size_bytes_max=size_max, limit="max_write_bytes") + data
                if len(data) > size_max:
                    raise too_large("max_write_bytes", name, len(data), size_max)
            folder.replace(name, data, before)
        return {"ok": True, "bytes": len(data)}

    def _list(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        with self._open(path) as folder:
            found = {
                name: (None if stat.S_ISDIR(each.st_mode) else each.st_size)
                for name, each in folder.entries()
                if _can_be_opened((*path, name), stat.S_ISDIR(each.st_mode), bounds)
            }
        return {
            "entries": [
                {"name": name, "type": "directory" if size is None else "file", "bytes": size}
                for name, size in sorted(found.items())
            ]
        }

    def _exists(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        *folders, name = _named(path)
        try:
            with self._open(folders) as folder:
                found = folder.look(name)
        except NotFound:
            found = None
        if found is None:
            return {"exists": False, "type": None}
        if stat.S_ISDIR(found.st_mode):
            return {"exists": True, "type": "directory"}
        _check_extension(name, bounds)
        return {"exists": True, "type": "file"}

    def _delete(self, arguments: Mapping[str, Json], bounds: Any, path: tuple[str, ...]) -> Json:
        *folders, name = _file_path(path, bounds)
        try:
            with self._open(folders) as folder, folder.held():
                is_there = folder.look_for_file(name) is not None
                if is_there:
                    folder.remove(name)
        except (NotFound, FileNotFoundError):
            is_there = False
        return {"ok": True, "deleted": is_there}

    def _open(self, folders: "list[str] | tuple[str, ...]", *, make: bool = False) -> Folder:
        """Open a folder of the sandbox, one step after the other."""
        folder = self._root.open()
        for name in folders:
            with folder:
                folder = folder.step(name, make=make)
        return folder


def _named(path: tuple[str, ...]) -> tuple[str, ...]:
    if not path:
        raise bad_path("", "it is empty; only list takes the root")
    return path


def _file_path(path: tuple[str, ...], bounds: Mapping[str, Json]) -> tuple[str, ...]:
    _check_extension(_named(path)[-1], bounds)
    return path


def _check_extension(name: str, bounds: Mapping[str, Json]) -> None:
    allowed = bounds.get("allow_extensions")
    if allowed is not None and extension_of(name) not in allowed:
        raise Denied(
            f"{name!r:.80} has none of the extensions {', '.join(allowed) or '(none)'}",
            code="extension_denied",
        )


def _can_be_opened(path: tuple[str, ...], is_folder: bool, bounds: Mapping[str, Json]) -> bool:
    try:
        segments_of("/".join(path))
        if not is_folder:
            _check_extension(path[-1], bounds)
    except RoteError:
        return False
    return True


def _text_of(data: bytes, encoding: str, name: str) -> str:
    if encoding == "base64":
        return b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name!r:.80} is no UTF-8 at byte {error.start:,}; read it as base64", code="not_text"
        ) from None


def _bytes_of(content: str, encoding: str) -> bytes:
    try:
        return content.encode() if encoding == "utf-8" else b64decode(content, validate=True)
    except UnicodeEncodeError:
        raise InvalidInput("content holds a lone surrogate; send text", code="not_text") from None
    except (NotBase64, ValueError):
        raise InvalidInput("content is no base64", code="bad_arguments") from None
