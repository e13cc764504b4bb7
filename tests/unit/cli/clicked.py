"""Reads command lines as click reads them, for tests of the ways without click."""


def by_click(command, called, line, monkeypatch):
    """Returns what click makes of a command line. called: the dotted name of the function
    that gets it."""
    found = []
    monkeypatch.setattr(called, found.append)
    command.click_command.main(line.split(), standalone_mode=False)
    return found[0]
