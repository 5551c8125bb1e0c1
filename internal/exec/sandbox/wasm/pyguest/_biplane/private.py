"""Copies of the modules that the runtime uses: what a program puts into those of the library, its session's later programs find there, but not the runtime."""

import types


def private(module):
    """A module of the same content."""
    m = types.ModuleType(module.__name__)
    m.__dict__.update(module.__dict__)
    return m
