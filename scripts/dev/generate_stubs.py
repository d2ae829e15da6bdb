"""Generate relay_server/pb from proto/: `python -m scripts.dev.generate_stubs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "proto"


def generate(target: Path) -> None:
    """Write the stubs of every .proto under `target`, at its import path."""
    files = sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.proto"))
    options = [f"--proto_path={SOURCE}", f"--python_out={target}", f"--pyi_out={target}"]
    if protoc.main(["protoc", *options, *files]):
        sys.exit("the stubs could not be generated")


if __name__ == "__main__":
    generate(ROOT)
