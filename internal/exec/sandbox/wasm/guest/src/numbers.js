// Intl.NumberFormat. Rounds on decimal digits, as ICU does, and formats by the patterns of CLDR.

import { currencyDigits, unitNames } from "../../../../../../third_party/cldr/rules.js";
import {
  BigIntCtor, NumberCtor, RangeErrorCtor, StringCtor, TypeErrorCtor, bigintToString, hasOwn, indexOf, padEnd, padStart, regexpTest, repeat, slice, toUpperCase, trim,
} from "./primordials.js";
import { digitsIn, fill, numbering, option, optionsOf, own, resolveLocale, split, supportedLocalesOf, table, textOf } from "./locale.js";
import { pluralOf, pluralOfRange } from "./plurals.js";

const who = "Intl.NumberFormat";
const outOf = (name) => new RangeErrorCtor(`${name} value is out of range.`);

function digits(o, name, low, high, fallback) {
  const v = o[name];
  if (v === undefined) return fallback;
  const n = Math.floor(NumberCtor(v));
  if (!(n >= low && n <= high)) throw outOf(name);
  return n;
}

function fractionDigits(currency) {
  const at = indexOf(currencyDigits, " " + currency);
  return at < 0 ? 2 : +currencyDigits[at + 4];
}

const sanctioned = (u) => indexOf(" " + unitNames + " ", " " + u + " ") >= 0;

function unitOf(o, r) {
  const u = option(o, "unit", "string", undefined, undefined, who);
  r.unitDisplay = option(o, "unitDisplay", "string", "short narrow long", "short", who);
  if (u === undefined) {
    if (r.style === "unit") throw new TypeErrorCtor(`${who}: style unit needs the option unit, for example "kilometer"`);
    return;
  }
  const per = indexOf(u, "-per-");
  if (u === "" || indexOf(u, " ") >= 0 || !(sanctioned(u) || (per > 0 && sanctioned(slice(u, 0, per)) && sanctioned(slice(u, per + 5))))) {
    throw new RangeErrorCtor(`Invalid unit argument for ${who}() '${u}'`);
  }
  r.unit = u;
}

function currencyOf(o, r) {
  const code = option(o, "currency", "string", undefined, undefined, who);
  r.currencyDisplay = option(o, "currencyDisplay", "string", "code symbol narrowSymbol name", "symbol", who);
  r.currencySign = option(o, "currencySign", "string", "standard accounting", "standard", who);
  if (code === undefined) {
    if (r.style === "currency") throw new TypeErrorCtor(`${who}: style currency needs the option currency, for example "USD"`);
    return;
  }
  if (!regexpTest(/^[A-Za-z]{3}$/, code)) throw new RangeErrorCtor(`Invalid currency code : ${code}`);
  r.currency = toUpperCase(code);
}

const increments = " 1 2 5 10 20 25 50 100 200 250 500 1000 2000 2500 5000 ";

function digitsOf(o, r, low, high) {
  r.minimumIntegerDigits = digits(o, "minimumIntegerDigits", 1, 21, 1);
  const minF = o.minimumFractionDigits, maxF = o.maximumFractionDigits, minS = o.minimumSignificantDigits, maxS = o.maximumSignificantDigits;
  const increment = o.roundingIncrement === undefined ? 1 : Math.floor(NumberCtor(o.roundingIncrement));
  if (indexOf(increments, ` ${increment} `) < 0) throw outOf("roundingIncrement");
  r.roundingMode = option(o, "roundingMode", "string", "ceil floor expand trunc halfCeil halfFloor halfExpand halfTrunc halfEven", "halfExpand", who);
  const priority = option(o, "roundingPriority", "string", "auto morePrecision lessPrecision", "auto", who);
  r.trailingZeroDisplay = option(o, "trailingZeroDisplay", "string", "auto stripIfInteger", "auto", who);
  r.roundingIncrement = increment;
  if (increment !== 1) high = low;
  const hasS = minS !== undefined || maxS !== undefined, hasF = minF !== undefined || maxF !== undefined;
  const needS = priority !== "auto" || hasS, needF = priority !== "auto" || (!hasS && (hasF || r.notation !== "compact"));
  if (needS) {
    r.minimumSignificantDigits = digits(o, "minimumSignificantDigits", 1, 21, 1);
    r.maximumSignificantDigits = digits(o, "maximumSignificantDigits", r.minimumSignificantDigits, 21, 21);
  }
  if (needF) {
    let min = digits(o, "minimumFractionDigits", 0, 100, undefined), max = digits(o, "maximumFractionDigits", 0, 100, undefined);
    if (min === undefined) min = max === undefined ? low : Math.min(low, max);
    else if (max === undefined) max = Math.max(high, min);
    else if (min > max) throw outOf("maximumFractionDigits");
    r.minimumFractionDigits = min;
    r.maximumFractionDigits = max === undefined ? Math.max(high, min) : max;
  }
  if (!needS && !needF) {
    r.minimumFractionDigits = r.maximumFractionDigits = 0;
    r.minimumSignificantDigits = 1;
    r.maximumSignificantDigits = 2;
    r.roundingPriority = "morePrecision";
  } else r.roundingPriority = priority;
  if (increment !== 1 && (r.roundingPriority !== "auto" || needS)) throw new TypeErrorCtor("roundingIncrement goes with fraction digits only");
  if (increment !== 1 && r.maximumFractionDigits !== r.minimumFractionDigits) throw new RangeErrorCtor("roundingIncrement needs as many minimumFractionDigits as maximumFractionDigits");
}

