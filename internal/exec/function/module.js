// The module that a tool's file gets as "biplane", and as "zod" unless its folder has zod itself: createTool, and the part of
// zod that describes the arguments of tools. A schema's definition is as in zod 4 (schema._zod.def).

export class ZodError extends Error {
  constructor(issues) {
    super(issues.map((i) => (i.path.length > 0 ? i.path.join(".") + ": " : "") + i.message).join("; "));
    this.name = "ZodError";
    this.issues = issues;
  }
}

const kindOf = (v) => (v === null ? "null" : Array.isArray(v) ? "array" : v instanceof Date ? "date" : typeof v);

// check returns the value that v becomes, and adds to issues what is wrong with it.
function check(schema, v, path, issues) {
  const def = schema._zod.def, wrong = (message) => { issues.push({ code: "invalid", path, message }); return v; };
  const expected = () => wrong(v === undefined ? "is required" : "expected " + def.type + ", got " + kindOf(v));
  if (def.coerce && v !== undefined && v !== null) v = def.coerce(v);
  const run = checks[def.type];
  const out = run === undefined ? wrong("this type is not available here: " + def.type) : run(def, v, path, issues, wrong, expected);
  if (issues.length === 0) for (const c of def.checks) if (!c.test(out)) wrong(c.message);
  return out;
}

const checks = {
  string: (def, v, path, issues, wrong, expected) => (typeof v === "string" ? (def.map || []).reduce((s, f) => f(s), v) : expected()),
  number: (def, v, path, issues, wrong, expected) => (typeof v === "number" && v === v ? v : expected()),
  bigint: (def, v, path, issues, wrong, expected) => (typeof v === "bigint" ? v : expected()),
  boolean: (def, v, path, issues, wrong, expected) => (typeof v === "boolean" ? v : expected()),
  null: (def, v, path, issues, wrong, expected) => (v === null ? v : expected()),
  undefined: (def, v, path, issues, wrong, expected) => (v === undefined ? v : expected()),
  void: (def, v, path, issues, wrong, expected) => (v === undefined ? v : expected()),
  date: (def, v, path, issues, wrong, expected) => (v instanceof Date && !isNaN(v) ? v : expected()),
  any: (def, v) => v,
  unknown: (def, v) => v,
  never: (def, v, path, issues, wrong) => wrong("is not allowed"),
  literal: (def, v, path, issues, wrong) => (def.values.includes(v) ? v : wrong("must be " + def.values.map((x) => JSON.stringify(x)).join(" or "))),
  enum: (def, v, path, issues, wrong) => (Object.values(def.entries).includes(v) ? v
    : wrong("must be one of " + Object.values(def.entries).map((x) => JSON.stringify(x)).join(", "))),
  optional: (def, v, path, issues) => (v === undefined ? undefined : check(def.innerType, v, path, issues)),
  nullable: (def, v, path, issues) => (v === null ? null : check(def.innerType, v, path, issues)),
  default: (def, v, path, issues) => (v === undefined ? def.defaultValue : check(def.innerType, v, path, issues)),
  catch: (def, v, path) => { const own = [], out = check(def.innerType, v, path, own); return own.length > 0 ? def.catchValue : out; },
  readonly: (def, v, path, issues) => check(def.innerType, v, path, issues),
  lazy: (def, v, path, issues) => check(def.getter(), v, path, issues),
  transform: (def, v, path, issues) => { const n = issues.length, out = check(def.innerType, v, path, issues); return issues.length > n ? v : def.transform(out); },
  array: (def, v, path, issues, wrong, expected) => (Array.isArray(v) ? v.map((x, i) => check(def.element, x, [...path, i], issues)) : expected()),
  tuple: (def, v, path, issues, wrong, expected) => (!Array.isArray(v) ? expected()
    : v.length !== def.items.length ? wrong("must have " + def.items.length + " items") : v.map((x, i) => check(def.items[i], x, [...path, i], issues))),
  union: (def, v, path, issues, wrong) => {
    for (const o of def.options) { const own = [], out = check(o, v, path, own); if (own.length === 0) return out; }
    return wrong("matches none of the alternatives");
  },
  intersection: (def, v, path, issues) => {
    const a = check(def.left, v, path, issues), b = check(def.right, v, path, issues);
    return kindOf(a) === "object" && kindOf(b) === "object" ? { ...a, ...b } : b;
  },
  record: (def, v, path, issues, wrong, expected) => (kindOf(v) !== "object" ? expected()
    : Object.fromEntries(Object.entries(v).map(([k, x]) => [check(def.keyType, k, [...path, k], issues), check(def.valueType, x, [...path, k], issues)]))),
  object: (def, v, path, issues, wrong, expected) => {
    if (kindOf(v) !== "object") return expected();
    const out = {};
    for (const [k, s] of Object.entries(def.shape)) {
      const x = check(s, Object.hasOwn(v, k) ? v[k] : undefined, [...path, k], issues);
      if (x !== undefined || Object.hasOwn(v, k)) out[k] = x;
    }
    for (const k of Object.keys(v)) {
      if (Object.hasOwn(def.shape, k)) continue;
      if (def.extra === "strict") wrong("unknown key " + JSON.stringify(k));
      else if (def.extra === "loose") out[k] = v[k];
    }
    return out;
  },
};

