"""Random number generators that a program created without a seed. They are reseeded with the guest,
otherwise a copy of a session would draw the same numbers as the session."""

import random
import weakref
from os import urandom

_seed = random.Random.seed
_unseeded = {}  # by id, in order of creation


def install():
    """Makes random.Random record which generators have a seed from the program."""
    setstate = random.Random.setstate

    def noting_seed(self, a=None, version=2):
        _seed(self, a, version)
        _note(self, a is None)

    def noting_setstate(self, state):
        setstate(self, state)
        _note(self, False)

    noting_seed.__name__, noting_setstate.__name__ = "seed", "setstate"
    noting_seed.__doc__, noting_setstate.__doc__ = _seed.__doc__, setstate.__doc__
    random.Random.seed, random.Random.setstate = noting_seed, noting_setstate
    random.seed, random.setstate = random._inst.seed, random._inst.setstate
    forget()


def forget():
    """Replaces the module's own generator by one without a seed."""
    _note(random._inst, True)


def _note(generator, unseeded):
    key = id(generator)
    if unseeded:
        _unseeded[key] = weakref.ref(generator, lambda _: _unseeded.pop(key, None))
    else:
        _unseeded.pop(key, None)


def renew():
    """Reseeds all of them."""
    for r in list(_unseeded.values()):
        generator = r()
        if generator is not None:
            _seed(generator, int.from_bytes(urandom(32)))
