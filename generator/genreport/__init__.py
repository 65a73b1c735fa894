"""Measures LLM inference servers into sealed rounds and publishes reports whose every number links to its source."""

__version__ = "0.1.0"
