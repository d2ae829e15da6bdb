"""What the sites have said they have: the clusters they share, and whom to ask about a box."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

# Clusters of one site: it has beta of them open, and beta is at most this (core.config).
CLUSTERS_MAX: Final = 4_096
# Sites that one settlement asks. Beyond so many, summaries tell who is worth asking.
ASKED_MAX: Final = 24
# A cluster is not near when the gaps between it and the box add up to a whole attribute.
FAR: Final = 255


class Directory:
    """The shared clusters of every site: id -> size and box."""

    def __init__(self, box_bytes: int) -> None:
        self._box_bytes = box_bytes
        self._rows: dict[int, dict[int, int]] = {}  # site -> cluster -> row
        self._free: list[int] = []
        self._size = np.zeros(0, np.int64)
        self._site = np.zeros(0, np.int64)
        self._box: NDArray[np.uint8] = np.zeros((0, box_bytes // 2, 2), np.uint8)

    def join(self, site: int) -> None:
        """A site has no clusters to begin with."""
        self._rows[site] = {}

    def lose(self, site: int) -> None:
        """Forget a site and its clusters."""
        for row in self._rows.pop(site, {}).values():
            self._clear(row)

    def share(self, site: int, cluster: int, size: int, box: bytes) -> None:
        """A cluster is new, or its size or box has changed."""
        rows = self._rows[site]
        row = rows.get(cluster)
        if row is None:
            if len(rows) >= CLUSTERS_MAX:
                self.remove(site, next(iter(rows)))
            row = rows[cluster] = self._new_row()
        self._size[row], self._site[row] = size, site
        self._box[row] = np.frombuffer(box, np.uint8).reshape(-1, 2)

    def knows(self, site: int, clusters: Iterable[int]) -> bool:
        """Whether the site shares all of these."""
        return all(cluster in self._rows[site] for cluster in clusters)

    def remove(self, site: int, cluster: int) -> bool:
        """A cluster is no more; whether it was known."""
        row = self._rows[site].pop(cluster, None)
        if row is not None:
            self._clear(row)
        return row is not None

    def whom_to_ask(self, proposer: int, box: bytes, most: int = ASKED_MAX) -> list[int]:
        """The other sites that may have persons around the box, so many at most.

        A site that shares clusters, but none near, is left out. When there are too many, those
        with most persons around the box are asked.
        """
        near = np.frombuffer(box, np.uint8).reshape(-1, 2)
        gap = np.maximum(
            near[:, 0].astype(np.int32) - self._box[:, :, 1],
            self._box[:, :, 0].astype(np.int32) - near[:, 1],
        )
        away = np.maximum(gap, 0).sum(axis=1)
        sites = max(self._rows, default=0) + 1
        shared = np.bincount(self._site, self._size, sites)
        close = np.bincount(self._site, np.where(away <= FAR, self._size, 0), sites)
        others = [
            site for site in self._rows if site != proposer and (close[site] or not shared[site])
        ]
        if len(others) <= most:
            return others
        # A cluster counts in full where it meets the box, and less the further away it is.
        weight = np.bincount(self._site, self._size / (1 + away) ** 2, sites)
        by_weight = sorted(others, key=lambda site: (-weight[site], site))
        return sorted(by_weight[:most])

    def _new_row(self) -> int:
        if not self._free:
            rows = len(self._size)
            more = max(64, rows)
            self._size = np.concatenate([self._size, np.zeros(more, np.int64)])
            self._site = np.concatenate([self._site, np.zeros(more, np.int64)])
            room = np.zeros((more, self._box_bytes // 2, 2), np.uint8)
            self._box = np.concatenate([self._box, room])
            self._free = list(range(rows + more - 1, rows - 1, -1))
        return self._free.pop()

    def _clear(self, row: int) -> None:
        self._size[row] = 0
        self._free.append(row)
