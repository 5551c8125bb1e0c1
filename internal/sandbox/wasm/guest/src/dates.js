// Intl.DateTimeFormat for en-US in UTC and fixed offsets.

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const dateFields = ["weekday", "year", "month", "day"];
const timeFields = ["dayPeriod", "hour", "minute", "second", "fractionalSecondDigits"];

const styles = {
  date: {
    full: { weekday: "long", year: "numeric", month: "long", day: "numeric" }, long: { year: "numeric", month: "long", day: "numeric" },
    medium: { year: "numeric", month: "short", day: "numeric" }, short: { year: "2-digit", month: "numeric", day: "numeric" },
  },
  time: {
    full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "long" }, long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
    medium: { hour: "numeric", minute: "2-digit", second: "2-digit" }, short: { hour: "numeric", minute: "2-digit" },
  },
};

// [minutes east of UTC, name]
function zone(name) {
  if (name === undefined) return [0, "UTC"];
  const s = String(name);
  if (/^(utc|gmt|etc\/(utc|gmt|uct|universal|zulu|greenwich)|uct|zulu|universal)$/i.test(s)) return [0, "UTC"];
  const m = /^([+-])(\d{2}):?(\d{2})?$/.exec(s);
  if (m !== null && Number(m[2]) < 24 && Number(m[3] || 0) < 60) {
    const minutes = (m[1] === "-" ? -1 : 1) * (Number(m[2]) * 60 + Number(m[3] || 0));
    return [minutes, `${minutes < 0 ? "-" : "+"}${m[2]}:${m[3] || "00"}`];
  }
  throw new RangeError(`time zone ${s} is not available here: use "UTC" or a fixed offset such as "+02:00"`);
}

// required and defaults are as in ECMA-402's ToDateTimeOptions: "date", "time" or "any"; "date", "time" or "all".
function resolve(options, required, defaults) {
  const o = options === undefined || options === null ? {} : Object(options);
  const [offset, timeZone] = zone(o.timeZone);
  const r = { locale: "en-US", calendar: "gregory", numberingSystem: "latn", timeZone, offset };
  for (const f of [...dateFields, ...timeFields, "timeZoneName", "era"]) if (o[f] !== undefined) r[f] = o[f];
  if (o.dateStyle !== undefined || o.timeStyle !== undefined) {
    for (const [kind, style] of [["date", o.dateStyle], ["time", o.timeStyle]]) {
      if (style === undefined) continue;
      if (!(style in styles[kind])) throw new RangeError(`${kind}Style ${style} is not one of full, long, medium, short`);
      Object.assign(r, styles[kind][style]);
    }
    r.dateStyle = o.dateStyle;
    r.timeStyle = o.timeStyle;
  } else {
    const has = (fields) => fields.some((f) => r[f] !== undefined);
    const need = !((required !== "time" && has(dateFields)) || (required !== "date" && has(timeFields)));
    if (need && defaults !== "time") r.year = r.month = r.day = "numeric";
    if (need && defaults !== "date") { r.hour = "numeric"; r.minute = r.second = "2-digit"; }
  }
  if (r.hour !== undefined) {
    const cycle = o.hour12 === undefined ? o.hourCycle : o.hour12 ? "h12" : "h23";
    r.hourCycle = ["h11", "h12", "h23", "h24"].includes(cycle) ? cycle : "h12";
    r.hour12 = r.hourCycle === "h12" || r.hourCycle === "h11";
  }
  return r;
}

const two = (n) => String(n).padStart(2, "0");
const part = (type, value) => ({ type, value });

// Parts joined by literals: sequence is parts and strings.
function joined(...sequence) { return sequence.flat().map((x) => (typeof x === "string" ? part("literal", x) : x)); }

function dateParts(d, r) {
  const wordMonth = r.month !== undefined && r.month !== "numeric" && r.month !== "2-digit";
  const year = r.year === undefined ? null : part("year", r.year === "2-digit" ? two(Math.abs(d.year) % 100) : String(r.era !== undefined && d.year <= 0 ? 1 - d.year : d.year));
  const day = r.day === undefined ? null : part("day", r.day === "2-digit" ? two(d.day) : String(d.day));
  const name = months[d.month];
  const month = r.month === undefined ? null : part("month", r.month === "long" ? name : r.month === "short" ? name.slice(0, 3) : r.month === "narrow" ? name[0]
    : r.month === "2-digit" ? two(d.month + 1) : String(d.month + 1));
  const long = days[d.weekday];
  const weekday = r.weekday === undefined ? null : part("weekday", r.weekday === "long" ? long : r.weekday === "narrow" ? long[0] : long.slice(0, 3));
  let out = [];
  if (wordMonth) {
    out = day === null ? (year === null ? [month] : joined(month, " ", year)) : year === null ? joined(month, " ", day) : joined(month, " ", day, ", ", year);
  } else {
    for (const p of [month, day, year]) if (p !== null) out.push(...(out.length > 0 ? joined("/", p) : [p]));
  }
  if (r.era !== undefined) out.push(...joined(out.length > 0 ? " " : [], part("era", r.era === "long" ? (d.year > 0 ? "Anno Domini" : "Before Christ") : r.era === "narrow" ? (d.year > 0 ? "A" : "B") : d.year > 0 ? "AD" : "BC")));
  if (weekday === null) return out;
  if (out.length === 0) return [weekday];
  if (month === null && year === null) return joined(day, " ", weekday);
  return joined(weekday, ", ", out);
}

