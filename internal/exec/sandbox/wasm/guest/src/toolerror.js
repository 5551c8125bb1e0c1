// ToolError.

import { ErrorCtor, define, getOwnPropertyDescriptor, global, record } from "./primordials.js";

const moreFields = ["status", "retryable", "retryAfter", "data"];

/** The error that a failed tool call throws in a program. */
export class ToolError extends ErrorCtor {
  constructor(message, fields) {
    super(message);
    if (fields !== null && typeof fields === "object") {
      define(this, "kind", fields.kind, true);
      define(this, "upstream", fields.upstream, true);
      define(this, "tool", fields.tool, true);
      for (let i = 0; i < moreFields.length; i++) {
        const name = moreFields[i];
        if (fields[name] !== undefined) define(this, name, fields[name], true);
      }
    }
  }
}
define(ToolError.prototype, "name", "ToolError");
global("ToolError", ToolError);

// Returns a field of an error's data, if it has the given type.
function dataField(data, name, type) {
  if (data === null || typeof data !== "object") return undefined;
  const d = getOwnPropertyDescriptor(data, name);
  return d !== undefined && typeof d.value === type ? d.value : undefined;
}

/** Creates a ToolError from the host's error, with the stack of the failed call. */
export function makeToolError(error, stack) {
  const e = new ToolError(error.message, record({
    kind: error.kind || "internal", upstream: error.upstream || "", tool: error.tool || "", status: dataField(error.data, "status", "number"),
    retryable: dataField(error.data, "retryable", "boolean"), retryAfter: dataField(error.data, "retry_after", "number"), data: error.data,
  }));
  define(e, "stack", "ToolError: " + error.message + (stack === "" ? "" : "\n" + stack));
  return e;
}
