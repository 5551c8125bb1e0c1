// Intl.NumberFormat for en-US. Numbers are rounded on their decimal digits, half away from zero, as ICU does.

const symbols = {
  USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$", NZD: "NZ$",
  HKD: "HK$", ILS: "₪", VND: "₫", TWD: "NT$", XAF: "FCFA", XOF: "F CFA", PHP: "₱", XCD: "EC$", XPF: "CFPF",
};
const names = {
  USD: "US dollar", EUR: "euro", GBP: "British pound", JPY: "Japanese yen", CAD: "Canadian dollar", AUD: "Australian dollar", CHF: "Swiss franc",
  CNY: "Chinese yuan", INR: "Indian rupee",
};
const narrow = { CAD: "$", AUD: "$", MXN: "$", NZD: "$", HKD: "$", TWD: "$", CNY: "¥", SEK: "kr", NOK: "kr", DKK: "kr", PLN: "zł", RUB: "₽", TRY: "₺", UAH: "₴", CZK: "Kč", HUF: "Ft", NGN: "₦" };
const noDigits = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF";
const threeDigits = "BHD IQD JOD KWD LYD OMR TND";

const units = {
  percent: ["%", "%", "percent", "percent"], kilometer: [" km", " km", " kilometer", " kilometers"], meter: [" m", " m", " meter", " meters"],
  celsius: ["°C", "°C", " degree Celsius", " degrees Celsius"], byte: [" byte", " byte", " byte", " bytes"], kilobyte: [" kB", " kB", " kilobyte", " kilobytes"],
  megabyte: [" MB", " MB", " megabyte", " megabytes"], gigabyte: [" GB", " GB", " gigabyte", " gigabytes"], terabyte: [" TB", " TB", " terabyte", " terabytes"],
  kilogram: [" kg", " kg", " kilogram", " kilograms"], gram: [" g", " g", " gram", " grams"], liter: [" L", " L", " liter", " liters"],
  mile: [" mi", " mi", " mile", " miles"], "kilometer-per-hour": [" km/h", " km/h", " kilometer per hour", " kilometers per hour"],
  second: [" sec", " sec", " second", " seconds"], millisecond: [" ms", " ms", " millisecond", " milliseconds"], minute: [" min", " min", " minute", " minutes"],
  hour: [" hr", " hr", " hour", " hours"], day: [" day", " days", " day", " days"], week: [" wk", " wks", " week", " weeks"],
  month: [" mth", " mths", " month", " months"], year: [" yr", " yrs", " year", " years"],
};

const tooMany = (name, v, low, high) => new RangeError(`${name} must be between ${low} and ${high}, got ${v}`);

function digits(o, name, low, high, fallback) {
  const v = o[name];
  if (v === undefined) return fallback;
  const n = Math.floor(Number(v));
  if (!(n >= low && n <= high)) throw tooMany(name, v, low, high);
  return n;
}

function resolve(options) {
  const o = options === undefined || options === null ? {} : Object(options);
  const r = { locale: "en-US", numberingSystem: "latn", style: o.style || "decimal" };
  if (!["decimal", "percent", "currency", "unit"].includes(r.style)) throw new RangeError(`Intl.NumberFormat: unknown style ${o.style}`);
  let low = 0, high = r.style === "percent" ? 0 : 3;
  if (r.style === "currency") {
    if (o.currency === undefined) throw new TypeError("Intl.NumberFormat: style currency needs the option currency, for example \"USD\"");
    r.currency = String(o.currency).toUpperCase();
    if (!/^[A-Z]{3}$/.test(r.currency)) throw new RangeError(`Intl.NumberFormat: ${o.currency} is no currency code`);
    r.currencyDisplay = o.currencyDisplay || "symbol";
    r.currencySign = o.currencySign || "standard";
    low = high = noDigits.includes(r.currency) ? 0 : threeDigits.includes(r.currency) ? 3 : 2;
  }
  if (r.style === "unit") {
    r.unit = String(o.unit);
    r.unitDisplay = o.unitDisplay || "short";
    if (!(r.unit in units)) throw new RangeError(`Intl.NumberFormat: the unit ${o.unit} is not available`);
  }
  r.notation = o.notation || "standard";
  r.compactDisplay = o.compactDisplay || "short";
  r.minimumIntegerDigits = digits(o, "minimumIntegerDigits", 1, 21, 1);
  if (o.minimumSignificantDigits !== undefined || o.maximumSignificantDigits !== undefined) {
    r.minimumSignificantDigits = digits(o, "minimumSignificantDigits", 1, 21, 1);
    r.maximumSignificantDigits = digits(o, "maximumSignificantDigits", r.minimumSignificantDigits, 21, 21);
  } else if (r.notation === "compact" && o.minimumFractionDigits === undefined && o.maximumFractionDigits === undefined) {
    r.compactRounding = true;
    low = high = 0;
  }
  const min = digits(o, "minimumFractionDigits", 0, 100, undefined), max = digits(o, "maximumFractionDigits", 0, 100, undefined);
  if (min !== undefined && max !== undefined && min > max) throw tooMany("maximumFractionDigits", max, min, 100);
  r.minimumFractionDigits = min !== undefined ? min : Math.min(low, max === undefined ? low : max);
  r.maximumFractionDigits = max !== undefined ? max : Math.max(high, r.minimumFractionDigits);
  r.useGrouping = o.useGrouping === undefined || o.useGrouping === "auto" || o.useGrouping === "always" || o.useGrouping === true || o.useGrouping === "true"
    ? (r.notation === "compact" && o.useGrouping === undefined ? "min2" : "auto") : o.useGrouping === "min2" ? "min2" : false;
  r.signDisplay = o.signDisplay || "auto";
  return r;
}

