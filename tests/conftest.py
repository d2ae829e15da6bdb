"""What all tests share: compiled kernels, the real data, the command as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts._kernels import prepare

# Before any test imports core: numba looks for its cache when a kernel is defined.
prepare()

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind: its exit code and what it said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Cli:
    """`dcastle`, run in `folder`."""

    folder: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> Ended:
        """Run a command to its end."""
        process = self.start(*arguments)
        stdout, stderr = process.communicate(None if stdin is None else stdin.encode(), timeout=300)
        return Ended(process.returncode, stdout.decode(), stderr.decode())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that is connected to us by pipes."""
        return subprocess.Popen(
            [sys.executable, "-m", "scripts.cli", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # What a shell starts in the background ignores interrupts: its children would, too.
            preexec_fn=_heed_interrupt,
        )


def _heed_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Where the real data are; tests that need them are skipped, visibly, where they are not."""
    folder = Path(os.environ.get("DCASTLE_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set DCASTLE_DATA)")
    return folder
