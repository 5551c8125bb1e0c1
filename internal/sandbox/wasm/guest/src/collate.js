// Comparing text as people sort it: letters by alphabet, then accents, then case; digits as numbers where asked for.

// Where the characters of ASCII stand: white space, punctuation and symbols, digits, letters.
const order = " _-,;:!?./`^~'\"()[]{}@$*\\&#%+<=>|0123456789abcdefghijklmnopqrstuvwxyz";
const rank = [];
for (let i = 0; i < 128; i++) {
  const at = order.indexOf(String.fromCharCode(i).toLowerCase());
  rank[i] = at < 0 ? 0 : at + 1;
}
Object.setPrototypeOf(rank, null);

const marks = /[\u0300-\u036f]/g;
const plain = /^[\x00-\x7f]*$/;

function weight(c) { return c < 128 ? rank[c] : c + 128; }

const isDigit = (c) => c >= 48 && c <= 57;

// Compares letters only, without accents and case.
function primary(a, b, numeric) {
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    const c = a.charCodeAt(i), d = b.charCodeAt(j);
    if (numeric && isDigit(c) && isDigit(d)) {
      let x = i, y = j;
      while (x < a.length && isDigit(a.charCodeAt(x))) x++;
      while (y < b.length && isDigit(b.charCodeAt(y))) y++;
      const m = a.slice(i, x).replace(/^0+(?=\d)/, ""), n = b.slice(j, y).replace(/^0+(?=\d)/, "");
      if (m.length !== n.length) return m.length < n.length ? -1 : 1;
      if (m !== n) return m < n ? -1 : 1;
      i = x; j = y;
      continue;
    }
    if (c !== d) {
      const p = weight(c), q = weight(d);
      if (p !== q) return p < q ? -1 : 1;
    }
    i++; j++;
  }
  return a.length - i === b.length - j ? 0 : a.length - i < b.length - j ? -1 : 1;
}

const sign = (a, b) => (a === b ? 0 : a < b ? -1 : 1);

/** -1, 0 or 1, as String.prototype.localeCompare. */
export function compareText(a, b, options = {}) {
  if (a === b) return 0;
  const { sensitivity = "variant", numeric = false, ignorePunctuation = false, caseFirst = "false" } = options || {};
  if (ignorePunctuation) { a = a.replace(/[\s\p{P}]/gu, ""); b = b.replace(/[\s\p{P}]/gu, ""); }
  let x = a, y = b;
  const simple = plain.test(a) && plain.test(b);
  if (!simple) { x = a.normalize("NFD").replace(marks, ""); y = b.normalize("NFD").replace(marks, ""); }
  let r = primary(simple ? x : x.toLowerCase(), simple ? y : y.toLowerCase(), numeric);
  if (r !== 0 || sensitivity === "base") return r;
  if (!simple && sensitivity !== "case") {
    r = sign(a.normalize("NFD").toLowerCase(), b.normalize("NFD").toLowerCase());
    if (r !== 0) return r;
  }
  if (sensitivity === "accent") return 0;
  for (let i = 0; i < x.length && i < y.length; i++) { // lower case first
    if (x[i] !== y[i]) {
      const lower = x[i] === x[i].toLowerCase();
      if (lower !== (y[i] === y[i].toLowerCase())) return lower !== (caseFirst === "upper") ? -1 : 1;
    }
  }
  return 0;
}

export class Collator {
  #options;
  constructor(locales, options) { this.#options = { ...options }; }
  get compare() { const o = this.#options; return (a, b) => compareText(String(a), String(b), o); }
  resolvedOptions() {
    return { locale: "en-US", usage: "sort", sensitivity: "variant", ignorePunctuation: false, collation: "default", numeric: false, caseFirst: "false", ...this.#options };
  }
  static supportedLocalesOf() { return ["en-US"]; }
}
