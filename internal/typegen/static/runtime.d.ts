// What every program can use besides the tools.

/** Calls a tool by its exact name, "<upstream>.<tool>". Throws ToolError if the tool fails. */
declare function callTool<T = unknown>(path: string, args?: unknown): Promise<T>;

/** Finds tools, as the search tool does: the matching tools with their typed calls, as text. */
declare function search(query: string, options?: { limit?: number; detail?: string }): Promise<string>;

/** Gives an image, audio or resource that a tool answered with to the agent, beside the program's value. */
declare function emit(handle: unknown): void;

/** What a failed tool call throws. */
declare class ToolError extends Error {
  /** The upstream of the tool, for example "github". */
  readonly upstream: string;
  /** The exact name of the tool at its upstream. */
  readonly tool: string;
  /** Sorts failures by what can be done about them. */
  readonly kind:
    | "invalid"
    | "not_found"
    | "conflict"
    | "denied"
    | "limit"
    | "timeout"
    | "unavailable"
    | "canceled"
    | "internal"
    | "tool";
}
