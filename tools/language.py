"""Check that docstrings begin with a verb or a noun, and lines of pages hold one sentence.

Docstrings. None begins with a word of OPENINGS. "Whether" begins only the docstring of a function
that returns a bool, or of a field that is one.

Pages. A sentence ends with `.`, `!`, `?` or `…`. The next one begins with a capital letter, a
quotation mark, code or a link, and on a new line. A bold label at the start of a line belongs to its
first sentence. A colon ends a sentence only at the end of a line. An item of a list needs no full
stop. Tables, code, headings and comments are not checked.

python -m tools.language src tests
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OPENINGS = frozenset(
    ["What", "Who", "Whoever", "How", "Where", "Which", "Why", "When", "If", "It", "This", "Those", "Of"]
)  # fmt: skip
BOOLEANS = ("bool", "TypeGuard", "TypeIs")
PAGES = (":(glob)*.md", ":(glob)docs/**/*.md")

_word = re.compile(r"\s*([A-Za-z]+)")

# Marks that may stand between the end of a sentence and the space after it, and before the next.
_CLOSING = r"[\"'”’)\]*_]*"
_OPENING = r"[\"'“‘(\[*_]*"
_end_in_line = re.compile(rf"[.!?…]{_CLOSING} +(?={_OPENING}[A-Z`\"'“‘\[])")
_end_of_line = re.compile(rf"[.!?:…]{_CLOSING}$")
_abbreviation = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs)\.$")

_fence = re.compile(r"\s*(`{3,}|~{3,})")
_mark = re.compile(r"(?:\s*(?:[-*+]|\d+[.)]|>) +)+")
_label = re.compile(r"\*\*[^*]+\*\* +")
_code = re.compile(r"(`+)(.+?)\1")
_target = re.compile(r"\]\([^)]*\)")
_not_text = re.compile(r"\s*(?:\||#|\[[^\]]+\]: )")


def main(folders: list[str]) -> int:
    faults = [
        fault
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for fault in docstring_faults_in(path)
    ]
    faults += [fault for path in pages() for fault in page_faults_in(path)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def pages() -> list[Path]:
    """Return the pages that git knows, in the order of their names."""
    command = ["git", "ls-files", "-z", "--", *PAGES]
    names = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Path(name) for name in sorted(names.split("\0")) if name and Path(name).exists()]


# -- docstrings ---------------------------------------------------------------------------------


def docstring_faults_in(path: Path) -> Iterator[str]:
    """Yield a fault for each docstring that begins with a word it must not begin with."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        yield f"{path}:{error.lineno}: cannot be read as Python: {error.msg}"
        return
    found = [place for node in ast.walk(tree) for place in docstrings_of(node)]
    for line, text, is_boolean in sorted(found):
        match = _word.match(text)
        word = match[1].capitalize() if match else ""
        if word in OPENINGS or (word == "Whether" and not is_boolean):
            yield (
                f"{path}:{line}: a docstring begins with {word!r}: begin with a verb, or with "
                "the noun that is returned"
            )


def docstrings_of(node: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, text, documents a bool) for the docstring of a node and those of its fields."""
    match node:
        case ast.FunctionDef(returns=kind) | ast.AsyncFunctionDef(returns=kind):
            if body := docstring(node.body[0]):
                yield *body, is_boolean(kind)
        case ast.Module() | ast.ClassDef():
            if node.body and (body := docstring(node.body[0])):
                yield *body, False
            for field, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and (body := docstring(after)):
                    yield *body, is_boolean(field.annotation)


def docstring(statement: ast.stmt) -> tuple[int, str] | None:
    """Return line and text of a statement that is a docstring, None for any other."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text), lineno=line):
            return line, text
    return None


def is_boolean(kind: ast.expr | None) -> bool:
    return kind is not None and ast.unparse(kind).split("[")[0] in BOOLEANS


# -- pages --------------------------------------------------------------------------------------


def page_faults_in(path: Path) -> Iterator[str]:
    """Yield a fault for each line with two sentences, and for each sentence on two lines."""
    unfinished = False  # the line before is text that does not end a sentence
    for number, line in lines_of_text(path.read_text(encoding="utf-8")):
        text = plain(line)
        if unfinished and text and not _mark.match(line):
            yield f"{path}:{number}: goes on with the sentence of the line before: join the two"
        for end in _end_in_line.finditer(text):
            if not _abbreviation.search(text[: end.start() + 1]):
                rest = text[end.end() :][:40]
                yield f"{path}:{number}: holds more than one sentence: break it before {rest!r}"
                break
        unfinished = bool(text) and not _end_of_line.search(text)


def lines_of_text(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page with their numbers; lines that are no text come empty."""
    fence, in_comment, is_blank = "", False, True
    for number, line in enumerate(page.splitlines(), start=1):
        was_blank, is_blank = is_blank, not line.strip()
        if fence:
            if line.strip() == fence:
                fence = ""
        elif in_comment or line.lstrip().startswith("<!--"):
            in_comment = "-->" not in line
        elif match := _fence.match(line):
            fence = match[1]
        elif not (_not_text.match(line) or (was_blank and line.startswith("    "))):
            yield number, line
            continue
        yield number, ""


def plain(line: str) -> str:
    """Return the sentences of a line: no mark of a list, no bold label, no code, no address."""
    text = _mark.sub("", line.rstrip(), count=1) if _mark.match(line) else line.strip()
    text = _code.sub(lambda code: "`" + "x" * len(code[2]) + "`", text)
    text = _target.sub("]", text)
    return _label.sub("", text, count=1) if _label.match(text) else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
