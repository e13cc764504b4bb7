"""The likely reasons why claims of Weissman et al. (2003) fail here, one sentence each."""

from __future__ import annotations

SINGLE_STREAM = "there is a single stream of jobs a point"
NO_TOTAL_9 = (
    "an FQ that holds nodes leaves running jobs without them; in a trial in which FQ gives "
    "them away its total is least at all minima"
)
NO_SAME_10 = (
    "an FQ that holds nodes for later jobs loses them when the queue is empty; in a trial "
    "in which FQ gives them away FR/FQ is exactly 1"
)
NO_TURNS_10 = "at 40% and 30% the two are nearly level at the last M that the paper names"
NO_RISES_11 = (
    "at small minima the total hardly changes with M at a load of 0.70; at 0.54, the "
    "model's own, it rises in all ten cases"
)
NO_RISES_12 = (
    "a job that needs fewer nodes starts sooner; in a trial in which no node is harvested, "
    "the wait with FR is shorter at 10%, too"
)
NO_BEST_13 = (
    "at small minima FR and FQ are nearly level, and which of them is ahead depends on the "
    "load"
)
NO_TURN_13 = (
    "at 10% the two are level at a load of 0.54, and Low-Imp-FQ is still ahead at 0.70"
)
NO_FACTOR_14 = (
    "the factor depends on the load, and the paper does not give its load; at small minima "
    "no job waits at all"
)
NO_SUCCESS_2 = (
    "the cause was not found; under FQ nine harvests of a hundred fail here, and under FR "
    "three"
)
NO_HARVESTS_2 = "the paper does not say over which jobs it counts; those harvested fit best"
CHOSEN_COUNT_2 = (
    "the harvests of harvested jobs are counted since they fit; over all jobs FR harvests "
    "three to four times as often"
)
NO_WORSE_2 = (
    "the paper does not say than what; beside IDEAL-ONLY, whose queue is long, nearly all "
    "jobs gain, and beside IDEAL-BACKFILL fewer do"
)
TUNED_3 = (
    "the run time of the largest problem was chosen by these figures, since the paper "
    "prints one that cannot be right"
)
NO_RATES_3 = (
    "the queue grows for as long as jobs come, so the figure depends on the number of "
    "jobs; with 300 a stream it fits"
)
NO_FACTORS_15 = (
    "the queue grows for as long as jobs come, so the factors depend on the number of "
    "jobs, and where no queue is left they are 1"
)
