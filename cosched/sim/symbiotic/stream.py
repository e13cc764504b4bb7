"""Makes streams of small and large jobs for machines whose nodes have two halves.

After Weinberg and Snavely (2006, section 2.4): jobs have one or four halves, 4 : 3. Memory
limits twice as many jobs as the CPU or I/O does. Walltimes are within 20% of run times. All
applications of a class are equally likely. Run times on whole nodes are log-uniform; this
is our choice, since the paper gives no distribution.

Users are drawn, too. A share of users names the CPU for all their programs (*liars*), and a
share of the programs of the others has a wrong label. Both are drawn apart from the jobs,
so that a stream is the same with and without them.

Jobs can also come from a log. A job of N nodes then has 2N halves. Logs do not say what
limits a job, so its application is drawn in the same proportions, for each job or for each
user's executable. With the latter, a few busy users decide the proportions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Workload
from cosched.sim.symbiotic.matrix import Model

DRAWS = ("job", "user")

#: The relative frequency of each class.
WEIGHTS = {Resource.MEMORY: 2.0, Resource.IO: 1.0, Resource.CPU: 1.0, Resource.NETWORK: 1.0}


@dataclass(frozen=True, slots=True)
class StreamRecipe:
    """The parameters of a stream."""

    jobs: int = 100  #: the number of jobs
    seed: int = 0  #: another seed draws another stream
    small: int = 1  #: size of a small job, in halves
    large: int = 4  #: size of a large job, in halves
    small_share: float = 4.0 / 7.0  #: the share of small jobs, 0 to 1
    #: Least and greatest run time on whole nodes.
    run_s: tuple[float, float] = (30.0, 300.0)
    guess: float = 0.2  #: the greatest error of a walltime, as a share of the run time
    users: int = 10  #: the number of users, each with all applications
    wrong: float = 0.0  #: the share of a user's applications with a wrong label, 0 to 1
    liars: float = 0.0  #: the share of users who name the CPU for everything, 0 to 1

    def __post_init__(self) -> None:
        for name in ("jobs", "small", "large", "users"):
            if getattr(self, name) < 1:
                raise CoschedError(f"a stream with {name} {getattr(self, name)}: want 1")
        if not 0.0 < self.run_s[0] <= self.run_s[1]:
            least, most = self.run_s
            raise CoschedError(f"run times from {least:g} s to {most:g} s: want 0 < a <= b")
        if not (0.0 <= self.small_share <= 1.0 and 0.0 <= self.guess < 1.0):
            raise CoschedError(
                f"small_share {self.small_share:g}, guess {self.guess:g}: want shares"
            )
        if not (0.0 <= self.wrong <= 1.0 and 0.0 <= self.liars <= 1.0):
            raise CoschedError(
                f"wrong {self.wrong:g}, liars {self.liars:g}: want shares from 0 to 1"
            )


@dataclass(frozen=True, slots=True)
class StreamJob:
    """A job of a stream."""

    job: SharingJob  #: as the scheduler sees it
    run_ns: int  #: its run time on whole nodes
    uid: int  #: its user
    limits: Limits  #: what limits it; its user may have named something else


def class_of(limits: Limits) -> Resource:
    """Returns the class of an application; resources that nodes share come first."""
    for resource in (Resource.MEMORY, Resource.IO, Resource.CPU):
        if resource in limits:
            return resource
    return Resource.NETWORK


class _Kinds:
    """Draws a class by its weight, then an application of it."""

    def __init__(self, model: Model) -> None:
        self._classes: dict[Resource, list[str]] = {}
        for name, limits in model.labels.items():
            self._classes.setdefault(class_of(limits), []).append(name)
        self._kinds = sorted(self._classes, key=lambda kind: kind.value)
        self._weights = [WEIGHTS[kind] for kind in self._kinds]

    def draw(self, chance: Random) -> str:
        return chance.choice(self._classes[chance.choices(self._kinds, self._weights)[0]])


class UsersWords:
    """Draws what users say of their programs."""

    def __init__(self, recipe: StreamRecipe) -> None:
        self._recipe = recipe
        self._said: dict[tuple[int, str], Limits] = {}

    def user_of(self, number: int) -> int:
        """Returns the user of a job of a stream."""
        return self._chance("user", number).randrange(self._recipe.users)

    def said(self, uid: int, application: str, limits: Limits) -> Limits:
        """Returns the label that a user gives an application that these resources limit."""
        key = uid, application
        if key not in self._said:
            self._said[key] = self._draw(uid, application, limits)
        return self._said[key]

    def _draw(self, uid: int, application: str, limits: Limits) -> Limits:
        if self._chance("liar", uid).random() < self._recipe.liars:
            return frozenset({Resource.CPU})
        chance = self._chance("wrong", uid, application)
        if chance.random() >= self._recipe.wrong:
            return limits
        others = [each for each in Resource if each not in limits]
        return frozenset({chance.choice(others or list(Resource))})

    def _chance(self, *words: object) -> Random:
        return Random(" ".join(map(str, (self._recipe.seed, *words))))


def make_stream(recipe: StreamRecipe, model: Model) -> list[StreamJob]:
    """Returns the stream of a recipe and its seed."""
    chance = Random(recipe.seed)
    kinds, labels = _Kinds(model), model.labels
    words = UsersWords(recipe)
    least, most = (math.log(bound) for bound in recipe.run_s)
    stream = []
    for number in range(recipe.jobs):
        application = kinds.draw(chance)
        size = recipe.small if chance.random() < recipe.small_share else recipe.large
        run_ns = round(math.exp(chance.uniform(least, most)) * NS_PER_S)
        walltime_ns = round(run_ns * chance.uniform(1.0 - recipe.guess, 1.0 + recipe.guess))
        limits, uid = labels[application], words.user_of(number)
        job = SharingJob(
            number,
            size,
            max(1, walltime_ns),
            0,
            application=application,
            limits=words.said(uid, application, limits),
        )
        stream.append(StreamJob(job, run_ns, uid, limits))
    return stream


def stream_of(
    log: Workload, model: Model, recipe: StreamRecipe, draw: str
) -> list[StreamJob]:
    """Returns the jobs of a log with random applications. draw: one of ``DRAWS``. recipe:
    its seed and its users' words count."""
    kinds, labels, words = _Kinds(model), model.labels, UsersWords(recipe)
    drawn: dict[tuple[int, ...], str] = {}
    stream = []
    for place, user in enumerate(zip(log.user, log.executable, strict=True)):
        key: tuple[int, ...] = user if draw == "user" else (place,)
        if key not in drawn:
            drawn[key] = kinds.draw(Random(" ".join(map(str, (recipe.seed, *key)))))
        job = SharingJob(
            number=place,
            size=2 * log.size[place],
            walltime_ns=max(1, log.walltime_ns[place]),
            submit_ns=log.submit_ns[place],
            application=drawn[key],
            limits=words.said(log.user[place], drawn[key], labels[drawn[key]]),
        )
        truth = labels[drawn[key]]
        stream.append(StreamJob(job, log.run_ns[place], log.user[place], truth))
    return stream
