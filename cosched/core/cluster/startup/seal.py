"""Seals job objects, so that a node starts only what the controller sent.

A job object comes from another node of the job's tree, which could change it or make one
up. The controller shares a secret with each agent (``Welcome``). So the object carries a
proof for each node: a MAC over the object and over the start that it belongs to.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.startup.tree import Position
from cosched.core.decoding import MessagePackDecoder
from cosched.core.errors import CoschedError

#: The bytes that an object has for each node.
PROOF_BYTES = 16


@dataclass(frozen=True, slots=True)
class Tied:
    """The start to which an object is tied: as in its chunks."""

    job: int  #: the job's number
    start: int  #: how often the job was started
    nodes: Intervals  #: by number; their order gives the places
    arity: int  #: the children of a node in the tree
    exchange: str  #: the design of the table exchange


class _Sealed(msgspec.Struct, frozen=True, array_like=True):
    data: bytes
    proofs: bytes  #: by place


_encoder = msgspec.msgpack.Encoder()
_decoder: MessagePackDecoder[_Sealed] = MessagePackDecoder(_Sealed, "a sealed job object")


def seal(data: bytes, tied: Tied, secrets: Sequence[bytes]) -> bytes:
    """Returns an object with its proofs. secrets: each node's secret, by place."""
    facts = _facts(data, tied)
    proofs = [_proof(facts, place, secret) for place, secret in enumerate(secrets)]
    return _encoder.encode(_Sealed(data, b"".join(proofs)))


def unseal(sealed: bytes, tied: Tied, place: Position, secrets: Sequence[bytes]) -> bytes:
    """Returns the object. Raises CoschedError if the controller did not seal it for this
    start and this node, with one of the secrets."""
    found = _decoder.decode(sealed)
    proof = found.proofs[place * PROOF_BYTES :][:PROOF_BYTES]
    facts = _facts(found.data, tied)
    proofs = [_proof(facts, place, secret) for secret in secrets]
    if not any(hmac.compare_digest(proof, each) for each in proofs):
        raise CoschedError("the job object is not the one that the controller sent")
    return found.data


def _facts(data: bytes, tied: Tied) -> bytes:
    digest = hashlib.sha256(data).digest()
    facts = (tied.job, tied.start, tied.nodes, tied.arity, tied.exchange, digest)
    return _encoder.encode(facts)


def _proof(facts: bytes, place: Position, secret: bytes) -> bytes:
    if not secret:
        raise CoschedError("a proof needs a secret")
    data = facts + place.to_bytes(4, "big")
    return hashlib.blake2b(data, digest_size=PROOF_BYTES, key=secret).digest()
