"""The plan of a round: what will be measured, from YAML, with every mistake named by its line before anything starts.

Values keep their `${VAR}` as written; `Plan.expanded` gives the plan to act on, `Plan.text` the one to seal.
"""

from genreport.plan.engines import CeilingPlan, Engine, LaunchPlan
from genreport.plan.levels import (
    CliffTest,
    ConcurrencyTest,
    ConversationTest,
    LengthTest,
    LevelPlan,
    Met,
    OpenTest,
    PlannedTest,
    SoakTest,
    asked_input,
    level_seed,
)
from genreport.plan.model import Hypothesis, LaunchGroup, Plan, Slo
from genreport.plan.reading import read_plan

__all__ = [
    "CeilingPlan",
    "CliffTest",
    "ConcurrencyTest",
    "ConversationTest",
    "Engine",
    "Hypothesis",
    "LaunchGroup",
    "LaunchPlan",
    "LengthTest",
    "LevelPlan",
    "Met",
    "OpenTest",
    "Plan",
    "PlannedTest",
    "Slo",
    "SoakTest",
    "asked_input",
    "level_seed",
    "read_plan",
]
