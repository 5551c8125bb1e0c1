// Names as they are compared: without case and punctuation, as the host compares them (catalog.fold).

import { charCodeAt, toLowerCase } from "./primordials.js";

/** The letters and digits of a name in lower case. */
export function fold(name) {
  const s = toLowerCase(name);
  let out = "";
  for (let i = 0; i < s.length; i++) {
    const c = charCodeAt(s, i);
    if (c >= 97 && c <= 122 || c >= 48 && c <= 57 || c > 127) out += s[i];
  }
  return out;
}
