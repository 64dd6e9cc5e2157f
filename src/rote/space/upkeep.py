"""The calls of a space that look after it: verify, checkpoint, erase, compact, gc, reindex."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rote.contract import (
    Compaction,
    Erasure,
    GcReport,
    OpenStore,
    Tell,
    VerifyReport,
    all_written,
)
from rote.contract.commands import (
    CollectGarbage,
    Compact,
    Erase,
    GetHead,
    GetVectors,
    MakeCheckpoint,
    PutVectors,
    Reindex,
    Verify,
)
from rote.contract.vectors import dimension_of, join_rows, split_rows
from rote.space.arguments import check_flags, check_progress, erased_by_call
from rote.space.driving import Progress, counting
from rote.space.rights import Rights
from rote.values import Json
from rote.values.limits import GC_GRACE_SECONDS


class Upkeep(Rights):
    """The part of a Space that looks after it; with the part that says who may do what."""

    @property
    def open_store(self) -> OpenStore:
        """Its store in this process, for layers that keep content in memory."""
        return self._port.open_store

    def verify(
        self, *, against: dict[str, Any] | None = None, progress: Progress | None = None
    ) -> VerifyReport:
        """Recompute the whole chain; with `against`, prove that it extends a checkpoint."""
        check_progress(progress)
        return self._port.begin(self._did, Verify(against)).result(counting(progress))

    def reindex(self, *, progress: Progress | None = None) -> None:
        """Build the indexes of this space anew from its log."""
        self._check_writable("reindex")
        check_progress(progress)
        self._port.begin(self._did, Reindex()).result(counting(progress))

    @property
    def newest_version(self) -> int:
        """The newest version of the space, also on a pinned view."""
        return self._port.answer(self._did, GetHead()).version

    def get_vectors(self, name: str, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of texts by their hashes, up to a number at once."""
        rows = self._port.answer(self._did, GetVectors(name, b"".join(hashes)))
        return dict(split_rows(rows, dimension_of(name)))

    def put_vectors(self, name: str, vectors: Mapping[bytes, bytes], *, since: int) -> None:
        """Store the vectors of texts that have none, unless something was erased above a version."""
        self._port.answer(self._did, PutVectors(name, join_rows(vectors), since))

    def checkpoint(self) -> dict[str, Any]:
        """Return a signed statement of the head, to be kept elsewhere."""
        self._check_writable("checkpoint")
        return self._port.answer(self._did, MakeCheckpoint())

    def erase(
        self,
        ids: str | Sequence[str] | Mapping[str, Json],
        *,
        reason: str,
        key: str | None = None,
    ) -> Erasure:
        """Remove the values of entities for good, on all branches and at all versions.

        `ids` is an id, a list of ids, or {"prefix": text}; one commit erases all of them. Hashes
        stay, so the chain still verifies; ids, reason, keys, authors and meta stay in clear. Busy
        when old copies stay because others use the store's files: call again to remove them.
        """
        self._check_writable("erase")
        return self._port.answer(self._did, Erase(reason, **erased_by_call(ids), key=key))

    def written(self, prefix: str, *, where: Mapping[str, Json] | None = None) -> Iterator[str]:
        """Yield the ids that start with a prefix and have values at some version on some branch."""
        return all_written(self._port, self._did, prefix, where)

    def compact(
        self,
        *,
        before: int | None = None,
        keep: int | None = None,
        dry_run: bool = False,
        key: str | None = None,
        progress: Tell | None = None,
    ) -> Compaction:
        """Drop history and make the store smaller: all below a version, or all but the last `keep`
        commits (compactions themselves are not counted).

        From `before` on everything reads as it did; below it nothing can be read any more. When
        there is nothing to drop, no commit is made. A dry run counts what would be dropped.
        """
        self._check_writable("compact")
        check_flags(dry_run=dry_run)
        check_progress(progress)
        return self._port.begin(self._did, Compact(before, keep, dry_run, key)).result(progress)

    def gc(
        self,
        *,
        grace_seconds: float = GC_GRACE_SECONDS,
        progress: Tell | None = None,
    ) -> GcReport:
        """Drop blobs that nothing has referred to for the grace period, and abandoned uploads.

        Finish erasures that could not be finished while others used the store's files.
        """
        self._check_writable("gc")
        check_progress(progress)
        return self._port.begin(self._did, CollectGarbage(grace_seconds)).result(progress)