function groupingOf(o, r) {
  const v = o.useGrouping, fallback = r.notation === "compact" ? "min2" : "auto";
  if (v === undefined) return fallback;
  if (v === true) return "always";
  if (!v) return false;
  const s = StringCtor(v);
  if (s === "true" || s === "false") return fallback;
  if (s !== "min2" && s !== "auto" && s !== "always") throw new RangeErrorCtor(`Value ${s} out of range for ${who} options property useGrouping`);
  return s;
}

// Resolves the options, and stores what formatting needs in format.
function resolve(locales, options) {
  const o = optionsOf(options), locale = resolveLocale(locales, who);
  const numberingSystem = numbering(o, locale, who), r = { locale: locale.name, numberingSystem };
  if (locale.keywords.nu === numberingSystem) r.locale += "-u-nu-" + numberingSystem;
  r.style = option(o, "style", "string", "decimal percent currency unit", "decimal", who);
  const c = { style: r.style }, u = { style: r.style };
  currencyOf(o, c);
  unitOf(o, u);
  r.notation = option(o, "notation", "string", "standard scientific engineering compact", "standard", who);
  let low = 0, high = r.style === "percent" ? 0 : 3;
  if (r.style === "currency") {
    Object.assign(r, c);
    low = high = r.notation === "standard" ? fractionDigits(r.currency) : 0;
  }
  if (r.style === "unit") Object.assign(r, u);
  digitsOf(o, r, low, high);
  const compactDisplay = option(o, "compactDisplay", "string", "short long", "short", who);
  if (r.notation === "compact") r.compactDisplay = compactDisplay;
  r.useGrouping = groupingOf(o, r);
  r.signDisplay = option(o, "signDisplay", "string", "auto never always exceptZero negative", "auto", who);
  return { r, f: formatOf(locale.data, r) };
}

// Loads what formatting needs from the locale: its symbols and the pattern of the style.
function formatOf(data, r) {
  const n = table(data, "n"), own = n.f[r.numberingSystem], s = n.s[r.numberingSystem];
  const money = r.style === "currency", named = money && r.currencyDisplay === "name";
  const f = { data, own, symbols: s, decimal: money ? s[9] : s[0], group: money ? s[10] : s[1], minGroup: n.g, currency: undefined };
  if (money && !named) f.currency = symbolOf(data, r);
  const alpha = f.currency !== undefined && regexpTest(own.c[0] === "¤" ? /\p{L}$/u : /^\p{L}/u, f.currency);
  const accounting = r.currencySign === "accounting";
  const pattern = r.style === "percent" || (r.unit === "percent" && r.unitDisplay !== "long") ? own.p : !money || named ? own.d : accounting ? (alpha && own.aa) || own.a : (alpha && own.ca) || own.c;
  f.pattern = parse(pattern);
  f.sizes = groupSizes(pattern);
  if (r.notation === "compact") f.scales = r.compactDisplay === "long" && (!money || named) ? own.kl : money && !named ? (alpha && own.kca) || own.kc : own.ks;
  if (f.scales !== undefined) for (f.top = 14; f.scales[f.top + 1] !== undefined;) f.top++;
  return f;
}

