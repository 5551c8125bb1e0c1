"""Generators of random numbers that a program made without a seed. They get a new one when the guest does: a copy of a session
would draw the same numbers as the session."""

import random
import weakref

_unseeded = {}  # by id, in the order in which they were made


def install():
    """Makes random.Random tell which of its generators have a seed of their program's."""
    seed, setstate = random.Random.seed, random.Random.setstate

    def noting_seed(self, a=None, version=2):
        seed(self, a, version)
        _note(self, a is None)

    def noting_setstate(self, state):
        setstate(self, state)
        _note(self, False)

    noting_seed.__name__, noting_setstate.__name__ = "seed", "setstate"
    noting_seed.__doc__, noting_setstate.__doc__ = seed.__doc__, setstate.__doc__
    random.Random.seed, random.Random.setstate = noting_seed, noting_setstate


def _note(generator, unseeded):
    key = id(generator)
    if unseeded:
        _unseeded[key] = weakref.ref(generator, lambda _: _unseeded.pop(key, None))
    else:
        _unseeded.pop(key, None)


def renew():
    """Seeds all of them again."""
    for r in list(_unseeded.values()):
        generator = r()
        if generator is not None:
            random.Random.seed(generator)
