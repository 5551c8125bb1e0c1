"""Waiting for descriptors, where there are none to wait for: names that other modules need."""

error = OSError


def select(rlist, wlist, xlist, timeout=None):
    raise OSError("the sandbox has nothing to select from")