function symbolOf(data, r) {
  if (r.currencyDisplay === "code") return r.currency;
  const c = own(table(data, "c"), r.currency) || [];
  return (r.currencyDisplay === "narrowSymbol" && c[1]) || c[0] || r.currency;
}

// Splits a pattern into the affixes of positive and of negative numbers.
function parse(pattern) {
  const halves = split(pattern, ";"), [before, after] = around(halves[0]);
  const p = { before, after, negative: undefined, zeros: 0 };
  for (let i = before.length; i < halves[0].length - after.length; i++) if (halves[0][i] === "0") p.zeros++;
  if (halves.length > 1) p.negative = around(halves[1]);
  return p;
}

const isNumberChar = (c) => c === "#" || c === "0" || c === "," || c === ".";

function around(half) {
  let from = 0, quoted = false;
  for (; from < half.length; from++) {
    if (half[from] === "'") quoted = !quoted;
    else if (!quoted && isNumberChar(half[from]) && half[from] !== "." && half[from] !== ",") break;
  }
  let to = from;
  while (to < half.length && isNumberChar(half[to])) to++;
  return [slice(half, 0, from), slice(half, to)];
}

function groupSizes(pattern) {
  const groups = split(split(split(pattern, ";")[0], ".")[0], ","), size = (s) => { let n = 0; for (let i = 0; i < s.length; i++) if (s[i] === "#" || s[i] === "0") n++; return n; };
  const first = size(groups[groups.length - 1]);
  return groups.length < 2 ? [0, 0] : [first, groups.length > 2 ? size(groups[groups.length - 2]) : first];
}

// Returns the digits of a number, ±0.digits × 10^point, or marks it as not finite.
function decimal(x) {
  if (typeof x === "bigint") return fromText(bigintToString(x));
  if (typeof x === "string") return fromString(x);
  if (typeof x !== "number") x = NumberCtor(x);
  if (NumberCtor.isNaN(x)) return { nan: true, negative: false };
  if (x === Infinity || x === -Infinity) return { infinite: true, negative: x < 0 };
  const d = fromText(StringCtor(x));
  if (Object.is(x, -0)) d.negative = true;
  return d;
}

function fromString(x) {
  const s = trim(x);
  if (s === "") return fromText("0");
  return regexpTest(/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?$/i, s) ? fromText(s) : decimal(NumberCtor(s));
}

function fromText(s) {
  const negative = s[0] === "-";
  if (negative || s[0] === "+") s = slice(s, 1);
  let e = indexOf(s, "e");
  if (e < 0) e = indexOf(s, "E");
  const mantissa = e < 0 ? s : slice(s, 0, e), exponent = e < 0 ? 0 : +slice(s, e + 1), dot = indexOf(mantissa, ".");
  const whole = dot < 0 ? mantissa : slice(mantissa, 0, dot), all = dot < 0 ? whole : whole + slice(mantissa, dot + 1);
  let from = 0, to = all.length;
  while (from < to && all[from] === "0") from++;
  while (to > from && all[to - 1] === "0") to--;
  return { negative, digits: slice(all, from, to), point: from === all.length ? 0 : whole.length + exponent - from };
}

// Reports whether to round away from zero. half tells whether the discarded part is below, at or
// above one half.
function isUp(mode, negative, half, odd) {
  switch (mode) {
    case "ceil": return !negative;
    case "floor": return negative;
    case "expand": return true;
    case "trunc": return false;
    case "halfCeil": return half > 0 || (half === 0 && !negative);
    case "halfFloor": return half > 0 || (half === 0 && negative);
    case "halfTrunc": return half > 0;
    case "halfEven": return half > 0 || (half === 0 && odd);
  }
  return half >= 0;
}

