"""Check that files have at most 600 lines and functions at most 70: longer ones do two things.

python -m tools.size_caps src tests
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


def main(folders: list[str]) -> int:
    faults = [
        fault
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for fault in faults_in(path)
    ]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def faults_in(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{path}:1: {lines} lines, at most {FILE_LINES_MAX}: move one noun to its own file"
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: cannot be read as Python: {error.msg}"
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield (
                f"{path}:{node.lineno}: {node.name} has {lines} lines, at most "
                f"{FUNCTION_LINES_MAX}: give a part of it a name of its own"
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
