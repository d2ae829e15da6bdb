"""NYC Yellow Taxi, January 2019: 10,000 trips sampled from the month, put in order of pickup.

It holds negative fares, zero distances and one fare of 3,004 dollars, as the source does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from scripts.datasets.entry import Download, Entry, Piece
from scripts.datasets.tables import first, read_csv

FILE: Final = "nyc-taxi/yellow_tripdata_2019-01_sample10000.csv"
# These look like numbers and are names.
CODES: Final = ("VendorID", "RatecodeID", "PULocationID", "DOLocationID", "payment_type")
HEADER: Final = (
    "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,RatecodeID,"
    "store_and_fwd_flag,PULocationID,DOLocationID,payment_type,fare_amount,extra,mta_tax,tip_amount,"
    "tolls_amount,improvement_surcharge,total_amount,congestion_surcharge"
)


def load(data_dir: Path) -> pa.Table:
    """Read all trips in order of pickup."""
    table = read_csv(data_dir, FILE, dict.fromkeys(CODES, pa.string()))
    return table.sort_by("tpep_pickup_datetime")


def batches(folder: Path, rows: int | None, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield the trips in order of pickup."""
    yield from first(load(folder), rows)


def _with_city_header(file: Path) -> bytes:
    """Give the copied sample the city's column names and plain line ends again."""
    trips = file.read_text(encoding="ascii").splitlines()[1:]
    return "".join(f"{line}\n" for line in (HEADER, *trips)).encode()


ENTRY: Final = Entry(
    name="taxi",
    about="NYC yellow taxi trips, January 2019, a sample",
    rows=10_000,
    persons=None,
    licence="NYC TLC public data",
    needs=(FILE,),
    downloads=(
        Download(
            # The city publishes whole months; the sample is one that Great Expectations took.
            url=(
                "https://raw.githubusercontent.com/great-expectations/great_expectations/"
                "3dbf9f8bf7fc6b4e848c054f9333cfdfa3f8f2e1/tests/test_sets/"
                "taxi_yellow_tripdata_samples/yellow_tripdata_sample_2019-01.csv"
            ),
            pieces=(
                Piece(
                    path=FILE,
                    sha256="4148377d753b8b41776c71ffb0a186bf2ba58f234e3fe0b9870165ab1a223418",
                    extract=_with_city_header,
                ),
            ),
        ),
    ),
    read=batches,
)
