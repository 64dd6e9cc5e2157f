"""The processes of tests of PostgreSQL that ask the server: `python -m tests.faults.postgres_children
<what> <place>`."""

import os
import sys

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.faults.children import LEFT, NAME, open_store, say, wait_for_the_others


def fork_and_end(place: str) -> None:
    """Fork a child that never touches the store of its parent, and ends as programs do."""
    wait_for_the_others()
    url = place.split(" ", maxsplit=1)[0]
    with open_store(place) as store:
        space = store.space(NAME)
        space.set(LEFT, "before")
        before = _backends(url)
        assert before
        child = os.fork()
        if child == 0:
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        space.set(LEFT, "after")
        assert _backends(url) == before, "the parent had to connect anew"
    say("worked on")


def _backends(url: str) -> list[int]:
    """Return the server's processes for the clients of this URL."""
    name = conninfo_to_dict(url)["application_name"]
    with psycopg.connect(make_conninfo(url, application_name="looking on")) as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where application_name = %s order by pid", (name,)
        )
        return [pid for (pid,) in rows]


if __name__ == "__main__":
    {fork_and_end.__name__: fork_and_end}[sys.argv[1]](*sys.argv[2:])
