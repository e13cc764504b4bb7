"""Keeps the names that the tasks of one job have published, at the job's root."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from cosched.core.cluster.startup.questions import Lookup, Publish, RootAnswer, Unpublish

#: The names of a job, and the questions that wait for one, so that a program without end
#: cannot fill the agent's memory.
NAMES_MOST = 10_000

Reply = Callable[[RootAnswer], None]


class Names:
    """The names of one job, each with its port."""

    def __init__(self) -> None:
        self._published: dict[str, Publish] = {}
        self._waiting: defaultdict[str, list[Reply]] = defaultdict(list)
        self._waiting_count = 0

    def take(self, question: Publish | Lookup | Unpublish, reply: Reply) -> None:
        """Answers a question about names, now or once its name is published."""
        name = question.name
        if isinstance(question, Publish):
            reply(self._publish(question))
        elif name in self._published:
            if isinstance(question, Lookup):
                reply(self._read(name))
            else:
                del self._published[name]
                reply(RootAnswer())
        elif not isinstance(question, Lookup) or not question.wait:
            reply(RootAnswer(f"the name '{name}' is not published in this job"))
        elif self._waiting_count >= NAMES_MOST:
            reply(RootAnswer(f"{NAMES_MOST} tasks of the job wait for names"))
        else:
            self._waiting_count += 1
            self._waiting[name].append(reply)

    def _publish(self, question: Publish) -> RootAnswer:
        name = question.name
        if name in self._published:
            return RootAnswer(f"the name '{name}' is published already")
        if len(self._published) >= NAMES_MOST:
            return RootAnswer(f"the job has published {NAMES_MOST} names; unpublish some")
        self._published[name] = question
        waiting = self._waiting.pop(name, [])
        while waiting and name in self._published:
            self._waiting_count -= 1
            waiting.pop(0)(self._read(name))
        if waiting:
            self._waiting[name] = waiting
        return RootAnswer()

    def _read(self, name: str) -> RootAnswer:
        published = self._published[name]
        if published.once:
            del self._published[name]
        return RootAnswer(value=published.port)
