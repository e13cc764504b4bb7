"""Answers a domain's requests from a script: a Unix socket in a run directory."""

import contextlib
import json
import socket
import threading
from pathlib import Path

SIZES = ("minimum", "ideal", "preferred")


def play_private_domains(monkeypatch):
    """Makes each start of a private domain the start of a desk; returns the desks. The
    caller closes them."""
    for variable in ("COSCHED_NODE", "COSCHED_DOMAIN_JOB"):
        monkeypatch.delenv(variable, raising=False)
    started = []

    def start(run_dir, note=None):
        started.append(FakeDesk(run_dir))

    monkeypatch.setattr("cosched.cluster.up.private.start_private", start)
    return started


class FakeDesk:
    """A domain whose jobs a test sets. ``asked``: the requests, in order. ``jobs``: the
    answers about jobs by number. Submissions become jobs that are done at once, unless
    ``runs`` is set. ``before_answer``: called with each request."""

    def __init__(self, run_dir: Path, slots=4):
        self.asked, self.jobs, self.refusals, self.pairs = [], {}, {}, []
        self.nodes = []
        self.node("n1", slots=slots)
        self.on_submit = lambda job: None
        self.before_answer = lambda request: None
        self.release = threading.Event()
        self.release.set()
        self._connections = []
        (run_dir / "domain").mkdir(parents=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(run_dir / "domain/controller.sock"))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def submissions(self):
        return [request["job"] for request in self.asked if request["do"] == "submit"]

    def job(self, number, **more):
        """Sets a job that the domain has."""
        self.jobs[number] = {
            "job": number,
            "name": f"job{number}",
            "uid": 0,
            "state": "done",
            "nodes": 1,
            "tasks": 1,
            "hosts": ["n1"],
            "submitted_ns": 10**18,
            "started_ns": 10**18,
            "ended_ns": 10**18,
            "expected_ns": None,
            "time_ns": None,
            "run_ns": None,
            "ends_ns": None,
            "status": 0,
            "reason": "",
            "starts": 1,
            "command": ["true"],
            "mates": "",
            "cwd": "/",
            "output": f"cosched-{number}.out",
            "error": "",
            "minimum": None,
            "ideal": None,
            "preferred": None,
            "resized": None,
            "node_s": 0.0,
            "limited_by": [],
            "shares": False,
            "halves": [],
            "neighbours": [],
            "suspensions": 0,
            "suspended_s": 0.0,
            "suspended_for": None,
            "lender": None,
            "array": None,
            "task": None,
            "waits_for": "",
            "changes": [],
            "why": "ended with status 0",
            **more,
        }

    def node(self, name, state="up", jobs=(), slots=4):
        """Adds a node that the domain has."""
        facts = {"reason": "", "slots": slots, "tasks_most": slots, "jobs": list(jobs)}
        self.nodes.append({"node": name, "state": state, **facts})

    def close(self):
        """Ends the thread first: it would accept on another socket with this number."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):  # its client has closed it
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
                self._connections.append(connection)
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with contextlib.suppress(BrokenPipeError):
            self._converse(connection)

    def _converse(self, connection):
        with connection, connection.makefile("rwb") as stream:
            for line in stream:
                request = json.loads(line)
                self.asked.append(request)
                self.before_answer(request)
                number = request.get("job", request.get("jobs"))
                one = number is None or isinstance(number, int)
                if error := self.refusals.get(number if one else 0):
                    answer = {"error": error}
                else:
                    answer = {"ok": getattr(self, f"_{request['do']}")(number)}
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()

    def _submit(self, job):
        number = len(self.jobs) + 1
        self.job(
            number,
            **{name: job[name] for name in ("name", "cwd")},
            **{name: job[name].replace("%j", str(number)) for name in ("output", "error")},
        )
        self.on_submit(self.jobs[number])
        return {"job": number}

    def _job(self, number):
        return self.jobs[number]

    def _resize(self, number):
        """Gives a job the bounds of the request."""
        asked, job = self.asked[-1], self.jobs[number]
        given = {name: asked[name] for name in SIZES if asked[name]}
        job.update(given)
        return {"job": number, **{name: job[name] for name in SIZES}}

    def _wait(self, number):
        self.release.wait(30)
        return self.jobs[number]

    def _ended(self, numbers):
        self.release.wait(0.1)
        jobs = [self.jobs[number] for number in numbers]
        fields = ("job", "state", "status", "reason")
        return [{name: job[name] for name in fields} for job in jobs if job["ended_ns"]]

    def _queue(self, _):
        return list(self.jobs.values())

    def _tasks(self, number):
        """Returns the job, or those tasks of an array that were asked for."""
        asked = self.asked[-1].get("tasks", "")
        found = [job for job in self.jobs.values() if job["array"] == number]
        if asked:
            found = [job for job in found if str(job["task"]) in asked.split(",")]
        jobs = found or [self.jobs[number]]
        entries = [{name: job[name] for name in ("job", "task", "state")} for job in jobs]
        why = f"array of {len(jobs)} tasks" if len(jobs) > 1 else ""
        return {"tasks": entries, "why": why}

    def _pairs(self, _):
        return self.pairs

    def _nodes(self, _):
        return self.nodes

    def _drain(self, _):
        return {}

    _undrain = _drain

    def _remove(self, _):
        """Returns the jobs of the nodes of the request."""
        names = self.asked[-1]["names"]
        jobs = {job for node in self.nodes if node["node"] in names for job in node["jobs"]}
        return {"jobs": sorted(jobs)}

    def _cancel(self, number):
        self.jobs[number].update(state="cancelled", status=143, reason="cancelled")
        self.release.set()
        return {"job": number}

    def _hold(self, number):
        return {"job": number}

    _unhold = _hold
