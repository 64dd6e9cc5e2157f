"""The shell examples of docs/serve.md run against a server, as somebody would type them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
# So that an answer of 400 and above fails.
CURL = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\nset -e\n'


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ROTE_STORE": str(tmp_path / "memory.db"),
    }  # fmt: skip
    serve = [sys.executable, "-m", "rote", "serve", "--port", "0", "--json", "--access-log", "none"]
    with subprocess.Popen(
        serve, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as server:
        try:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())
            environment |= {"TOKEN": told["token"], "ROTE": told["url"]}
            for block in blocks(PAGE.read_text("utf-8")):
                if block.tag == "sh" and "export TOKEN" not in block.text:
                    done = subprocess.run(
                        ["sh", "-c", CURL + block.text], cwd=tmp_path, env=environment,
                        capture_output=True, text=True, timeout=60, check=False,
                    )  # fmt: skip
                    assert done.returncode == 0, f"line {block.line}: {done.stdout}{done.stderr}"
        finally:
            server.terminate()
    assert server.returncode == 0
