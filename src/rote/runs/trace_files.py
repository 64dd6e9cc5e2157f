"""Files of the traces of a run, in `<folder>/<run_id>/`, or memory when there is no folder:

    trace.partial.jsonl                       while the run goes on; a kill leaves it
    trace.json and trace.retrieval.json       when the run has ended
    recording.jsonl                           with record=True

A store gives a run id out once. What stands under the same id is of a run in another store, and stays.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rote.errors import InvalidInput
from rote.recordings.drafts import (
    Draft,
    FileDraft,
    MemoryDraft,
    make_folder,
    remove_if_empty,
    remove_if_unbegun,
)
from rote.recordings.recordings import PARTIAL_ENDING
from rote.traces.writing import Sink

TRACE_NAME = "trace.json"
RETRIEVAL_NAME = "trace.retrieval.json"
PARTIAL_NAME = "trace.partial.jsonl"
RECORDING_NAME = "recording.jsonl"
FILE_NAMES = (
    TRACE_NAME,
    RETRIEVAL_NAME,
    PARTIAL_NAME,
    RECORDING_NAME,
    RECORDING_NAME + PARTIAL_ENDING,
)


class TraceFiles:
    """The partial trace of a run, then both artifacts, in place together when it ends."""

    partial: Draft
    trace: Draft  # once they are composed
    retrieval: Draft

    def __init__(self, folder: Path | None, run_id: str) -> None:
        self._place = None if folder is None else folder / run_id
        if folder is None or self._place is None:
            self.partial = MemoryDraft()
            return
        make_folder(folder)
        remove_if_unbegun(self._place / PARTIAL_NAME)
        names = (TRACE_NAME, RETRIEVAL_NAME, PARTIAL_NAME)
        if any((self._place / name).exists() for name in names):
            raise InvalidInput(
                f"{self._place} holds the trace of another run, so this run_id was used before; take"
                " another, or another folder (traces= of rote.open)",
                argument="run_id",
                run_id=run_id,
            )
        make_folder(self._place)
        path = self._place / PARTIAL_NAME
        self.partial = FileDraft(path, durable=False, partial=path)

    def compose(
        self,
        write: Callable[[Sink, Sink], None],
        *,
        place_last: Callable[[], None] | None = None,
    ) -> None:
        """Let both artifacts be written, put them in place, then what they name, and delete the partial
        file. After a failure only the partial file is there."""
        self.partial.check()
        with ExitStack() as undo:
            retrieval = self._draft(RETRIEVAL_NAME, undo)
            trace = self._draft(TRACE_NAME, undo)
            write(trace, retrieval)
            # The trace comes last: whoever finds it finds its retrievals too.
            for draft in (retrieval, trace):
                draft.place()
                undo.callback(draft.withdraw)
            if place_last is not None:
                place_last()
            undo.pop_all()
        self.trace, self.retrieval = trace, retrieval
        self.partial.drop()

    def _draft(self, name: str, undo: ExitStack) -> Draft:
        if self._place is None:
            return MemoryDraft()
        draft = FileDraft(self._place / name, durable=False)
        undo.callback(draft.drop)
        return draft

    def close(self) -> None:
        """Leave the partial file to who wants to look at it."""
        self.partial.close()

    def drop(self) -> None:
        """Delete everything: the run has not begun."""
        self.partial.drop()
        if self._place is not None:
            remove_if_empty(self._place)
