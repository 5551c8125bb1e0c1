// What every program can use besides the tools.

/** Calls a tool by its exact name, "<upstream>.<tool>". Throws ToolError if the tool fails. */
declare function callTool<T = unknown>(path: string, args?: unknown): Promise<T>;

/** Finds tools, as the search tool does: the matching tools with their typed calls, as text. */
declare function search(query?: string, options?: { limit?: number; detail?: "brief" | "full" }): Promise<string>;
declare function search(args: { query?: string; limit?: number; detail?: "brief" | "full" }): Promise<string>;

/** Reads on in a result of an earlier program that was too large to give whole, by the handle that it was kept under. */
declare function readResult(handle: string, options?: { offset?: number; limit?: number }): Promise<unknown>;

/** Gives an image, audio or resource that a tool answered with to the agent, beside the program's value. */
declare function emit(handle: unknown): void;

/** What a failed tool call throws. */
declare class ToolError extends Error {
  constructor(message?: string, fields?: {
    kind?: string; upstream?: string; tool?: string; status?: number; retryable?: boolean; retryAfter?: number; data?: unknown;
  });
  /** The upstream of the tool, for example "github". */
  readonly upstream: string;
  /** The exact name of the tool at its upstream. */
  readonly tool: string;
  /** "failed" where the tool ran and reports failure; the others say why the call could not be made, or did not end. */
  readonly kind:
    | "failed"
    | "invalid"
    | "not_found"
    | "conflict"
    | "denied"
    | "limit"
    | "timeout"
    | "unavailable"
    | "canceled"
    | "internal";
  /** The HTTP status, if the tool reports one. */
  readonly status?: number;
  /** Whether the same call may succeed later, if the tool says so. */
  readonly retryable?: boolean;
  /** Seconds to wait before that. */
  readonly retryAfter?: number;
  /** The structured content of the tool's answer. */
  readonly data?: unknown;
}
