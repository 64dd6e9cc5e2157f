"""What the writers beside watches do: `python -m tests.faults.watch_children <place> <seed> <commits>`.

Random graphs on main, a line for each commit; 0 commits: for ever.
"""

import itertools
import sys

from rote.errors import NotFound
from rote.testing.query_graphs import Graphs
from tests.faults.children import NAME, open_store, say, wait_for_the_others


def main(place: str, seed: str, commits: str) -> None:
    graphs = Graphs(int(seed))
    with open_store(place) as store:
        space = store.space(NAME)
        wait_for_the_others()
        for number in itertools.count(1):
            try:
                graphs.commit(space)
            except NotFound:
                continue  # another has deleted it meanwhile
            if commits == "0":
                say(number)
            elif number >= int(commits):
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
