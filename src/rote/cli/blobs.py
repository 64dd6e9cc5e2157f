"""Commands about blobs: blob put, blob get, blob list, gc."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, BinaryIO

import typer

from rote.cli.input import opened_file
from rote.cli.options import (
    AtOption,
    BranchOptions,
    KeyOption,
    OutputOption,
    SpaceOptions,
    point_of,
    spread_options,
)
from rote.cli.outcome import no
from rote.cli.output import opened_target, plural, print_json, print_line, print_rows
from rote.cli.progress import bar, byte_bar
from rote.contract import BlobInfo
from rote.errors import NotFound
from rote.space import Space
from rote.values.blobs import (
    CONTENT_TYPE_DEFAULT,
    META_PREFIX,
    check_blob_hash,
    check_content_type,
    check_labels,
    described_by,
)
from rote.values.limits import BLOB_CHUNK_BYTES, GC_GRACE_SECONDS

commands = typer.Typer(help="Bytes of any kind, stored once under their hash.")


class _Watched:
    """A stream that tells how much of it was read."""

    def __init__(self, stream: BinaryIO, advance: Callable[[int], None]) -> None:
        self._stream = stream
        self._advance = advance

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._advance(len(data))
        return data


@commands.command("put")
@spread_options
def put_blob(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for stdin.")],
    *,
    type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="The content type, like image/png.")
    ] = CONTENT_TYPE_DEFAULT,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="TEXT", help="May be given again.")
    ] = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="HASH", help="The hash it must have.")
    ] = None,
    key: KeyOption = None,
    options: BranchOptions,
) -> None:
    """Store the bytes of a file and print their hash; makes the store and the space when new."""
    labels = label or []
    check_content_type(type)
    check_labels(labels)
    if expect is not None:
        check_blob_hash(expect)
    # The file is opened first, so that a file that cannot be read makes no store.
    with (
        opened_file(file) as (stream, size),
        options.opened_space(create=True) as space,
    ):
        with byte_bar("storing", size) as advance:
            hash = space.put_blob(
                _Watched(stream, advance), type, labels=labels, expect=expect, key=key
            )
        if options.as_json:
            print_json(space.blob_info(hash).to_dict())
        else:
            print_line(hash)


@commands.command("get")
@spread_options
def get_blob(
    hash: Annotated[str, typer.Argument(metavar="HASH", help="What `rote blob put` printed.")],
    *,
    output: OutputOption = None,
    options: BranchOptions,
) -> None:
    """Write the bytes of a blob to stdout or a file; with --json print what is known of it."""
    check_blob_hash(hash)
    with options.opened_space() as space:
        try:
            info = space.blob_info(hash)
        except NotFound as error:
            raise no(str(error)) from error
        if output is not None or not options.as_json:
            with opened_target(output) as file:
                _copy_bytes(space, hash, info.size, file)
    if options.as_json:
        print_json(info.to_dict())
    elif output is not None:
        print_line(f"{plural(info.size, 'byte')} written to {output}")


def _copy_bytes(space: Space, hash: str, size: int, target: BinaryIO) -> None:
    with space.open_blob(hash) as source, byte_bar("reading", size) as advance:
        while data := source.read(BLOB_CHUNK_BYTES):
            target.write(data)
            advance(len(data))


@commands.command("list")
@spread_options
def list_blobs(*, at: AtOption = None, options: BranchOptions) -> None:
    """List the blobs that --branch describes: hash, size, type and labels."""
    point = point_of(at)
    with options.opened_space() as space:
        found = _described(options.view_at(space, point))
        if options.as_json:
            for info in found:
                print_json(info.to_dict())
        else:
            rows = (
                (info.hash, info.size, info.content_type, ", ".join(info.labels)) for info in found
            )
            print_rows(("hash", "size", "type", "labels"), rows)


def _described(view: Space) -> Iterator[BlobInfo]:
    for state in view.scan(META_PREFIX):
        hash = described_by(state.id)
        if hash is not None:
            with suppress(NotFound):  # a description that somebody wrote without the bytes
                yield view.blob_info(hash)


@spread_options
def gc(
    *,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0, help="How long what is unused is kept."),
    ] = GC_GRACE_SECONDS,
    options: SpaceOptions,
) -> None:
    """Let go of unused blobs, uploads and snapshots, and finish erasures."""
    with options.opened_space() as space, bar() as advance:
        report = space.gc(grace_seconds=grace, progress=advance)
    gone = f"{plural(report.blobs, 'blob')} and {plural(report.uploads, 'unfinished upload')}"
    freed = plural(report.size_bytes, "byte")
    thinned = f", {plural(report.snapshots, 'snapshot')} dropped" if report.snapshots else ""
    finished = f", {plural(report.erasures, 'erasure')} finished" if report.erasures else ""
    shrunk = "; the store's files were written anew" if report.is_shrunk else ""
    kept = f"{plural(report.kept, 'blob')} kept{thinned}{finished}{shrunk}"
    words = f"{gone} collected ({freed}); {kept}"
    options.print_answer(report.to_dict(), lambda: print_line(words))
