"""The wheel holds the data that the package reads."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_has_every_file_of_the_package() -> None:
    held = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    source = ROOT / "src"
    data = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert len(data) >= 3
    assert data <= held
