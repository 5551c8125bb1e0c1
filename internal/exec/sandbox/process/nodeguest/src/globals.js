// Restores globals that a program of a session has deleted before the next program runs.

import { defineProperty, getOwnPropertyDescriptor, hasOwn, list, ownKeys, push } from "./primordials.js";

const names = list(), values = list();
const own = ownKeys(globalThis);
for (let i = 0; i < own.length; i++) {
  const d = getOwnPropertyDescriptor(globalThis, own[i]);
  if (d.configurable) { push(names, own[i]); push(values, d); }
}

/** Restores the missing globals. */
export function mend() {
  for (let i = 0; i < names.length; i++) if (!hasOwn(globalThis, names[i])) defineProperty(globalThis, names[i], values[i]);
}
