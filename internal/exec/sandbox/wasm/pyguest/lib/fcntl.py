"""A stub of fcntl with the names that other modules need; there are no file descriptors to control."""

LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
F_GETFD, F_SETFD, F_GETFL, F_SETFL, FD_CLOEXEC = 1, 2, 3, 4, 1


def fcntl(fd, cmd, arg=0):
    raise OSError("fcntl can't work in the sandbox")


def ioctl(fd, request, arg=0, mutate_flag=True):
    raise OSError("ioctl can't work in the sandbox")


def flock(fd, operation):
    """Does nothing: no other process uses the file."""


def lockf(fd, cmd, len=0, start=0, whence=0):
    """Does nothing: no other process uses the file."""
