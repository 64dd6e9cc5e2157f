"""The process of the cache's kills: `python -m tests.faults.cache_children <file> <first number>`.

It sets values of one key after the other and prints a line for each call that returned.
"""

import itertools
import sys

import rote
from rote.tiers import cache_file

KEYS = 7
# The file is written anew every few lines, so that kills fall into that too.
setattr(cache_file, "CACHE_FILE_BYTES_SPARE", 3_000)  # noqa: B010


def value_of(number: int) -> dict[str, object]:
    return {"number": number, "pad": "x" * (number * 37 % 900)}


def main(path: str, first: str) -> None:
    host = rote.Host("compute-and-store", cache={"path": path})
    for number in itertools.count(int(first)):
        if number % 11 == 0:
            host.cache.delete("n", str(number % KEYS))
        else:
            host.cache.set("n", str(number % KEYS), value_of(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
