"""Starts the agent: python3 /biplane/boot.py."""

import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "/biplane")

import _host

_host.serve()
