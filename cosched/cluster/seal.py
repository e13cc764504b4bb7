"""Seals job objects, so that a node starts only what the controller sent.

A job object comes from another node of the job's tree, which could change it or make one
up. The controller shares a secret with each agent (``Welcome``). So the object carries a
proof for each node: a MAC over the object and over the start that it belongs to.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as chance
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.startup.tree import Place
from cosched.core.errors import CoschedError

_PROOF_BYTES = 16
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tied:
    """The start to which an object is tied: as in its chunks."""

    job: int
    start: int
    nodes: Intervals
    arity: int
    exchange: str


class _Sealed(msgspec.Struct, frozen=True, array_like=True):
    data: bytes
    proofs: bytes  #: by place


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Sealed)


def make_secret() -> bytes:
    """Returns a secret for the controller and one life of an agent."""
    return chance.token_bytes(_SECRET_BYTES)


def seal(data: bytes, tied: Tied, secrets: Sequence[bytes]) -> bytes:
    """Returns an object with its proofs. secrets: each node's secret, by place."""
    proofs = [_proof(data, tied, place, secret) for place, secret in enumerate(secrets)]
    return _encoder.encode(_Sealed(data, b"".join(proofs)))


def unseal(sealed: bytes, tied: Tied, place: Place, secret: bytes) -> bytes:
    """Returns the object. Raises CoschedError if the controller did not seal it for this
    start and this node."""
    try:
        found = _decoder.decode(sealed)
    except msgspec.MsgspecError as error:
        raise CoschedError(f"not a sealed job object: {error}") from None
    proof = found.proofs[place * _PROOF_BYTES :][:_PROOF_BYTES]
    if not hmac.compare_digest(proof, _proof(found.data, tied, place, secret)):
        raise CoschedError("the job object is not the one that the controller sent")
    return found.data


def _proof(data: bytes, tied: Tied, place: Place, secret: bytes) -> bytes:
    digest = hashlib.sha256(data).digest()
    facts = (tied.job, tied.start, tied.nodes, tied.arity, tied.exchange, place, digest)
    return hmac.digest(secret, _encoder.encode(facts), "sha256")[:_PROOF_BYTES]
