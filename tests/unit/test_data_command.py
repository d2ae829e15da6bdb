"""`dcastle data`: what the user sees, and what reaches the disk when an origin misbehaves."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from core.errors import DataError
from scripts.cli import run
from scripts.datasets import adult, backblaze, diabetes130, places, registry, taxi
from scripts.datasets.entry import Download, Entry, Piece

CONTENT = b"pregnancies,outcome\n1,0\n"
RIGHT = hashlib.sha256(CONTENT).hexdigest()
WRONG = hashlib.sha256(b"").hexdigest()
FILE = "pima/pima-indians-diabetes.csv"


class Origin:
    """A web server on this machine; `pages` is what it has, `asked` what it was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        origin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                origin.asked.append(self.path)
                page = origin.pages.get(self.path)
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Length", str(len(page or b"")))
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def origin() -> Iterator[Origin]:
    server = Origin()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def offer(monkeypatch: pytest.MonkeyPatch, url: str, *pieces: Piece) -> None:
    """Let the set `pima`, which has no origin, come from this one."""
    download = Download(url=url, pieces=pieces)
    entry = replace(registry.ENTRIES["pima"], no_download="", downloads=(download,))
    monkeypatch.setitem(registry.ENTRIES, "pima", entry)


def test_fetch_brings_the_file_and_prints_where_it_is(
    origin: Origin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.pages["/pima.csv"] = CONTENT
    offer(monkeypatch, f"{origin.address}/pima.csv", Piece(path=FILE, sha256=RIGHT))
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 0
    assert (tmp_path / FILE).read_bytes() == CONTENT
    assert capsys.readouterr().out == f"{tmp_path / FILE}\n"
    assert run(["data", "path", "pima", "--data-dir", str(tmp_path)]) == 0


def test_fetch_does_not_ask_again_for_what_is_there_and_right(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/pima.csv"] = CONTENT
    offer(monkeypatch, f"{origin.address}/pima.csv", Piece(path=FILE, sha256=RIGHT))
    for _ in range(2):
        assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 0
    assert origin.asked == ["/pima.csv"]
    (tmp_path / FILE).unlink()
    (tmp_path / f"{FILE}.gz").write_bytes(gzip.compress(CONTENT))
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 0
    assert origin.asked == ["/pima.csv"]


@pytest.mark.parametrize("damaged", [b"", b"\x1f\x8b damaged"])
def test_fetch_replaces_what_is_there_and_wrong(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes
) -> None:
    origin.pages["/pima.csv"] = CONTENT
    offer(monkeypatch, f"{origin.address}/pima.csv", Piece(path=FILE, sha256=RIGHT))
    (tmp_path / "pima").mkdir()
    (tmp_path / f"{FILE}.gz").write_bytes(damaged)
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 0
    assert places.locate(tmp_path, f"{FILE}.gz") == tmp_path / FILE


def test_a_wrong_checksum_keeps_nothing_and_names_both(
    origin: Origin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.pages["/pima.csv"] = CONTENT
    offer(monkeypatch, f"{origin.address}/pima.csv", Piece(path=FILE, sha256=WRONG))
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    line = only_line(capsys)
    assert RIGHT in line
    assert WRONG in line


def test_one_wrong_piece_keeps_none_of_its_download(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.pages["/pima.csv"] = CONTENT
    pieces = (Piece(path=FILE, sha256=RIGHT), Piece(path="pima/other.csv", sha256=WRONG))
    offer(monkeypatch, f"{origin.address}/pima.csv", *pieces)
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_origin_without_the_file_is_a_connection_fault(
    origin: Origin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    offer(monkeypatch, f"{origin.address}/gone", Piece(path=FILE, sha256=RIGHT))
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 2
    assert "the origin answers 404" in only_line(capsys)


def test_an_origin_out_of_reach_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/pima.csv"
        offer(monkeypatch, address, Piece(path=FILE, sha256=RIGHT))
        assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 2
    line = only_line(capsys)
    assert line.startswith(f"dcastle: {address}: cannot be reached")
    assert "refused" in line


def test_an_archive_that_is_none_is_one_line(
    origin: Origin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    origin.pages["/data.zip"] = b"<html>we moved</html>"
    pieces = diabetes130.ENTRY.downloads[0].pieces
    offer(monkeypatch, f"{origin.address}/data.zip", *pieces)
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 1
    assert "File is not a zip file" in only_line(capsys)


def test_fetch_refuses_what_has_no_clear_rights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "fetch", "pima", "--data-dir", str(tmp_path)]) == 1
    assert "UCI withdrew it" in only_line(capsys)


def test_there_is_nothing_to_fetch_for_a_generated_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["data", "fetch", "stores"]) == 0
    assert "generated" in capsys.readouterr().err


def test_downloads_go_where_the_user_has_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DCASTLE_DATA", raising=False)
    assert places.home(None) == tmp_path / "dcastle" / "data"
    monkeypatch.setenv("DCASTLE_DATA", "/data")
    assert places.home(None) == Path("/data")
    assert places.home(tmp_path) == tmp_path


@pytest.mark.parametrize(
    "entry", [entry for entry in registry.ENTRIES.values() if entry.downloads], ids=lambda e: e.name
)
def test_what_is_fetched_is_what_is_needed(entry: Entry) -> None:
    made = {piece.path for download in entry.downloads for piece in download.pieces}
    assert {path.removesuffix(".gz") for path in entry.needs} <= made


# The origins themselves are out of reach of a test. What they hold is known, so these make it
# again from the data folder and demand the checksums of the real files.


def local(name: str, path: str) -> bytes:
    folder = places.find(registry.ENTRIES[name], None)
    file = folder and places.locate(folder, path)
    if file is None:
        pytest.skip(f"data set '{name}' is not here: no {path}")
    content = file.read_bytes()
    return gzip.decompress(content) if file.suffix == ".gz" else content


def check_extracts(download: Download, content: bytes, tmp_path: Path) -> None:
    got = tmp_path / "download"
    got.write_bytes(content)
    for piece in download.pieces:
        assert hashlib.sha256(piece.extract(got)).hexdigest() == piece.sha256


def test_adult_hierarchies_are_made_from_the_taxonomy_tree(tmp_path: Path) -> None:
    download = adult.ENTRY.downloads[-1]
    trees = {}
    for piece in download.pieces:
        attribute = piece.path.rpartition("_")[2].removesuffix(".csv").replace("-", "_")
        trees[attribute] = as_tree(local("adult", piece.path).decode())
    check_extracts(download, json.dumps(trees).encode(), tmp_path)


def as_tree(lines: str) -> dict[str, object]:
    root: dict[str, object] = {}
    for line in lines.splitlines():
        level = root
        for label in reversed(line.split(";")):
            level = level.setdefault(label, {})  # type: ignore[assignment]

    def node(label: str, below: dict[str, object]) -> dict[str, object]:
        return {"parent": label, "leaves": [node(k, v) for k, v in below.items()]}  # type: ignore[arg-type]

    ((label, below),) = root.items()
    return node(label, below)  # type: ignore[arg-type]


def test_diabetes130_is_taken_out_of_the_archive_of_uci(tmp_path: Path) -> None:
    content = local("diabetes130", diabetes130.FILE)
    archive = zipped({"IDS_mapping.csv": b"", "dataset/diabetic_data.csv": content})
    check_extracts(diabetes130.ENTRY.downloads[0], archive, tmp_path)


def test_taxi_gets_the_column_names_of_the_city_back(tmp_path: Path) -> None:
    _, _, trips = local("taxi", taxi.FILE).partition(b"\n")
    content = b"vendor_id,other\r\n" + trips.replace(b"\n", b"\r\n")
    check_extracts(taxi.ENTRY.downloads[0], content, tmp_path)


def test_backblaze_is_seven_days_and_six_columns_of_the_year(tmp_path: Path) -> None:
    header, *rows = local("backblaze", f"{backblaze.NAME}.gz").decode().splitlines()
    days: dict[str, list[str]] = {}
    for row in rows:
        days.setdefault(row[:10], [f"{header},smart_10_raw"]).append(f"{row},")
    pages = {f"2013/{day}.csv": "\n".join(lines).encode() for day, lines in days.items()}
    pages["2013/2013-04-17.csv"] = b"date\n"
    check_extracts(backblaze.ENTRY.downloads[0], zipped(pages), tmp_path)


def test_an_archive_without_the_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no 2013-04-10\.csv"):
        check_extracts(backblaze.ENTRY.downloads[0], zipped({"2013/x.csv": b""}), tmp_path)


def zipped(pages: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, page in pages.items():
            archive.writestr(name, page)
    return target.getvalue()


def test_list_shows_every_set_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "places", lambda data_dir: [tmp_path])
    (tmp_path / "pima").mkdir()
    (tmp_path / FILE).write_bytes(CONTENT)
    assert run(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *registry.names()]
    assert "built in" in lines[1]
    assert "30,162" in lines[2]
    assert "not here" in lines[2]
    assert str(tmp_path) in lines[-1]


def test_list_as_json_says_the_same_to_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == registry.names()
    assert rows[2] | {"found": None} == {
        "name": "diabetes130",
        "about": "hospital stays of diabetics, 130 US hospitals",
        "rows": 101_766,
        "persons": 71_518,
        "person_column": "patient_nbr",
        "generated": False,
        "found": None,
        "licence": "CC BY 4.0",
    }


def test_a_generated_set_has_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "path", "stores"]) == 1
    assert "dcastle data write stores" in only_line(capsys)


def test_an_unknown_name_is_a_bad_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "path", "nope"]) == 4
    assert "'nope' is not one of 'stores'" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"])