class Schema {
  constructor(def) { this._zod = { def: { checks: [], ...def } }; }
  get description() { return this._zod.def.description; }
  get shape() { return this._zod.def.shape; }
  get options() { const d = this._zod.def; return d.type === "enum" ? Object.values(d.entries) : d.options; }
  with(more) { return new Schema({ ...this._zod.def, ...more }); }
  safeParse(v) {
    const issues = [], data = check(this, v, [], issues);
    return issues.length > 0 ? { success: false, error: new ZodError(issues) } : { success: true, data };
  }
  parse(v) { const r = this.safeParse(v); if (!r.success) throw r.error; return r.data; }
  async parseAsync(v) { return this.parse(v); }
  async safeParseAsync(v) { return this.safeParse(v); }
  describe(description) { return this.with({ description }); }
  meta(m) { return this.with({ description: m.description, title: m.title }); }
  optional() { return new Schema({ type: "optional", innerType: this, description: this.description }); }
  nullable() { return new Schema({ type: "nullable", innerType: this, description: this.description }); }
  nullish() { return this.nullable().optional(); }
  default(defaultValue) { return new Schema({ type: "default", innerType: this, defaultValue: typeof defaultValue === "function" ? defaultValue() : defaultValue, description: this.description }); }
  catch(catchValue) { return new Schema({ type: "catch", innerType: this, catchValue, description: this.description }); }
  readonly() { return new Schema({ type: "readonly", innerType: this, description: this.description }); }
  brand() { return this; }
  array() { return array(this); }
  or(o) { return union([this, o]); }
  and(o) { return intersection(this, o); }
  transform(transform) { return new Schema({ type: "transform", innerType: this, transform, description: this.description }); }
  refine(test, m) { return this.checked({}, test, (typeof m === "string" ? m : m && m.message) || "is not valid"); }
  checked(facts, test, message) { const d = this._zod.def; return this.with({ ...facts, checks: [...d.checks, { test, message }] }); }
  // strings, numbers and arrays
  min(n, m) { return this.bound(">=", n, m); }
  max(n, m) { return this.bound("<=", n, m); }
  gte(n, m) { return this.bound(">=", n, m); }
  lte(n, m) { return this.bound("<=", n, m); }
  gt(n, m) { return this.bound(">", n, m); }
  lt(n, m) { return this.bound("<", n, m); }
  length(n, m) { return this.min(n, m).max(n, m); }
  nonempty(m) { return this.min(1, m); }
  bound(op, n, m) {
    const d = this._zod.def, size = (v) => (d.type === "number" || d.type === "bigint" ? v : v.length);
    const test = { ">=": (v) => size(v) >= n, "<=": (v) => size(v) <= n, ">": (v) => size(v) > n, "<": (v) => size(v) < n }[op];
    return this.checked({ bounds: { ...d.bounds, [op]: n } }, test, typeof m === "string" ? m : "must be " + op + " " + n);
  }
  int() { return this.checked({ int: true }, Number.isInteger, "must be an integer"); }
  safe() { return this.int(); }
  finite() { return this; }
  positive() { return this.gt(0); }
  negative() { return this.lt(0); }
  nonnegative() { return this.gte(0); }
  nonpositive() { return this.lte(0); }
  multipleOf(n) { return this.checked({ multipleOf: n }, (v) => Math.abs(v / n - Math.round(v / n)) < 1e-9, "must be a multiple of " + n); }
  step(n) { return this.multipleOf(n); }
  regex(r, m) { return this.checked({ pattern: r.source }, (v) => { r.lastIndex = 0; return r.test(v); }, typeof m === "string" ? m : "must match " + r); }
  startsWith(s) { return this.checked({}, (v) => v.startsWith(s), "must start with " + JSON.stringify(s)); }
  endsWith(s) { return this.checked({}, (v) => v.endsWith(s), "must end with " + JSON.stringify(s)); }
  includes(s) { return this.checked({}, (v) => v.includes(s), "must contain " + JSON.stringify(s)); }
  trim() { return this.with({ map: [...(this._zod.def.map || []), (s) => s.trim()] }); }
  toLowerCase() { return this.with({ map: [...(this._zod.def.map || []), (s) => s.toLowerCase()] }); }
  toUpperCase() { return this.with({ map: [...(this._zod.def.map || []), (s) => s.toUpperCase()] }); }
  formatted(format, r) { return this.checked({ format }, (v) => r.test(v), "must be a valid " + format); }
  email() { return this.formatted("email", /^[^\s@]+@[^\s@]+\.[^\s@]+$/); }
  url() { return this.checked({ format: "uri" }, (v) => { try { new URL(v); return true; } catch { return false; } }, "must be a valid URL"); }
  uuid() { return this.formatted("uuid", /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i); }
  datetime() { return this.formatted("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/); }
  date() { return this.formatted("date", /^\d{4}-\d\d-\d\d$/); }
  // objects
  keyof() { return enum_(Object.keys(this.shape)); }
  extend(more) { return this.with({ shape: { ...this.shape, ...(more instanceof Schema ? more.shape : more) } }); }
  merge(o) { return this.extend(o.shape); }
  pick(keys) { return this.with({ shape: Object.fromEntries(Object.entries(this.shape).filter(([k]) => keys[k])) }); }
  omit(keys) { return this.with({ shape: Object.fromEntries(Object.entries(this.shape).filter(([k]) => !keys[k])) }); }
  partial() { return this.with({ shape: Object.fromEntries(Object.entries(this.shape).map(([k, s]) => [k, s.optional()])) }); }
  strict() { return this.with({ extra: "strict" }); }
  passthrough() { return this.with({ extra: "loose" }); }
  loose() { return this.passthrough(); }
  strip() { return this.with({ extra: undefined }); }
}

const simple = (type) => () => new Schema({ type });
export const string = simple("string"), number = simple("number"), boolean = simple("boolean"), bigint = simple("bigint");
export const any = simple("any"), unknown = simple("unknown"), never = simple("never"), date = simple("date");
export const int = () => number().int(), email = () => string().email(), url = () => string().url(), uuid = () => string().uuid();
const null_ = simple("null"), undefined_ = simple("undefined"), void_ = simple("void");
export const literal = (v) => new Schema({ type: "literal", values: Array.isArray(v) ? v : [v] });
const enum_ = (v) => new Schema({ type: "enum", entries: Array.isArray(v) ? Object.fromEntries(v.map((x) => [x, x])) : enumValues(v) });
export const nativeEnum = (v) => enum_(v);
// A TypeScript enum of numbers also maps the numbers to the names.
const enumValues = (e) => Object.fromEntries(Object.entries(e).filter(([k]) => typeof e[e[k]] !== "number"));
export const array = (element) => new Schema({ type: "array", element });
export const tuple = (items) => new Schema({ type: "tuple", items });
export const union = (options) => new Schema({ type: "union", options });
export const discriminatedUnion = (key, options) => union(options);
export const intersection = (left, right) => new Schema({ type: "intersection", left, right });
export const record = (k, v) => new Schema({ type: "record", keyType: v === undefined ? string() : k, valueType: v === undefined ? k : v });
export const object = (shape = {}) => new Schema({ type: "object", shape });
export const strictObject = (shape) => object(shape).strict();
export const looseObject = (shape) => object(shape).passthrough();
export const optional = (s) => s.optional();
export const nullable = (s) => s.nullable();
export const lazy = (getter) => new Schema({ type: "lazy", getter });
export const coerce = {
  string: () => new Schema({ type: "string", coerce: String }), number: () => new Schema({ type: "number", coerce: Number }),
  boolean: () => new Schema({ type: "boolean", coerce: Boolean }), date: () => new Schema({ type: "date", coerce: (v) => new Date(v) }),
};
export { enum_ as enum, null_ as null, undefined_ as undefined, void_ as void };
export const z = {
  string, number, boolean, bigint, any, unknown, never, date, int, email, url, uuid, literal, enum: enum_, nativeEnum, array, tuple, union,
  discriminatedUnion, intersection, record, object, strictObject, looseObject, optional, nullable, lazy, coerce, ZodError,
  null: null_, undefined: undefined_, void: void_,
};
export default z;

/** Returns its argument: { name, description, parameters, execute }. */
export function createTool(definition) { return { ...definition }; }
export { createTool as tool, createTool as defineTool };
