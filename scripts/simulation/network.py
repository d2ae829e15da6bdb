"""What the network of a simulation does to messages, and whom it loses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The site stops for ever once it has accepted so many records of its own."""

    site: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Time is counted in records of the whole stream.

    latency_tuples  how long a frame is under way between a site and the relay
    drop            probability that a frame is lost; it is sent again
    duplicate       probability that a frame arrives twice
    kills           sites that die
    """

    latency_tuples: int = 0
    drop: float = 0.0
    duplicate: float = 0.0
    kills: tuple[Kill, ...] = ()
