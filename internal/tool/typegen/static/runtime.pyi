# What every program can use besides the tools.
from typing import Any, Literal

async def call_tool(path: str, args: dict[str, Any] = ..., /) -> Any:
    """Calls a tool by its exact name, "<upstream>.<tool>". Raises ToolError if the tool fails."""
    ...

async def search(query: str = ..., limit: int = ..., *, detail: Literal["brief", "full"] = ...) -> str:
    """Finds tools, as the search tool does: the matching tools with their typed calls, as text."""
    ...

async def read_result(handle: str, *, offset: int = ..., limit: int = ...) -> Any:
    """Reads on in a result of an earlier program that was too large to give whole, by the handle that it was kept under."""
    ...

def emit(handle: Any, /) -> None:
    """Gives an image, audio or resource that a tool answered with, or a file by its path, to the agent beside the value."""
    ...

class ToolError(Exception):
    """What a failed tool call raises."""

    upstream: str
    tool: str
    # "failed" where the tool ran and reports failure; the others say why the call could not be made, or did not end.
    kind: Literal[
        "failed", "invalid", "not_found", "conflict", "denied", "limit", "timeout", "unavailable", "canceled", "internal"
    ]
    message: str
    # What the tool reports: the HTTP status, whether the same call may succeed later, and after how many seconds.
    status: int | None
    retryable: bool | None
    retry_after: float | None
    # The structured content of the tool's answer.
    data: Any
