"""Copies of the modules that the runtime uses. Programs of a session see what earlier ones changed
in a library module; the runtime does not."""

import types


def private(module):
    """Returns a module with the same content."""
    m = types.ModuleType(module.__name__)
    m.__dict__.update(module.__dict__)
    return m
