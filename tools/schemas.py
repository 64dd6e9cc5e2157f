"""`make schemas`: write docs/schemas/ again, one file for each format of traces.

python -m tools.schemas
"""

from pathlib import Path

import orjson

from rote.traces.json_schemas import json_schemas

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"


def files() -> dict[str, bytes]:
    """Return the files of the folder by name."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return {
        f"{name}.json": orjson.dumps(schema, option=options)
        for name, schema in json_schemas().items()
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, data in files().items():
        (FOLDER / name).write_bytes(data)
        print(f"docs/schemas/{name}")


if __name__ == "__main__":
    main()
