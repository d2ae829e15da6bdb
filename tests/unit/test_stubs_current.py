"""The checked-in stubs are those of the .proto."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc_tools", reason="the stubs are generated with grpcio-tools (dev extra)")

from scripts.dev.generate_stubs import ROOT, generate

STUBS = ("relay_server/pb/exchange_pb2.py", "relay_server/pb/exchange_pb2.pyi")


def test_the_stubs_are_what_the_command_generates(tmp_path: Path) -> None:
    generate(tmp_path)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert made == sorted(STUBS)
    for name in STUBS:
        same = (tmp_path / name).read_text() == (ROOT / name).read_text()
        assert same, f"{name} is stale: python -m scripts.dev.generate_stubs"
