"""Control of descriptors, which there is none of: names that other modules need."""

LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
F_GETFD, F_SETFD, F_GETFL, F_SETFL, FD_CLOEXEC = 1, 2, 3, 4, 1


def fcntl(fd, cmd, arg=0):
    raise OSError("fcntl can't work in the sandbox")


def ioctl(fd, request, arg=0, mutate_flag=True):
    raise OSError("ioctl can't work in the sandbox")


def flock(fd, operation):
    """Nobody else has the file."""


def lockf(fd, cmd, len=0, start=0, whence=0):
    """Nobody else has the file."""
