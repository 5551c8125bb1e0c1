// Restores globals that a program of a session has deleted before the next program runs. A global
// that a program replaced stays replaced, as in a notebook, until the program deletes it.

import { define, getOwnPropertyDescriptor, hasOwn, list, ownKeys, push } from "./primordials.js";

const names = list(), values = list();
const own = ownKeys(globalThis);
for (let i = 0; i < own.length; i++) {
  const d = getOwnPropertyDescriptor(globalThis, own[i]);
  if (d.configurable && typeof own[i] === "string") { push(names, own[i]); push(values, d.value); }
}

/** Restores the missing globals. */
export function mend() {
  for (let i = 0; i < names.length; i++) if (!hasOwn(globalThis, names[i])) define(globalThis, names[i], values[i]);
}
