"""Make the virtual environment from the lock, when it is missing or out of date.

make calls it with any `python3` that it finds, which may be too old for Rote. So it uses the
standard library alone, and syntax that Python 3.6 can read.

    python3 tools/environment.py .venv
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
PYTHON_MIN = (3, 11)


def main(name: str) -> int:
    venv = ROOT / name
    if is_current(venv, LOCK) and is_current(venv, PROJECT):
        return 0
    if sys.version_info[:2] < PYTHON_MIN:
        found = ".".join(map(str, sys.version_info[:2]))
        fix = "name another one, as in: make PYTHON=python3.12 test"
        print(f"Rote needs Python 3.11 or newer and this is {found}; {fix}", file=sys.stderr)
        return 1
    # When two makes run at once, the second waits and then finds everything done.
    with open(str(ROOT / (name + ".guard")), "w") as guard:  # noqa: PTH123
        fcntl.flock(guard, fcntl.LOCK_EX)
        built = is_current(venv, LOCK) or build(venv)
        ready = built and (is_current(venv, PROJECT) or install_project(venv))
    return 0 if ready else 1


def is_current(venv: Path, source: Path) -> bool:
    stamp = venv / (source.name + ".stamp")
    return stamp.is_file() and stamp.read_text() == digest_of(venv, source)


def mark_current(venv: Path, source: Path) -> None:
    (venv / (source.name + ".stamp")).write_text(digest_of(venv, source))


def digest_of(venv: Path, source: Path) -> str:
    """Return a digest of the source and the place: scripts name the place, so it must not move."""
    return hashlib.sha256(source.read_bytes() + str(venv).encode()).hexdigest()


def build(venv: Path) -> bool:
    """Replace the environment by a new one with every package of the lock."""
    shutil.rmtree(str(venv), ignore_errors=True)
    version = ".".join(map(str, sys.version_info[:3]))
    report(f"environment: making {venv.name} with Python {version}")
    if subprocess.call([sys.executable, "-m", "venv", str(venv)]) != 0:
        report("this Python cannot make virtual environments; install its venv module")
        return False
    count = sum(1 for line in LOCK.read_text().splitlines() if "==" in line.split("#")[0])
    options = ["--require-hashes", "--only-binary=:all:", "-r", str(LOCK)]
    if not install(venv, options, "installing from the lock", count):
        return False
    mark_current(venv, LOCK)
    return True


def install_project(venv: Path) -> bool:
    options = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    if not install(venv, options, "installing rote", 1):
        return False
    mark_current(venv, PROJECT)
    return True


def install(venv: Path, options: "list[str]", what: str, count: int) -> bool:
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--no-input"]
    return run([*pip, "--disable-pip-version-check", *options], what, count)


def run(command: "list[str]", what: str, count: int) -> bool:
    """Run pip with one line of progress; show its own output only when it fails."""
    lines: "list[str]" = []
    done = 0
    report(f"environment: {what}")
    environ = dict(os.environ, PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        env=environ,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Collecting ") and sys.stdout.isatty():
                done += 1
                package = line.split()[1].split("==")[0]
                print(f"\r\033[K  {done} of {count} {package}", end="", flush=True)
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    if process.returncode != 0:
        sys.stdout.write("".join(lines[-40:]))
        print(f"environment: {what} failed; the last lines of pip are above")
    return process.returncode == 0


def report(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
