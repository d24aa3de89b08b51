"""Fetch a natural clip for the tests: 596 s of 1280x720 at 24 frames a second, H.264.

It is Big Buck Bunny ((c) Blender Foundation, www.bigbuckbunny.org), which the source package of moviepy carries among
the files of its tutorial. It comes through pip, is kept in `.cache/real/` and never becomes part of the repository.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from turnwise.files import replacing

CLIP = Path(".cache/real/bbb.mp4")
PACKAGE = "moviepy==2.2.1"
SHA256 = "c80cb56815ece94e5e3e2d361aa40070eeb30a09d23a24c4e684d03e16deacb1"
TUTORIAL = "moviepy-2.2.1/docs/_static/medias/getting_started/moviepy_10_minutes/moviepy_10_minutes.zip"
DOWNLOAD = ("-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", PACKAGE)


def main() -> None:
    """Put the clip into its place, unless it is there."""
    if CLIP.is_file():
        print(f"{CLIP}: is there")
        return
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run([sys.executable, *DOWNLOAD, "-d", folder], check=False).returncode:
            sys.exit(f"error: {CLIP}: pip could not download the source package {PACKAGE}; is an index within reach?")
        (archive,) = Path(folder).iterdir()
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"error: {archive.name}: sha256 is {found}, not {SHA256}; nothing was unpacked")
        unpack(archive)
    print(f"{CLIP}: {CLIP.stat().st_size / 1e6:.0f} MB")


def unpack(archive: Path) -> None:
    """The clip out of the zip file in the source package, by rename."""
    with tarfile.open(archive) as package:
        inner = package.extractfile(TUTORIAL)
        assert inner is not None
        with zipfile.ZipFile(inner) as tutorial, replacing(CLIP) as scratch:
            (name,) = [name for name in tutorial.namelist() if name.endswith("resources/bbb.mp4")]
            scratch.write_bytes(tutorial.read(name))


if __name__ == "__main__":
    main()
