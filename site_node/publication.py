"""What a site tells the relay of the records that it publishes."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes, Publish
from relay_server.pb import exchange_pb2 as pb
from site_node.telling import Teller

Codes = NDArray[np.int64]


def bounds_of(classes: Classes, row: int) -> bytes:
    """A class's generalisation: float64 lows, then highs, then int32 nodes, little-endian."""
    ends = np.concatenate([classes.low[row], classes.high[row]]).astype("<f8")
    return bytes(ends.tobytes() + classes.node[row].astype("<i4").tobytes())


class Publications:
    """Turns what is published into messages.

    A message has a part per class, and one for all suppressed records. A part tells of its persons
    and values, so that the relay can count those of a class over all sites. The payload are the
    records' positions at the site.
    """

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def of(
        self,
        effect: Publish,
        person: Codes,
        value: Codes,
        *,
        proved: Container[int] = (),
        voted: bool = False,
    ) -> pb.SiteMessage:
        """The message about this effect; `person` and `value` are those of effect.position.

        Of classes that are `proved` nothing needs to be told any more. `voted`: the effect
        publishes what the site voted for, in one class.
        """
        if voted:
            part = _part(effect, 0, slice(None))
            part.voted = True
            return pb.SiteMessage(publication=pb.Publication(parts=[part]))
        known = np.array([each in proved for each in effect.classes.class_id.tolist()], np.bool_)
        reused = np.append(known, False)[effect.row]  # a suppressed record's row is the last
        parts = [_reused(effect, np.flatnonzero(reused))] if reused.any() else []
        # A stable sort keeps the records of a class in the order of publication.
        rest = np.flatnonzero(~reused)
        order = rest[np.argsort(effect.row[rest], kind="stable")]
        row = effect.row[order]
        for members in np.split(order, np.flatnonzero(row[1:] != row[:-1]) + 1):
            if not len(members):
                continue
            part = _part(effect, int(effect.row[members[0]]), members)
            if not part.suppressed:
                part.persons.CopyFrom(self._teller.proof(part.class_id, person[members]))
                part.values = self._teller.values(part.class_id, value[members])
            parts.append(part)
        return pb.SiteMessage(publication=pb.Publication(parts=parts))


def _reused(effect: Publish, members: Codes) -> pb.Part:
    return pb.Part(
        reused=effect.classes.class_id[effect.row[members]].tolist(),
        records=len(members),
        payload=effect.position[members].astype("<i8").tobytes(),
    )


def _part(effect: Publish, row: int, members: Codes | slice) -> pb.Part:
    positions = effect.position[members]
    payload = positions.astype("<i8").tobytes()
    if row == SUPPRESSED:
        return pb.Part(suppressed=True, records=len(positions), payload=payload)
    return pb.Part(
        class_id=int(effect.classes.class_id[row]),
        bounds=bounds_of(effect.classes, row),
        records=len(positions),
        payload=payload,
    )
