"""The writers beside watches:
`python -m tests.faults.watch_children <place> <seed> <commits> [<share>]`.

They write random graphs to main and print a line for each commit; 0 commits: for ever. The share is
that of erasures.
"""

import itertools
import sys

from rote.errors import Busy, NotFound
from rote.testing.query_graphs import Graphs
from tests.faults.children import NAME, open_store, say, wait_for_the_others


def main(place: str, seed: str, commits: str, erasures: str = "0") -> None:
    graphs = Graphs(int(seed))
    with open_store(place) as store:
        space = store.space(NAME)
        wait_for_the_others()
        for number in itertools.count(1):
            try:
                if graphs.chance(float(erasures)):
                    space.erase(graphs.random.choice(graphs.ids), reason="asked for")
                else:
                    graphs.commit(space)
            except NotFound:
                continue  # another process has deleted it meanwhile
            except Busy:
                pass  # erased, and somebody still reads an old copy
            if commits == "0":
                say(number)
            elif number >= int(commits):
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
