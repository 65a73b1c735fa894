"""One start of an engine, from its command line to the last level that is measured on it."""

from genreport.session.launch import model_of, serving
from genreport.session.level import Sink, Step, steps, unix_us

__all__ = ["Sink", "Step", "model_of", "serving", "steps", "unix_us"]
