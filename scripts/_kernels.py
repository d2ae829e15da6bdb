"""Compiled kernels: where they are cached, and the one time that they are compiled.

Numba's own cache does not notice when a function that is called from another file changes. Ours is
therefore a folder per version of all kernels, of numba, Python and the processor.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from core.schema import Schema

_SOURCES: Final = Path(__file__).resolve().parent.parent / "core" / "kernels"
_DONE: Final = "compiled"


def prepare() -> None:
    """Make the compiled kernels ready; say so when that means compiling. Call before using core."""
    folder = _folder()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if (folder / _DONE).exists():
        return
    with _announced(folder):
        _compile()
        (folder / _DONE).touch()


def _folder() -> Path:
    """The cache folder of exactly these kernels, in the first place that we may write to."""
    for root in _roots():
        folder = root / f"kernels-{_fingerprint()}"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        # What is loaded from here is executed: it must be ours.
        if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="dcastle-kernels-"))


def _roots() -> Iterator[Path]:
    if own := os.environ.get("DCASTLE_CACHE_DIR"):
        yield Path(own)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        yield Path(xdg) / "dcastle"
    if home := os.environ.get("HOME"):
        yield Path(home) / ".cache" / "dcastle"
    yield Path(tempfile.gettempdir()) / f"dcastle-{os.getuid()}"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for part in (version("numba"), version("numpy"), sys.version, platform.machine(), _processor()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _processor() -> str:
    """Code is compiled for one model of processor; a shared home may be used from several."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("model name", "CPU part"))), "")


@contextmanager
def _announced(folder: Path) -> Iterator[None]:
    console = Console(stderr=True)
    text = f"compiling the kernels, once, about a minute (kept in {folder})"
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        print(f"dcastle: {text}", file=sys.stderr, flush=True)
        yield


def _compile() -> None:
    """Run every kernel once on next to nothing."""
    import numpy as np
    import pyarrow as pa

    from core.config import Parameters
    from core.encode import Encoder
    from core.events import Records, RecordsArrived, StreamEnded
    from core.hierarchy import flat
    from core.machine import Machine
    from core.schema import Attribute, Kind, Role, Schema
    from core.tokens import KEY_BYTES, TokenKey, decode_set, encode_set

    role = Role.QUASI_IDENTIFIER
    schema = Schema(
        attributes=(
            Attribute(name="n", role=role, kind=Kind.NUMERIC, domain=(0.0, 1.0)),
            Attribute(name="c", role=role, kind=Kind.CATEGORICAL, hierarchy=flat(["a", "b"])),
        ),
        person="p",
    )
    column = pa.array(["a", "b"])
    columns = {"n": pa.array([0.0, 1.0]), "c": column, "p": column}
    records: Records = Encoder(schema).encode(columns, 2).records
    machine = Machine(schema, Parameters(k=2, l=2, delay_tuples=2), seed=0)
    machine.step(RecordsArrived(records, int(np.int64(0))))
    machine.step(StreamEnded())
    tokens = TokenKey(bytes(KEY_BYTES)).persons(0, np.zeros(1, np.int64), 8)
    decode_set(encode_set(tokens, 8), 8, 1)
    _compile_joint(schema)


def _compile_joint(schema: Schema) -> None:
    """The same for what a site does in an exchange."""
    import numpy as np

    from core.boxes import Box
    from core.config import Parameters
    from core.events import Records
    from core.joint import JointMachine

    machine = JointMachine(schema, Parameters(k=2, l=2, delay_tuples=4), seed=0)
    machine.join(1)
    machine.lead = 1
    records = Records(
        code=np.zeros((6, 2), np.int32),
        raw=np.zeros((6, 1)),
        person=np.arange(6),
        value=np.arange(6),
        general=np.zeros(6, np.bool_),
    )
    machine.offer(records, 0)
    position = machine.undecided()[0]
    box, _ = machine.box_around(position, 2, 2)
    machine.loss(box)
    held, _ = machine.hold_around(box, position, least=0, persons=1, reach=1.0)
    slots, _, reach = machine.reach(held.slots, box)
    machine.let_go(machine.hold_nearest(box, least=0, radius=1, persons=1).slots)
    machine.publish(machine.joint_class(1, Box(box.low, box.high), reach), slots)
    machine.decide(machine.undecided()[0])
    machine.empty_line()
