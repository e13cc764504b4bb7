"""Answers an operator's requests to add and to remove nodes.

Both write ``[nodes]`` in domain.toml, and let the controller read the file again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cosched.cluster.answers import LeavingInfo, ReloadInfo
from cosched.cluster.engines.interface import Handler
from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.membership import Membership
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.keys import make_keys, remove_keys, without_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.user_socket import Person
from cosched.config.domain import DomainConfig
from cosched.core.bounds import Name
from cosched.core.config.kinds import ADDRESS
from cosched.core.decoding import convert
from cosched.core.errors import CoschedError
from cosched.core.names import can_be_node
from cosched.documents import parse_text, read_document
from cosched.linux.files.whole import mode_to_keep, write_whole


class NodeRequests:
    """Adds and removes nodes. reload: lets the controller read domain.toml again. private:
    the domain has one machine alone."""

    def __init__(
        self,
        paths: DomainPaths,
        members: NodeEntries,
        jobs: Jobs,
        membership: Membership,
        reload: Callable[[DomainPaths], ReloadInfo],
        *,
        private: bool,
    ) -> None:
        self._paths = paths
        self._members = members
        self._jobs = jobs
        self._membership = membership
        self._reload = reload
        self._private = private
        #: The answer to each request, by its name.
        self.handlers: dict[str, Handler] = {"add": self._add, "remove": self._remove}

    async def _add(self, _person: Person, request: dict[str, Any]) -> ReloadInfo:
        wanted: dict[str, str] = convert(
            request.get("nodes") or {}, dict[Name, Name], "addresses of nodes"
        )
        if self._private:
            raise CoschedError(
                "a private domain has one node; start another one with: cosched cluster up"
            )
        for name, address in wanted.items():
            self._check_new(name, address)
        await self._membership.parted(wanted)
        trusted = tuple(wanted) if request.get("root") else ()
        new = without_keys(self._paths.keys, wanted)
        make_keys(self._paths.keys, wanted)
        try:
            return self._write(added=wanted, trusted=trusted)
        except BaseException:
            remove_keys(self._paths.keys, new)
            raise

    def _check_new(self, name: str, address: str) -> None:
        if not can_be_node(name):
            raise CoschedError(f"node '{name}': cannot be the name of a node")
        try:
            ADDRESS.parse(address)
        except CoschedError as error:
            raise CoschedError(f"node {name}: {error}") from None
        known = self._members.by_name.get(name)
        if known is not None and not known.leaving:
            raise CoschedError(f"node {name}: is in this domain already")

    async def _remove(self, _person: Person, request: dict[str, Any]) -> LeavingInfo:
        names: list[str] = convert(request.get("names") or [], list[Name], "names of nodes")
        members = self._members.named(names)
        if request.get("now") and not self._jobs.recovered:
            raise self._jobs.not_known_yet(f"node {', '.join(names)}")
        staying = [member for member in members if not member.leaving]
        if staying and len(staying) == self._members.count:
            raise CoschedError(
                f"node {staying[-1].name}: is the last one; to end the domain: cosched "
                "cluster down"
            )
        if staying:
            self._write(removed=[member.name for member in staying])
        if request.get("now"):
            for member in members:
                self._jobs.end_on(member)
        jobs = {number for each in members for number in self._membership.jobs_on(each)}
        if request.get("wait"):
            await self._membership.gone(members)
        return LeavingInfo(jobs=sorted(jobs))

    def _write(self, **change: Any) -> ReloadInfo:
        """Changes the nodes in domain.toml and takes the change. An error leaves the file
        as it was."""
        path = self._paths.config.resolve()  # a link stays one
        mode = mode_to_keep(path)
        before = read_document(path)
        from cosched.config.save import with_other_nodes  # its nodes seldom change

        after = with_other_nodes(before, str(self._paths.config), **change)
        parse_text(after, str(self._paths.config), DomainConfig)
        write_whole(path, after, mode)
        try:
            return self._reload(self._paths)
        except CoschedError:
            write_whole(path, before, mode)
            raise
