"""Pass 5 of verify: the form and the seal of each vector. What an embedder said nobody can compute."""

from rote.engines import Reader
from rote.kernel.proving.inspection import Inspection
from rote.kernel.reading.vectors import is_sound
from rote.values.limits import VERIFY_PAGE_ROWS


def inspect_vectors(inspection: Inspection, reads: Reader) -> None:
    for name in reads.vector_names(inspection.number):
        after = b""
        while rows := reads.vector_rows(
            inspection.number, name, after=after, limit=VERIFY_PAGE_ROWS
        ):
            for row in rows:
                if not is_sound(inspection.space, name, row):
                    inspection.fault("vector", f"{name}: it was changed", id=row.hash.hex())
            after = rows[-1].hash
            inspection.advance()