// Rounds d to n digits; n may be 0 or less.
function round(d, n, r) {
  if (n >= d.digits.length) return d;
  let kept = n > 0 ? slice(d.digits, 0, n) : "", point = d.point;
  const next = n < 0 ? "0" : d.digits[n], half = next > "5" || (next === "5" && d.digits.length > n + 1) ? 1 : next === "5" ? 0 : -1;
  if (isUp(r.roundingMode, d.negative, half, kept !== "" && +kept[n - 1] % 2 === 1)) {
    let i = n - 1;
    while (i >= 0 && kept[i] === "9") i--;
    if (i < 0) { kept = "1"; point += n > 0 ? 1 : 1 - n; } else kept = slice(kept, 0, i) + (+kept[i] + 1);
  }
  let end = kept.length;
  while (end > 0 && kept[end - 1] === "0") end--;
  return { negative: d.negative, digits: slice(kept, 0, end), point };
}

function roundBy(d, r) {
  const places = r.maximumFractionDigits, behind = Math.max(0, d.digits.length - d.point - places);
  if (d.digits === "" || behind > 400 || d.point > 400) return d;
  const n = BigIntCtor(d.digits + repeat("0", Math.max(0, d.point + places - d.digits.length))), by = BigIntCtor(r.roundingIncrement) * 10n ** BigIntCtor(behind);
  let q = n / by;
  const rest = 2n * (n % by);
  if (rest !== 0n && isUp(r.roundingMode, d.negative, rest > by ? 1 : rest === by ? 0 : -1, q % 2n === 1n)) q++;
  const out = fromText(bigintToString(q * BigIntCtor(r.roundingIncrement)));
  return { negative: d.negative, digits: out.digits, point: out.point - places };
}

// Returns [rounded number, minimum number of fraction digits].
function rounded(d, r) {
  const bySignificant = () => { const s = round(d, r.maximumSignificantDigits, r); return [s, Math.max(0, r.minimumSignificantDigits - (s.digits === "" ? 1 : s.point))]; };
  const byFraction = () => [r.roundingIncrement > 1 ? roundBy(d, r) : round(d, d.point + r.maximumFractionDigits, r), r.minimumFractionDigits];
  if (r.maximumSignificantDigits === undefined) return byFraction();
  if (r.maximumFractionDigits === undefined || r.roundingPriority === "auto") return bySignificant();
  const significantIsFiner = d.point - r.maximumSignificantDigits <= -r.maximumFractionDigits;
  const s = bySignificant(), f = byFraction();
  return significantIsFiner === (r.roundingPriority === "morePrecision") ? [s[0], r.notation === "compact" && r.maximumFractionDigits === 0 ? 0 : s[1]] : f;
}

// Returns the digits of d before and after the decimal point, by the options of r.
function write(d, r) {
  let [out, min] = rounded(d, r);
  let whole = "0", fraction = "";
  if (out.digits !== "") {
    const all = out.point <= 0 ? repeat("0", -out.point) + out.digits : padEnd(out.digits, out.point, "0");
    if (out.point > 0) { whole = slice(all, 0, out.point); fraction = slice(all, out.point); } else fraction = all;
  }
  if (r.trailingZeroDisplay === "stripIfInteger" && fraction === "") min = 0;
  return { whole: padStart(whole, r.minimumIntegerDigits, "0"), fraction: padEnd(fraction, min, "0"), out, exponent: 0, scale: undefined };
}

function writeCompact(d, r, f) {
  for (let p = Math.max(0, d.point - 1); ; p++) {
    const at = Math.min(p, f.top), scale = at < 3 ? undefined : f.scales[at];
    const some = scale === undefined ? "0" : typeof scale === "string" ? scale : scale.other;
    const zeros = zerosOf(some), shift = zeros === 0 || some === "0" ? 0 : at + 1 - zeros;
    const w = write({ negative: d.negative, digits: d.digits, point: d.point - shift }, r);
    // Rounding added a digit.
    if (w.out.digits !== "" && w.out.point + shift > p + 1 && p < f.top) continue;
    w.exponent = shift;
    w.scale = some === "0" ? undefined : scale;
    return w;
  }
}

function zerosOf(pattern) { let n = 0; for (let i = 0; i < pattern.length; i++) if (pattern[i] === "0") n++; return n; }

function writeScientific(d, r) {
  const step = r.notation === "engineering" ? 3 : 1;
  let power = d.digits === "" ? 0 : Math.floor((d.point - 1) / step) * step;
  let w = write({ negative: d.negative, digits: d.digits, point: d.point - power }, r);
  if (w.out.point > step) { power += step; w = write({ negative: d.negative, digits: d.digits, point: d.point - power }, r); }
  w.power = power;
  return w;
}