// The decimal digits of a number: 0.digits × 10^point.
function decimal(x) {
  const s = (typeof x === "bigint" ? x : Math.abs(x)).toString().replace(/^-/, "");
  const [mantissa, exponent] = s.split("e");
  const [whole, fraction = ""] = mantissa.split(".");
  const all = whole + fraction, lead = /^0*/.exec(all)[0].length;
  return { digits: all.slice(lead).replace(/0+$/, ""), point: whole.length + Number(exponent || 0) - lead };
}

// Keeps n digits (may be 0 or less), rounding half away from zero.
function round(d, n) {
  if (n >= d.digits.length) return d;
  if (n < 0) return { digits: "", point: d.point };
  const up = d.digits[n] >= "5";
  let kept = d.digits.slice(0, n), point = d.point;
  if (up) {
    let i = n - 1;
    while (i >= 0 && kept[i] === "9") i--;
    if (i < 0) { kept = "1"; point++; } else kept = kept.slice(0, i) + (Number(kept[i]) + 1);
  }
  return { digits: kept.replace(/0+$/, ""), point };
}

// [whole, fraction] of d, by the digit options of r.
function write(d, r) {
  let min = r.minimumFractionDigits;
  if (r.maximumSignificantDigits !== undefined) {
    d = round(d, r.maximumSignificantDigits);
    min = Math.max(0, r.minimumSignificantDigits - (d.digits === "" ? 1 : d.point));
  } else if (r.compactRounding) {
    d = round(d, Math.max(2, d.point));
    min = 0;
  } else d = round(d, d.point + r.maximumFractionDigits);
  if (d.digits === "") return ["0".padStart(r.minimumIntegerDigits, "0"), "0".repeat(min), d];
  const padded = d.point <= 0 ? "0".repeat(-d.point) + d.digits : d.digits.padEnd(d.point, "0");
  const whole = d.point <= 0 ? "0" : padded.slice(0, d.point), fraction = d.point <= 0 ? padded : padded.slice(d.point);
  return [whole.padStart(r.minimumIntegerDigits, "0"), fraction.padEnd(min, "0"), d];
}

const scales = [["", ""], ["K", "thousand"], ["M", "million"], ["B", "billion"], ["T", "trillion"]];

function scaled(d, r) {
  let power = 0, out;
  if (r.notation === "compact") {
    power = Math.min(4, Math.max(0, Math.ceil(d.point / 3) - 1));
    out = write({ digits: d.digits, point: d.point - 3 * power }, r);
    if (out[2].point > 3 && power < 4) out = write({ digits: d.digits, point: d.point - 3 * ++power }, r);
    return [out[0], out[1], r.compactDisplay === "long" ? scales[power][1] : scales[power][0], out[2]];
  }
  if (r.notation === "scientific" || r.notation === "engineering") {
    const step = r.notation === "engineering" ? 3 : 1;
    power = d.digits === "" ? 0 : Math.floor((d.point - 1) / step) * step;
    out = write({ digits: d.digits, point: d.point - power }, r);
    if (out[2].point > step) { power += step; out = write({ digits: d.digits, point: d.point - power }, r); }
    return [out[0], out[1], "E" + power, out[2]];
  }
  out = write(d, r);
  return [out[0], out[1], "", out[2]];
}

function integerParts(whole, r, parts) {
  const grouped = r.useGrouping === "min2" ? whole.length > 4 : r.useGrouping;
  if (!grouped) { parts.push({ type: "integer", value: whole }); return; }
  for (let end = whole.length % 3 || 3, from = 0; from < whole.length; from = end, end += 3) {
    if (from > 0) parts.push({ type: "group", value: "," });
    parts.push({ type: "integer", value: whole.slice(from, end) });
  }
}

