// Compares names without regard to case and punctuation, like the host (catalog.fold).

import { charCodeAt, toLowerCase } from "./primordials.js";

/** Returns the letters and digits of a name in lower case. */
export function fold(name) {
  const s = toLowerCase(name);
  let out = "";
  for (let i = 0; i < s.length; i++) {
    const c = charCodeAt(s, i);
    if (c >= 97 && c <= 122 || c >= 48 && c <= 57 || c > 127) out += s[i];
  }
  return out;
}
