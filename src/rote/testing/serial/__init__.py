"""Recording and checking whether concurrent transactions behaved as if they had run one after the other."""

from rote.testing.serial.checker import Anomaly, check
from rote.testing.serial.recorder import Recorder, Recording
from rote.testing.serial.records import Read, Record, Scan, Write, decode_record, encode_record

__all__ = [
    "Anomaly",
    "Read",
    "Record",
    "Recorder",
    "Recording",
    "Scan",
    "Write",
    "check",
    "decode_record",
    "encode_record",
]