function signOf(negative, zero, r) {
  switch (r.signDisplay) {
    case "never": return "";
    case "always": return negative ? "-" : "+";
    case "exceptZero": return zero ? "" : negative ? "-" : "+";
    case "negative": return negative && !zero ? "-" : "";
  }
  return negative ? "-" : "";
}

function numberParts(x, r) {
  const body = [];
  let negative = typeof x === "bigint" ? x < 0n : x < 0 || Object.is(x, -0), zero = false, one = false, scale = "";
  if (typeof x === "number" && Number.isNaN(x)) { body.push({ type: "nan", value: "NaN" }); negative = false; zero = true; }
  else if (x === Infinity || x === -Infinity) body.push({ type: "infinity", value: "∞" });
  else {
    const d = decimal(x);
    if (r.style === "percent") d.point += 2;
    const [whole, fraction, suffix, rounded] = scaled(d, r);
    zero = rounded.digits === "";
    scale = suffix;
    one = whole === "1" && fraction === "" && scale === "";
    integerParts(whole, r, body);
    if (fraction !== "") body.push({ type: "decimal", value: "." }, { type: "fraction", value: fraction });
    if (scale !== "" && r.notation === "compact") {
      if (r.compactDisplay === "long") body.push({ type: "literal", value: " " });
      body.push({ type: "compact", value: scale });
    } else if (scale !== "") {
      body.push({ type: "exponentSeparator", value: "E" });
      if (scale[1] === "-") body.push({ type: "exponentMinusSign", value: "-" });
      body.push({ type: "exponentInteger", value: scale.replace(/^E-?/, "") });
    }
  }
  return decorate(body, signOf(negative, zero, r), one, r);
}

function decorate(body, sign, one, r) {
  const out = [], accounting = r.currencySign === "accounting" && sign === "-";
  if (accounting) out.push({ type: "literal", value: "(" });
  else if (sign !== "") out.push({ type: sign === "-" ? "minusSign" : "plusSign", value: sign });
  if (r.style === "currency" && r.currencyDisplay !== "name") {
    const symbol = r.currencyDisplay === "code" ? r.currency : (r.currencyDisplay === "narrowSymbol" && narrow[r.currency]) || symbols[r.currency] || r.currency;
    out.push({ type: "currency", value: symbol });
    if (/[A-Za-z]$/.test(symbol) && body[0].type === "integer") out.push({ type: "literal", value: "\u00a0" });
  }
  out.push(...body);
  if (r.style === "percent") out.push({ type: "percentSign", value: "%" });
  if (r.style === "currency" && r.currencyDisplay === "name") {
    const name = names[r.currency];
    out.push({ type: "literal", value: " " }, { type: "currency", value: name === undefined ? r.currency : one || /yen|yuan$/.test(name) ? name : name + "s" });
  }
  if (r.style === "unit") {
    const u = units[r.unit], text = u[(r.unitDisplay === "long" ? 2 : 0) + (one ? 0 : 1)];
    const shown = r.unitDisplay === "narrow" ? text.trim().replace(/^(sec|min|hr|day|wk|mth|yr)s?$/, (m) => (m.startsWith("mt") ? "m" : m[0])) : text;
    out.push({ type: "unit", value: r.unit === "byte" && r.unitDisplay === "narrow" ? "B" : shown });
  }
  if (accounting) out.push({ type: "literal", value: ")" });
  return out;
}

const text = (parts) => { let s = ""; for (let i = 0; i < parts.length; i++) s += parts[i].value; return s; };
const numeric = (x) => (typeof x === "bigint" || typeof x === "number" ? x : typeof x === "string" && /^\s*-?\d{16,}\s*$/.test(x) ? BigInt(x) : Number(x));
const defaults = resolve();

/** What Number.prototype.toLocaleString gives. */
export const numberText = (x, options) => text(numberParts(x, options === undefined ? defaults : resolve(options)));

export class NumberFormat {
  #resolved; #format;
  constructor(locales, options) { this.#resolved = resolve(options); }
  get format() { return (this.#format ??= (x) => text(numberParts(numeric(x), this.#resolved))); }
  formatToParts(x) { return numberParts(numeric(x), this.#resolved); }
  formatRange(a, b) {
    const x = this.format(a), y = this.format(b);
    return x === y ? "~" + x : x + "–" + y;
  }
  resolvedOptions() { return { ...this.#resolved }; }
  static supportedLocalesOf() { return ["en-US"]; }
}
