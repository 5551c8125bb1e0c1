// Node's timers. Those that a program sets by the global functions end with it.

import { promisify } from "node:util";
import { SetCtor, apply, define, isFinite, named, setForEach } from "./primordials.js";
import { poke } from "./turn.js";

const native = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate };
const live = new SetCtor(), { add, delete: remove } = SetCtor.prototype;

/** The number of programs that ran in this guest before the current one. */
export let runs = 0;

let exhausted = false;

/** Records that nothing can happen any more: Node has no timer and no event left. */
export function exhaust() { exhausted = true; }

// Wraps a function that sets a timer, and records the timers.
function recorded(name, once) {
  const f = native[name];
  const out = named(function (fn, ...rest) {
    if (typeof fn !== "function") return apply(f, undefined, [fn, ...rest]); // it throws
    const t = apply(f, undefined, [function (...args) {
      if (once) apply(remove, live, [t]);
      return apply(fn, this, args);
    }, ...rest]);
    apply(add, live, [t]);
    return t;
  }, name);
  const own = f[promisify.custom];
  if (own !== undefined) define(out, promisify.custom, own);
  define(globalThis, name, out, true);
}
recorded("setTimeout", true);
recorded("setInterval", false);
recorded("setImmediate", true);
for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) {
  const f = native[name];
  define(globalThis, name, named((t) => { apply(remove, live, [t]); apply(f, undefined, [t]); }, name), true);
}

let handler = () => {};

/** Sets the handler of errors that no code of the program catches. */
export function failing(f) { handler = f; }
/** Calls that handler. */
export function failed(e) { handler(e, false); poke(); }

/** Starts a timer of the runtime itself. */
export const after = (ms, fn) => native.setTimeout(() => { try { fn(); } finally { poke(); } }, ms);
export const nativeImmediate = native.setImmediate;
export const cancel = (t) => { native.clearTimeout(t); };

/** Returns 0 if nothing can happen any more. The number of timers in Node is unknown. */
export const timers = () => (exhausted ? 0 : -1);

/** Prepares for a new program. */
export function begin() { runs++; reset(); }

/** Ends the timers of the last program. */
export function reset() {
  exhausted = false;
  setForEach(live, (t) => {
    native.clearTimeout(t);
    native.clearImmediate(t);
    apply(remove, live, [t]);
  });
}

export function wake() {}
export const isDelay = (ms) => typeof ms === "number" && isFinite(ms) && ms >= 0;
