// Deletes the globals that the bundled libraries left behind.
import { functionToString } from "./primordials.js";

delete globalThis.Atomics;
delete globalThis["__core-js_shared__"];
Object.defineProperty(Function.prototype, "toString", { value: functionToString, writable: true, enumerable: false, configurable: true });
for (const name of ["URL", "URLSearchParams", "structuredClone"]) {
  Object.defineProperty(globalThis, name, { value: globalThis[name], writable: true, enumerable: false, configurable: true });
}
