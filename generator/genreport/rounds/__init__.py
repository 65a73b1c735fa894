"""The round on disk: the only place that knows the name of a file in it, and where both wings of the house meet.

    round.json  plan.yaml  machine.json  seal.json
    models/<sha>.json
    launches/<engine>[+<test>]/<n>/{launch.json, start.log.gz}
    levels/<test>/<engine>/<level>/r<k>/{requests.jsonl, before.prom.gz, after.prom.gz, samples.jsonl, slots.jsonl,
                                         engine.log.gz, gpu.csv, facts.json}

A level's `facts.json` is written last and holds the hashes of its files: a level without it broke off and is left out.
`seal.json` is written last of all: a round without it is a preview. `*.part` is a file that was being written.
"""

from genreport.rounds.checking import check, verified
from genreport.rounds.files import (
    AFTER,
    BEFORE,
    ENGINE_LOG,
    FACTS,
    GPU,
    HEAD,
    LAUNCH,
    MACHINE,
    PART,
    PLAN,
    REQUESTS,
    SAMPLES,
    SEAL,
    SLOTS,
    START_LOG,
    digest,
    packed,
)
from genreport.rounds.reading import Level, Round
from genreport.rounds.writing import LevelWriter, RoundWriter

__all__ = [
    "AFTER",
    "BEFORE",
    "ENGINE_LOG",
    "FACTS",
    "GPU",
    "HEAD",
    "LAUNCH",
    "MACHINE",
    "PART",
    "PLAN",
    "REQUESTS",
    "SAMPLES",
    "SEAL",
    "SLOTS",
    "START_LOG",
    "Level",
    "LevelWriter",
    "Round",
    "RoundWriter",
    "check",
    "digest",
    "packed",
    "verified",
]
