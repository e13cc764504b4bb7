"""The watch of a steward calls what belongs to the descriptors that are ready."""

import os
import socket

import pytest

from cosched.service.loop import Watch


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_readable_descriptor_is_called_until_it_is_stopped(pair):
    ours, theirs = pair
    watch, seen = Watch(), []
    watch.watch(ours.fileno(), lambda: seen.append(ours.recv(1)))
    theirs.send(b"abc")
    watch.wait(None)
    watch.wait(None)
    assert seen == [b"a", b"b"]
    assert ours.fileno() in watch
    watch.unwatch(ours.fileno())
    watch.wait(0)
    assert seen == [b"a", b"b"]
    assert ours.fileno() not in watch


def test_descriptor_whose_call_returns_false_is_stopped(pair):
    ours, theirs = pair
    watch = Watch()

    def end():
        ours.close()
        return False

    number = ours.fileno()
    watch.watch(number, end)
    theirs.close()
    watch.wait(None)
    assert number not in watch
    watch.wait(0)


def test_writable_descriptor_is_called(pair):
    ours, _ = pair
    watch, seen = Watch(), []
    watch.watch_room(ours.fileno(), lambda: seen.append(1))
    watch.wait(None)
    assert seen == [1]


def test_descriptor_that_an_earlier_call_stopped_is_not_called():
    """Its number may have been given to another one, which is not ready."""
    watch, seen = Watch(), []
    pipes = [os.pipe() for _ in range(2)]

    def replace(own, other):
        def call():
            seen.append(own)
            watch.unwatch(pipes[other][0])
            watch.watch(pipes[other][0], lambda: seen.append("new"))
            watch.unwatch(pipes[own][0])

        return call

    for own, (reader, writer) in enumerate(pipes):
        watch.watch(reader, replace(own, 1 - own))
        os.write(writer, b"x")
    watch.wait(None)
    assert len(seen) == 1
    for each in pipes:
        for descriptor in each:
            os.close(descriptor)


def test_stop_returns_the_call(pair):
    ours, _ = pair
    watch = Watch()
    watch.watch(ours.fileno(), print)
    assert watch.unwatch(ours.fileno()) is print
