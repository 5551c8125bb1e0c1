// What a program of a session takes away from the global object is there again for the next one. What it puts in its
// place stays: its own declarations win, as in any notebook, until it deletes them.

import { define, getOwnPropertyDescriptor, hasOwn, list, ownKeys, push } from "./primordials.js";

const names = list(), values = list();
const own = ownKeys(globalThis);
for (let i = 0; i < own.length; i++) {
  const d = getOwnPropertyDescriptor(globalThis, own[i]);
  if (d.configurable && typeof own[i] === "string") { push(names, own[i]); push(values, d.value); }
}

/** Brings back the globals that are gone. */
export function mend() {
  for (let i = 0; i < names.length; i++) if (!hasOwn(globalThis, names[i])) define(globalThis, names[i], values[i]);
}