def test_write_makes_the_same_rows_in_every_format(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"visits.{ending}"
    assert run(["data", "write", "stores", "-o", str(file), "--rows", "50", "--seed", "3"]) == 0
    expected = pa.Table.from_batches(registry.resolve("stores").batches(50, 3)).to_pylist()
    assert read(file) == expected
    assert list(tmp_path.iterdir()) == [file]


def read(file: Path) -> list[dict[str, object]]:
    if file.suffix == ".parquet":
        return pyarrow.parquet.read_table(file).to_pylist()  # type: ignore[no-any-return]
    if ".csv" in file.name:
        return pyarrow.csv.read_csv(file).to_pylist()  # type: ignore[no-any-return]
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


def test_write_to_stdout_is_csv(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["data", "write", "stores", "-o", "-", "--rows", "2"]) == 0
    out = capfdbinary.readouterr().out
    assert out.startswith(b'"store","customer","age"')
    assert out.count(b"\n") == 3


def test_write_puts_the_ready_schema_beside_the_data(tmp_path: Path) -> None:
    data, schema = tmp_path / "visits.csv", tmp_path / "dcastle.toml"
    arguments = ["data", "write", "stores", "-o", str(data), "--rows", "5", "--schema", str(schema)]
    assert run(arguments) == 0
    assert schema.read_text() == registry.resolve("stores").schema_text()


@pytest.mark.parametrize("name", ["visits.txt", "visits", "visits.parquet.gz"])
def test_an_ending_that_says_no_format_is_a_bad_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(["data", "write", "stores", "-o", str(tmp_path / name)]) == 4
    assert "cannot tell the format" in only_line(capsys)


def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"age": [1]})
        raise DataError("row 2 is unreadable")

    monkeypatch.setitem(
        registry.ENTRIES, "stores", replace(registry.ENTRIES["stores"], read=breaks)
    )
    assert run(["data", "write", "stores", "-o", str(tmp_path / "visits.csv")]) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["", "list", "path", "fetch", "write"])
def test_help_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", *verb.split(), "--help"]) == 0
    assert f"  dcastle data {verb}" in capsys.readouterr().out


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line
