"""The Python runtime: the guest's end of the protocol in internal/exec/sandbox/protocol.go."""
