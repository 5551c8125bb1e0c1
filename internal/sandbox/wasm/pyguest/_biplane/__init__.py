"""The runtime of Python programs: the guest's end of the protocol in internal/sandbox/protocol.go."""
