"""Files of the traces of a run: `<folder>/<run_id>/trace.json` and `trace.retrieval.json`, or
memory when there is no folder.

A store gives a run id out once. What stands under the same id is of a run in another store, and stays.
"""

from pathlib import Path

from rote.errors import InvalidInput
from rote.runs.drafts import Draft, FileDraft, MemoryDraft, make_folder

TRACE_NAME = "trace.json"
RETRIEVAL_NAME = "trace.retrieval.json"
PARTIAL_NAME = "trace.partial.jsonl"
RECORDING_NAME = "recording.jsonl"
PARTIAL_ENDING = ".partial"  # of a recording that is not complete
FILE_NAMES = (
    TRACE_NAME,
    RETRIEVAL_NAME,
    PARTIAL_NAME,
    RECORDING_NAME,
    RECORDING_NAME + PARTIAL_ENDING,
)


class TraceFiles:
    """Both artifacts of a run, in place together when it ends."""

    trace: Draft
    retrieval: Draft

    def __init__(self, folder: Path | None, run_id: str) -> None:
        self._place = None if folder is None else folder / run_id
        if folder is None or self._place is None:
            self.trace, self.retrieval = MemoryDraft(), MemoryDraft()
            return
        make_folder(folder)
        if (self._place / TRACE_NAME).exists():
            raise InvalidInput(
                f"{self._place} holds the trace of another run; take another run_id, or another"
                " folder (traces= of rote.open)",
                argument="run_id",
                run_id=run_id,
            )
        make_folder(self._place)
        self.trace = FileDraft(self._place / TRACE_NAME, durable=False)
        try:
            self.retrieval = FileDraft(self._place / RETRIEVAL_NAME, durable=False)
        except BaseException:
            self.trace.drop()
            raise

    def place(self) -> None:
        # The trace comes last: whoever finds it finds its retrievals too.
        try:
            self.retrieval.place()
            self.trace.place()
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        self.trace.drop()
        self.retrieval.drop()
        if self._place is not None:
            try:
                self._place.rmdir()
            except OSError:
                pass  # something else is kept there
