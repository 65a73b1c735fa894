"""A load held by this process, or shared out among several; `choosing` says how many, `holding` lets them hold it."""

from genreport.crew.choosing import PACE, Means, pace_of, workers_for
from genreport.crew.hands import pipes
from genreport.crew.holding import Alone, Crew, shares, together

__all__ = ["PACE", "Alone", "Crew", "Means", "pace_of", "pipes", "shares", "together", "workers_for"]
