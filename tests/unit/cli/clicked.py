"""Reads command lines as click reads them, for tests of the ways without click."""

#: Lines that both cosched-run and cosched submit read without click.
PLAIN = ("app", "-- app -x", "app -n 4 --help", "-n 4 app", "-np 4 --ppn 2 app a b")
#: Lines that both leave to click: mistakes, help, other ways to write an option.
LEFT_TO_CLICK = (
    *("", "-n 4", "--", "-n 0 app", "-n x app", "-n4 app", "-n", "--help", "-h app"),
    *("--ppn=2 app", "--time 0 app", "--time 2000d app", "--memory big app"),
    "--what app",
)


def by_click(command, called, line, monkeypatch):
    """Returns what click makes of a command line. called: the dotted name of the function
    that gets it."""
    found = []
    monkeypatch.setattr(called, found.append)
    command.click_command.main(line.split(), standalone_mode=False)
    return found[0]
