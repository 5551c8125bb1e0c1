// What the runtime needs and older versions of Node lack. Must be imported
// first.
import { types } from "node:util";

const { isNativeError } = types;
if (Error.isError === undefined) {
  Object.defineProperty(Error, "isError", { value: function isError(v) { return isNativeError(v); }, writable: true, enumerable: false, configurable: true });
}

// There is no network: fetch.js replaces fetch by calls through the gateway.
for (const name of ["fetch", "WebSocket", "EventSource"]) delete globalThis[name];