function timeParts(d, r) {
  const out = [];
  if (r.hour !== undefined) {
    let h = d.hour;
    if (r.hourCycle === "h12") h = h % 12 || 12;
    else if (r.hourCycle === "h11") h %= 12;
    else if (r.hourCycle === "h24") h = h || 24;
    out.push(part("hour", r.hour === "2-digit" || (!r.hour12 && (r.minute !== undefined || r.hour === "numeric")) ? two(h) : String(h)));
  }
  if (r.minute !== undefined) out.push(...(out.length > 0 ? joined(":", part("minute", two(d.minute))) : [part("minute", r.second !== undefined ? two(d.minute) : String(d.minute))]));
  if (r.second !== undefined) out.push(...(out.length > 0 ? joined(":", part("second", two(d.second))) : [part("second", String(d.second))]));
  if (r.fractionalSecondDigits !== undefined) {
    const f = part("fractionalSecond", String(d.ms).padStart(3, "0").slice(0, Number(r.fractionalSecondDigits)));
    out.push(...(out.length > 0 ? joined(".", f) : [f]));
  }
  if (r.hour !== undefined && r.hour12) out.push(...joined(" ", part("dayPeriod", d.hour < 12 ? "AM" : "PM")));
  return out;
}

function zoneName(r) {
  if (r.offset === 0) return r.timeZoneName === "long" || r.timeZoneName === "longGeneric" ? "Coordinated Universal Time" : r.timeZoneName.endsWith("Offset") ? "GMT" : "UTC";
  const abs = Math.abs(r.offset), h = Math.floor(abs / 60), m = abs % 60, sign = r.offset < 0 ? "-" : "+";
  return r.timeZoneName.startsWith("long") ? `GMT${sign}${two(h)}:${two(m)}` : `GMT${sign}${h}${m > 0 ? ":" + two(m) : ""}`;
}

function allParts(ms, r) {
  if (!Number.isFinite(ms)) throw new RangeError("the date is invalid");
  const t = new Date(ms + r.offset * 60_000);
  const d = {
    year: t.getUTCFullYear(), month: t.getUTCMonth(), day: t.getUTCDate(), weekday: t.getUTCDay(),
    hour: t.getUTCHours(), minute: t.getUTCMinutes(), second: t.getUTCSeconds(), ms: t.getUTCMilliseconds(),
  };
  const date = dateParts(d, r), time = timeParts(d, r);
  const at = r.dateStyle !== undefined ? r.dateStyle === "full" || r.dateStyle === "long" : r.month === "long" && time.length > 0;
  const out = date.length > 0 && time.length > 0 ? joined(date, at ? " at " : date.length === 1 && date[0].type === "weekday" ? " " : ", ", time) : [...date, ...time];
  if (r.timeZoneName !== undefined) out.push(...joined(time.length > 0 ? " " : ", ", part("timeZoneName", zoneName(r))));
  return out;
}

const text = (parts) => { let s = ""; for (let i = 0; i < parts.length; i++) s += parts[i].value; return s; };
const getTime = Date.prototype.getTime;

/** What the toLocale methods of Date give. */
export function dateText(date, options, required, defaults) {
  const ms = getTime.call(date);
  return Number.isNaN(ms) ? "Invalid Date" : text(allParts(ms, resolve(options, required, defaults)));
}

const time = (d) => (d === undefined ? Date.now() : d instanceof Date ? d.getTime() : Number(d));

export class DateTimeFormat {
  #resolved; #format;
  constructor(locales, options) { this.#resolved = resolve(options, "any", "date"); }
  get format() { return (this.#format ??= (d) => text(allParts(time(d), this.#resolved))); }
  formatToParts(d) { return allParts(time(d), this.#resolved); }
  formatRange(a, b) {
    const x = this.format(a), y = this.format(b);
    return x === y ? x : x + " – " + y;
  }
  resolvedOptions() {
    const { offset, hour12, ...r } = this.#resolved;
    return hour12 === undefined ? r : { ...r, hour12 };
  }
  static supportedLocalesOf() { return ["en-US"]; }
}
