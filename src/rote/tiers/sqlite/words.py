"""The beginning and the end of a statement's text, read as SQLite's tokenizer reads them.

Only what stands around a statement is read here: spaces, comments and semicolons. Whoever judges by
it denies what it does not know, so a text that is read otherwise than by SQLite is refused.
"""

_SPACES = " \t\n\f\r\ufeff;"


def first_word(sql: str) -> str:
    """Return the word that a statement begins with, in small letters; nothing if there is no word."""
    start = end = _skip(sql, 0)
    while end < len(sql) and sql[end].isascii() and sql[end].isalpha():
        end += 1
    return sql[start:end].lower()


def is_blank(sql: str) -> bool:
    """Return whether a text holds no statement."""
    return _skip(sql, 0) == len(sql)


def _skip(sql: str, place: int) -> int:
    """Return the place after spaces, comments and semicolons."""
    while place < len(sql):
        if sql[place] in _SPACES:
            place += 1
        elif sql.startswith("--", place):
            place = _after(sql, "\n", place + 2)
        elif sql.startswith("/*", place):
            place = _after(sql, "*/", place + 2)
        else:
            break
    return place


def _after(sql: str, ending: str, place: int) -> int:
    found = sql.find(ending, place)
    return len(sql) if found < 0 else found + len(ending)
