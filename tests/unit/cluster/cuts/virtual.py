"""A network of members in virtual time. Links can be cut, and members killed."""

import asyncio
import contextlib
import selectors
import sys
import time
from collections import Counter, defaultdict, deque
from types import SimpleNamespace

import msgspec
import zmq

from cosched.cluster.links import Links

#: How long an envelope is under way.
LATENCY_S = 0.001
#: A scenario that takes longer has hung.
LONGEST_S = 300.0


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time passes when nothing is left to do."""

    def __init__(self):
        self.now = 1000.0
        super().__init__(_Selector(self))

    def time(self):
        return self.now

    def add_signal_handler(self, *_):
        """No signal comes."""

    def stop_all(self):
        """Cancels all tasks."""
        self.now = 1000.0
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def pass_time(self, seconds):
        self.now += seconds
        assert self.now < 1000.0 + LONGEST_S, "the scenario hangs"


class _Selector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "nothing will ever happen"
        self._loop.pass_time(timeout)
        return []


@contextlib.contextmanager
def virtual_time(monkeypatch):
    """Yields a loop; cosched's cluster has its time."""
    loop = Loop()
    clock = SimpleNamespace(
        **{name: getattr(time, name) for name in ("strftime", "localtime")},
        monotonic=loop.time,
        monotonic_ns=lambda: round(loop.now * 1e9),
        time_ns=lambda: round(loop.now * 1e9),
    )
    for name, module in list(sys.modules.items()):
        if name.startswith("cosched.cluster") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", clock)
    try:
        yield loop
    finally:
        loop.close()


class Network:
    """Carries envelopes between members.

    cut: called with both ends and the count of each new message on their link; returns for
    how long the link is cut now, before the message, and after it. A message is new if it
    is not sent again, and must arrive.
    """

    def __init__(self, loop):
        self._loop = loop
        self._members = {}
        self._cut_until = defaultdict(float)
        self.watch = None  #: set by the test
        self.counts = Counter()

    def plug(self, name, links):
        self._members[name] = links

    def unplug(self, name):
        self._members.pop(name, None)

    def is_plugged(self, name, links):
        return self._members.get(name) is links

    def put(self, source, to, data):
        """Takes one encoded envelope."""
        pair, after_s = frozenset((source, to)), 0.0
        _, _, number, attempt, *_ = msgspec.msgpack.decode(data)
        if number and not attempt:
            self.counts[pair] += 1
            before_s, after_s = self.watch(pair, self.counts[pair])
            self.cut(pair, before_s)
        if self._loop.now >= self._cut_until[pair]:
            self._loop.call_later(LATENCY_S, self._arrive, source, to, data)
        self.cut(pair, after_s)

    def cut(self, pair, seconds):
        if seconds:
            self._cut_until[pair] = self._loop.now + seconds

    def _arrive(self, source, to, data):
        if to in self._members:
            self._members[to].arrive(source, data)


class VirtualLinks(Links):
    """The links of one member, with the network's sockets in place of ZeroMQ's."""

    network = None  #: set by the test

    def __init__(self, keys, *more, **options):
        super().__init__(keys, *more, **options)
        self._name = keys.name
        self._keys_of = keys.public
        self._handler = None

    def listen(self, _address):
        self._incoming = _Incoming()
        self.network.plug(self._name, self)

    async def receive(self, handler):
        self._handler = handler
        self._failed = asyncio.get_running_loop().create_future()
        await self._failed

    def close(self):
        super().close()
        if self.network.is_plugged(self._name, self):
            self.network.unplug(self._name)

    def arrive(self, source, data):
        if self._handler is not None:
            self._incoming.put(self._keys_of[source].decode(), data)
            try:
                self._take_one(self._handler)
            except Exception as error:  # noqa: BLE001  (the awaiting task raises it)
                self._failed.set_exception(error)

    def _connect(self, name):
        return _Outgoing(self, name)

    def send_out(self, to, data):
        if self.network.is_plugged(self._name, self):
            self.network.put(self._name, to, data)


class _Outgoing:
    def __init__(self, links, to):
        self._links, self._to = links, to

    def send(self, data, _flags):
        self._links.send_out(self._to, data)

    def recv(self, _flags):
        raise zmq.Again

    def close(self, linger):
        """Nothing is kept."""


class _Frame:
    def __init__(self, owner, data):
        self.bytes = data
        self.buffer = memoryview(data)
        self._owner = owner

    def get(self, _name):
        return self._owner


class _Incoming:
    def __init__(self):
        self._frames = deque()

    def put(self, owner, data):
        self._frames.append([_Frame(owner, b"route"), _Frame(owner, data)])

    def recv_multipart(self, _flags, copy):
        if not self._frames:
            raise zmq.Again
        return self._frames.popleft()

    def close(self, linger):
        """Nothing is kept."""
