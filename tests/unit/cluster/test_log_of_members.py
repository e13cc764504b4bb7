"""The logs of members that commands have started are bounded."""

from __future__ import annotations

from cosched.cluster.up.members import LOG_BYTES, make_room


def test_full_log_is_put_aside(tmp_path):
    log = tmp_path / "controller.log"
    make_room(log)
    assert not log.exists()
    for text in ("first", "second"):
        log.write_text(text * LOG_BYTES)
        make_room(log)
        assert not log.exists()
        assert (tmp_path / "controller.log.1").read_text().startswith(text)
    log.write_text("a line")
    make_room(log)
    assert log.read_text() == "a line"