function integerParts(whole, r, f, parts) {
  const [first, more] = f.sizes, min = r.useGrouping === "min2" ? 2 : r.useGrouping === "always" ? 1 : f.minGroup;
  const put = (s) => { parts[parts.length] = { type: "integer", value: digitsIn(s, r.numberingSystem) }; };
  if (r.useGrouping === false || first === 0 || whole.length < first + min) { put(whole); return; }
  const cuts = [];
  for (let at = whole.length - first; at > 0; at -= more) cuts[cuts.length] = at;
  let from = 0;
  for (let i = cuts.length - 1; i >= 0; i--) {
    put(slice(whole, from, cuts[i]));
    parts[parts.length] = { type: "group", value: f.group };
    from = cuts[i];
  }
  put(slice(whole, from));
}

function signOf(d, zero, r) {
  switch (r.signDisplay) {
    case "never": return 0;
    case "always": return d.negative ? -1 : 1;
    case "exceptZero": return zero ? 0 : d.negative ? -1 : 1;
    case "negative": return d.negative && !zero ? -1 : 0;
  }
  return d.negative ? -1 : 0;
}

// Formats a number without its affixes.
function written(x, r, f) {
  const d = decimal(x);
  if (d.nan || d.infinite) return { d, w: undefined, body: [{ type: d.nan ? "nan" : "infinity", value: f.symbols[d.nan ? 7 : 6] }], zero: d.nan === true, form: "other" };
  if (r.style === "percent" && d.digits !== "") d.point += 2;
  const w = r.notation === "compact" ? writeCompact(d, r, f) : r.notation === "standard" ? write(d, r) : writeScientific(d, r);
  const body = [];
  integerParts(w.whole, r, f, body);
  if (w.fraction !== "") {
    body[body.length] = { type: "decimal", value: f.decimal };
    body[body.length] = { type: "fraction", value: digitsIn(w.fraction, r.numberingSystem) };
  }
  if (w.power !== undefined) {
    body[body.length] = { type: "exponentSeparator", value: f.symbols[5] };
    if (w.power < 0) body[body.length] = { type: "exponentMinusSign", value: f.symbols[4] };
    body[body.length] = { type: "exponentInteger", value: digitsIn(StringCtor(Math.abs(w.power)), r.numberingSystem) };
  }
  return { d, w, body, zero: w.out.digits === "", form: pluralOf(f.data, w.whole, w.fraction) };
}

const about = 2; // marker for a sign, alongside -1, 0 and 1
const isMark = (c) => c === "\u200e" || c === "\u200f" || c === "\u061c";

// Returns the parts of a prefix or suffix of a pattern.
function affix(text, sign, r, f, literal) {
  const out = [];
  let plain = "", quoted = false;
  // direction marks around a sign are literal
  const marked = (type, value) => {
    let from = 0, to = value.length;
    while (isMark(value[from])) from++;
    while (isMark(value[to - 1])) to--;
    const text = (s) => { if (s !== "") { if (literal === "literal") plain += s; else put("literal", s); } };
    text(slice(value, 0, from));
    put(type, slice(value, from, to));
    text(slice(value, to));
  };
  const put = (type, value) => { flush(); out[out.length] = { type, value }; };
  const flush = () => {
    if (plain === "") return;
    if (literal === "literal") out[out.length] = { type: literal, value: plain };
    else spaced(out, plain, literal);
    plain = "";
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "'") {
      if (text[i + 1] === "'") { plain += "'"; i++; } else quoted = !quoted;
    } else if (quoted) plain += c;
    else if (c === "-") { if (sign !== 0) marked(sign < 0 ? "minusSign" : sign === about ? "approximatelySign" : "plusSign", f.symbols[sign < 0 ? 4 : sign === about ? 8 : 3]); }
    else if (c === "%") marked("percentSign", f.symbols[2]);
    else if (c === "¤") put("currency", f.currency);
    else plain += c;
  }
  flush();
  return out;
}

const isSpace = (c) => c === " " || c === "\u00a0" || c === "\u202f" || c === "\u200f";

