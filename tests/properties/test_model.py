"""Stores beside the model: after any calls, no answer differs."""

from dataclasses import replace
from pathlib import Path

from hypothesis import settings

from rote.engines.sqlite import SqliteEngine
from rote.opening.keys import FolderKeys, MemoryKeys
from rote.space import Store
from rote.testing import StoreSettings, open_on
from rote.testing.machine import make_machine
from rote.testing.postgres import Schemas
from tests.lanes import examples

SCHEMAS = Schemas()
STEPS = examples(30, 50)


def open_file(place: Path, settings: StoreSettings) -> Store:
    engine = SqliteEngine(place / "memory.db", durability="os")
    return open_on(engine, settings, keys=FolderKeys(place / "keys"))


def open_memory(place: Path, settings: StoreSettings) -> Store:
    return open_on(SqliteEngine(None), settings, keys=MemoryKeys())


def open_postgres(place: Path, settings: StoreSettings) -> Store:
    return open_on(SCHEMAS.engine(place), settings, keys=FolderKeys(place / "keys"))


def open_presuming(place: Path, settings: StoreSettings) -> Store:
    return open_postgres(place, replace(settings, presumes=True))


TestFile = make_machine({"file": open_file}).TestCase
TestFile.settings = settings(max_examples=examples(40, 300), stateful_step_count=STEPS)

# Two stores at once: they must also agree with each other in every hash.
TestMemoryInLockstep = make_machine(
    {"file": open_file, "memory": open_memory}, shared=False
).TestCase
TestMemoryInLockstep.settings = settings(max_examples=examples(20, 100), stateful_step_count=STEPS)

# Presuming draws bytes in vain now and then, so there is no other store to agree with.
TestPostgresPresuming = make_machine({"postgres": open_presuming}).TestCase
TestPostgresPresuming.settings = settings(max_examples=examples(6, 30), stateful_step_count=STEPS)

# The two engines side by side, each with two handles that take turns.
TestPostgresInLockstep = make_machine({"file": open_file, "postgres": open_postgres}).TestCase
TestPostgresInLockstep.settings = settings(max_examples=examples(6, 30), stateful_step_count=STEPS)
