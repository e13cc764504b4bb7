"""Sends the job of ``cosched submit``, and prints its number or its end."""

from __future__ import annotations

import contextlib
import json

from cosched.cli.domain.given import Given
from cosched.cli.domain.sending import Sending, say


def submit(given: Given) -> int:
    """Submits a job; returns the exit status of the command."""
    if given.waits:
        return _run_to_end(given)
    job = given.with_files(given.output, given.error)
    sending = Sending(job, given.run_dir, given.script)
    number = sending.submit()
    print(json.dumps(sending.look_up(number)) if given.as_json else f"job {number}")
    return 0


def _run_to_end(given: Given) -> int:
    """Submits the job and waits for its end; returns its status. That of an array is the
    greatest status of its tasks."""
    # Most commands do not wait.
    from cosched.cli.domain.sending_to_end import send_to_end
    from cosched.cli.domain.waiting import STDIN, exit_status, private_files, report_end

    output, error = given.output, given.error
    with contextlib.ExitStack() as stack:
        if given.is_copied and output is None and error is None:
            output, error = stack.enter_context(private_files())
        source = STDIN if given.reads_here else None
        sending = Sending(given.with_files(output, error), given.run_dir, given.script)
        if given.job.array:
            from cosched.cli.domain.sending_array import send_array_to_end

            tasks = send_array_to_end(sending)
            if given.as_json:
                print(json.dumps({"jobs": [task.job for task in tasks]}))
                return max(map(exit_status, tasks))
            return max(report_end(task, say) for task in tasks)
        ended = send_to_end(sending, source, copy=given.is_copied)
    if given.is_copied:
        return report_end(ended, say)
    print(json.dumps(ended.job))
    return exit_status(ended)