// White space around a word is literal; the word itself has the type.
function spaced(out, s, type) {
  let from = 0, to = s.length;
  while (from < to && isSpace(s[from])) from++;
  while (to > from && isSpace(s[to - 1])) to--;
  if (from > 0) out[out.length] = { type: "literal", value: slice(s, 0, from) };
  if (to > from) out[out.length] = { type, value: slice(s, from, to) };
  if (to < s.length && to > 0) out[out.length] = { type: "literal", value: slice(s, Math.max(to, from)) };
}

const word = /[^\p{S}\p{Z}]$/u, firstWord = /^[^\p{S}\p{Z}]/u;
const gap = () => ({ type: "literal", value: "\u00a0" });

// Returns all parts of a number: sign, currency, percent sign and compact suffix around the digits.
function partsAround(n, sign, r, f) {
  let { before, after, negative } = f.pattern, literal = "literal";
  if (n.w !== undefined && n.w.scale !== undefined) {
    const p = scaleOf(n.w, n.form), cut = around(p);
    before = cut[0]; after = cut[1]; negative = undefined;
    literal = "compact";
    if (r.currencySign === "accounting" && f.pattern.negative !== undefined && f.currency !== undefined) negative = ["(" + before, after + ")"];
  }
  const useNegative = negative !== undefined && (sign < 0 || (sign > 0 && indexOf(negative[0] + negative[1], "-") >= 0));
  if (useNegative) { before = negative[0]; after = negative[1]; }
  else if (sign !== 0) before = "-" + before;
  const front = affix(before, sign, r, f, literal), back = affix(after, sign, r, f, literal), out = [];
  for (let i = 0; i < front.length; i++) out[i] = front[i];
  const number = n.body[0].type === "integer";
  if (front.length > 0 && front[front.length - 1].type === "currency" && number && regexpTest(word, front[front.length - 1].value)) out[out.length] = gap();
  for (let i = 0; i < n.body.length; i++) out[out.length] = n.body[i];
  if (back.length > 0 && back[0].type === "currency" && number && regexpTest(firstWord, back[0].value)) out[out.length] = gap();
  for (let i = 0; i < back.length; i++) out[out.length] = back[i];
  return out;
}

function scaleOf(w, form) {
  if (typeof w.scale === "string") return w.scale;
  if (w.whole === "1" && w.fraction === "" && hasOwn(w.scale, "=1")) return w.scale["=1"];
  return own(w.scale, form) || w.scale.other;
}

const by = (forms, form) => (typeof forms === "string" ? forms : own(forms, form) || forms.other);

// Adds the name of a currency or unit to the number.
function outside(parts, form, r, f) {
  if (r.style === "currency" && r.currencyDisplay === "name") {
    const c = own(table(f.data, "c"), r.currency) || [], name = c[3] ? by(c[3], form) : c[2] || r.currency;
    return fill(by(f.own.u, form), [parts, [{ type: "currency", value: name }]]);
  }
  if (r.style !== "unit") return parts;
  if (r.unit === "percent" && r.unitDisplay !== "long") return parts;
  return fillUnit(unitPattern(r, f, form), parts);
}

function fillUnit(pattern, parts) {
  const at = indexOf(pattern, "{0}"), out = [];
  if (at < 0) { spaced(out, pattern, "unit"); return out; }
  spaced(out, slice(pattern, 0, at), "unit");
  for (let i = 0; i < parts.length; i++) out[out.length] = parts[i];
  spaced(out, slice(pattern, at + 3), "unit");
  return out;
}

function unitPattern(r, f, form) {
  const u = table(f.data, "u"), width = r.unitDisplay === "long" ? 0 : r.unitDisplay === "short" ? 1 : 2;
  if (hasOwn(u, r.unit)) return by(u[r.unit][width], form);
  const cut = indexOf(r.unit, "-per-"), first = by(u[slice(r.unit, 0, cut)][width], form), second = u[slice(r.unit, cut + 5)][width];
  if (typeof second === "object" && second.per !== undefined) return textOf(fill(second.per, [[{ value: first }]]));
  const name = trim(textOf(fill(by(second, "one"), [[]])));
  return textOf(fill(u.per[width], [[{ value: first }], [{ value: name }]]));
}

function numberParts(x, { r, f }) {
  const n = written(x, r, f);
  return outside(partsAround(n, signOf(n.d, n.zero, r), r, f), n.form, r, f);
}

