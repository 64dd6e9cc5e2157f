"""The folder of the public test suites, which stay outside the project.

`ROTE_VECTORS` names the folder, else it is `../shared/vectors` beside the repository. The summary
of a test run reports clearly when it is not there (tests/conftest.py).
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER: Path = Path(os.environ.get("ROTE_VECTORS") or ROOT.parent / "shared" / "vectors")
FOUND: bool = FOLDER.is_dir()
