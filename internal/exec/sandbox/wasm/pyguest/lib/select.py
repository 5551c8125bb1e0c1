"""A stub of select with the names that other modules need; there are no file descriptors to wait
for."""

error = OSError


def select(rlist, wlist, xlist, timeout=None):
    raise OSError("the sandbox has nothing to select from")