// A range writes what both numbers have in common only once, if it is longer than a character.
function rangeParts(a, b, { r, f }) {
  const x = written(a, r, f), y = written(b, r, f);
  if (x.d.nan || y.d.nan) throw new RangeErrorCtor("formatRange needs two numbers");
  const sx = signOf(x.d, x.zero, r), sy = signOf(y.d, y.zero, r);
  const px = partsAround(x, sx, r, f), py = partsAround(y, sy, r, f);
  const mark = (parts, source) => { const out = []; for (let i = 0; i < parts.length; i++) out[i] = { type: parts[i].type, value: parts[i].value, source }; return out; };
  if (textOf(px) === textOf(py)) {
    const sign = { type: "approximatelySign", value: f.symbols[8] };
    return mark(outside(sx === 0 ? partsAround(x, about, r, f) : [sign, ...px], x.form, r, f), "shared");
  }
  const form = pluralOfRange(f.data, x.form, y.form);
  const edge = (parts, n) => { let i = 0; while (parts[i] !== n.body[0]) i++; return [parts.slice(0, i), parts.slice(i + n.body.length)]; };
  const [bx, ax] = edge(px, x), [by_, ay] = edge(py, y), tx = textOf(bx) + textOf(ax);
  const same = textOf(bx) === textOf(by_) && textOf(ax) === textOf(ay), once = same && tx.length > 1 && sx === 0;
  const low = slice(f.own.r, indexOf(f.own.r, "}") + 1, indexOf(f.own.r, "{1}"));
  const dash = tx !== "" || x.w.power !== undefined ? (once ? low : regexpTest(/^\s/, low) ? low : ` ${low} `) : low;
  const left = once ? x.body : px, right = once ? y.body : py;
  const middle = [...mark(left, "startRange"), { type: "literal", value: dash, source: "shared" }, ...mark(right, "endRange")];
  const inside = once ? [...mark(bx, "shared"), ...middle, ...mark(ax, "shared")] : middle;
  const all = outside(inside, form, r, f);
  for (let i = 0; i < all.length; i++) if (all[i].source === undefined) all[i].source = "shared";
  return all;
}

const numeric = (x) => (typeof x === "bigint" || typeof x === "number" || typeof x === "string" ? x : typeof x === "object" && x !== null ? numeric(primitive(x)) : NumberCtor(x));
function primitive(x) { const v = x.valueOf(); return typeof v === "object" ? StringCtor(x) : v; }

const defaults = resolve();

/** Implements the toLocaleString methods of numbers. */
export const numberText = (x, locales, options) => textOf(numberParts(x, locales === undefined && options === undefined ? defaults : resolve(locales, options)));

const shown = ["locale", "numberingSystem", "style", "currency", "currencyDisplay", "currencySign", "unit", "unitDisplay", "minimumIntegerDigits", "minimumFractionDigits", "maximumFractionDigits",
  "minimumSignificantDigits", "maximumSignificantDigits", "useGrouping", "notation", "compactDisplay", "signDisplay", "roundingIncrement", "roundingMode", "roundingPriority", "trailingZeroDisplay"];

export class NumberFormat {
  #resolved; #format;
  constructor(locales, options) { this.#resolved = locales === undefined && options === undefined ? defaults : resolve(locales, options); }
  get format() { return (this.#format ??= (x) => textOf(numberParts(numeric(x), this.#resolved))); }
  formatToParts(x) { return numberParts(numeric(x), this.#resolved); }
  formatRange(a, b) { return textOf(rangeParts(numeric(a), numeric(b), this.#resolved)); }
  formatRangeToParts(a, b) { return rangeParts(numeric(a), numeric(b), this.#resolved); }
  resolvedOptions() {
    const r = this.#resolved.r, out = {};
    for (let i = 0; i < shown.length; i++) if (r[shown[i]] !== undefined) out[shown[i]] = r[shown[i]];
    return out;
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
  static writtenBy(format, n) { return written(n, format.#resolved.r, format.#resolved.f).w; }
}

/**
 * Returns the integer digits, fraction digits and compact exponent of a formatted number; undefined
 * if it has no digits.
 */
export const { writtenBy } = NumberFormat;
delete NumberFormat.writtenBy;
