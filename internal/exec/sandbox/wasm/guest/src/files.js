// node:fs and node:fs/promises over the virtual file system. Each function is written once, as a
// generator that yields requests to the host. The asynchronous functions wait for the answers with
// promises, the synchronous ones block.

import path_ from "./path.js";
import {
  PromiseCtor, StringCtor, TypeErrorCtor, Uint8ArrayCtor, apply, base64, charCodeAt, define, generatorNext, generatorThrow, isArray, isWellFormed, keys,
  lastIndexOf, list, named, nativeFromBase64, push, record, slice, startsWith, endsWith, typedArrayBytes, typedArraySet, typedArraySubarray,
} from "./primordials.js";
import { asBuffer, bytesOf, decode, encodingName, viewOf } from "./buffer.js";
import { askFile, askFileNow, fileError } from "./calls.js";
import { callerStack } from "./errors.js";

function later(generator) {
  const stack = callerStack();
  return new PromiseCtor((resolve, reject) => {
    const go = (move, v) => {
      let step;
      try { step = move(generator, v); } catch (e) { reject(e); return; }
      if (step.done) resolve(step.value);
      else askFile(step.value, stack, (x) => { go(generatorNext, x); }, (e) => { go(generatorThrow, e); });
    };
    go(generatorNext, undefined);
  });
}

function now(generator) {
  const stack = callerStack();
  let move = generatorNext, v;
  for (;;) {
    const step = move(generator, v);
    if (step.done) return step.value;
    try { v = askFileNow(step.value, stack); move = generatorNext; } catch (e) { v = e; move = generatorThrow; }
  }
}

function typeError(code, text) {
  const e = new TypeErrorCtor(text);
  define(e, "code", code, true);
  return e;
}

function pathOf(p) {
  if (typeof p === "string") {
    // JSON would turn a lone surrogate into U+FFFD, so that several names became one.
    if (!isWellFormed(p)) throw failure("EILSEQ", "illegal byte sequence, open '" + p + "': a path is valid UTF-8", { op: "open", path: p });
    return p;
  }
  if (p !== null && typeof p === "object") {
    if (typeof p.href === "string" && typeof p.pathname === "string") return decodeURIComponent(p.pathname);
    const bytes = viewOf(p);
    if (bytes !== undefined) return decode(bytes);
  }
  throw typeError("ERR_INVALID_ARG_TYPE", "The \"path\" argument must be a string, a URL or a Buffer, got " + (p === null ? "null" : typeof p));
}

const join2 = (dir, name) => (dir === "" ? name : endsWith(dir, "/") ? dir + name : dir + "/" + name);
const optionsOf = (o) => (typeof o === "string" ? record({ encoding: o }) : o !== null && typeof o === "object" ? o : record({}));
const failure = (code, text, fields) => fileError(record({ code, message: code + ": " + text }), record(fields), callerStack());

const isUTF8 = (e) => e !== undefined && e !== null && e !== "buffer" && encodingName(e) === "utf8";

function* readBytes(path, offset, length) {
  return nativeFromBase64(yield record({ op: "read", path, base64: true, offset: offset || undefined, length }));
}

function* readFile(p, options) {
  const { encoding } = optionsOf(options);
  if (p instanceof FileHandle) p = p.path;
  const path = pathOf(p);
  if (isUTF8(encoding)) return yield record({ op: "read", path });
  if (encoding !== undefined && encoding !== null && encoding !== "buffer") encodingName(encoding);
  const bytes = yield* readBytes(path);
  return encoding === undefined || encoding === null || encoding === "buffer" ? asBuffer(bytes) : decode(bytes, encoding);
}

// Builds the content of a write request: text, bytes, or the handle of an image or other resource
// returned by a tool.
function content(data, encoding) {
  if (typeof data === "string") return encodingName(encoding) === "utf8" ? { data } : { data: base64(bytesOf(data, encoding)), base64: true };
  const bytes = bytesOf(data);
  if (bytes !== undefined) return { data: base64(bytes), base64: true };
  if (data !== null && typeof data === "object" && typeof data.handle === "string") return { handle: data.handle };
  throw typeError("ERR_INVALID_ARG_TYPE", "The \"data\" argument must be a string, a Buffer, a typed array or an image, audio or resource that a tool gave, got " +
    (data === null ? "null" : isArray(data) ? "an array" : "a " + typeof data) + ": use JSON.stringify for other values");
}

// Maximum characters or bytes of one request: the host limits the size of a message.
const part = 3 << 20;

// Returns the end of the part of s that begins at i, without splitting a surrogate pair.
function partEnd(s, i) {
  const end = i + part;
  const last = end < s.length ? charCodeAt(s, end - 1) : 0;
  return last >= 0xd800 && last < 0xdc00 ? end - 1 : end;
}

function* write(path, data, encoding, flag, offset) {
  const text = typeof data === "string" && encodingName(encoding) === "utf8";
  const all = text ? data : typeof data === "string" ? bytesOf(data, encoding) : bytesOf(data);
  if (all === undefined || all.length <= part) {
    const c = content(data, encoding);
    yield record({ op: "write", path, data: c.data, base64: c.base64, handle: c.handle, flag, offset });
    return;
  }
  for (let i = 0, end; i < all.length; i = end) {
    end = text ? partEnd(all, i) : i + part;
    const c = content(text ? slice(all, i, end) : typedArraySubarray(all, i, end));
    yield record({ op: "write", path, data: c.data, base64: c.base64, flag, offset });
    if (flag === "r+") offset = (offset || 0) + part;
    else flag = "a";
  }
}

const writeFlags = record({ w: "", "w+": "", wx: "wx", "wx+": "wx", a: "a", "a+": "a", ax: "ax", "ax+": "ax", "r+": "r+", as: "a", "as+": "a" });

function flagOf(flag, otherwise) {
  if (flag === undefined || flag === null) flag = otherwise;
  const f = writeFlags[flag];
  if (f === undefined) throw typeError("ERR_INVALID_ARG_VALUE", "The argument 'flags' is invalid. Received '" + StringCtor(flag) + "'");
  return f || undefined;
}

function* writeFile(p, data, options) {
  const o = optionsOf(options);
  if (p instanceof FileHandle) { yield* p.put(data, o.encoding); return; }
  yield* write(pathOf(p), data, o.encoding, flagOf(o.flag, "w"));
}

function* appendFile(p, data, options) {
  const o = optionsOf(options);
  if (p instanceof FileHandle) { yield* write(p.path, data, o.encoding, "a"); return; }
  yield* write(pathOf(p), data, o.encoding, flagOf(o.flag, "a"));
}

class Stats {
  constructor(s) {
    this.dev = 1;
    this.mode = (s.dir ? 0o40000 : 0o100000) | (s.readonly ? 0o444 : 0o644) | (s.dir ? 0o111 : 0);
    this.nlink = 1;
    this.uid = this.gid = 0;
    this.size = s.size || 0;
    this.blksize = 4096;
    this.blocks = (this.size + 511 - (this.size + 511) % 512) / 512;
    this.atimeMs = this.mtimeMs = this.ctimeMs = this.birthtimeMs = s.mtime || 0;
    for (const t of ["atime", "mtime", "ctime", "birthtime"]) this[t] = new Date(this[t + "Ms"]);
  }
  isDirectory() { return (this.mode & 0o40000) !== 0; }
  isFile() { return !this.isDirectory(); }
  isSymbolicLink() { return false; }
  isBlockDevice() { return false; }
  isCharacterDevice() { return false; }
  isFIFO() { return false; }
  isSocket() { return false; }
}

class Dirent {
  #dir;
  constructor(name, parent, dir) { this.name = name; this.parentPath = this.path = parent; this.#dir = dir; }
  isDirectory() { return this.#dir; }
  isFile() { return !this.#dir; }
  isSymbolicLink() { return false; }
  isBlockDevice() { return false; }
  isCharacterDevice() { return false; }
  isFIFO() { return false; }
  isSocket() { return false; }
}

function* stat(p, options) {
  try {
    return new Stats(yield record({ op: "stat", path: pathOf(p) }));
  } catch (e) {
    if (options && options.throwIfNoEntry === false && e.code === "ENOENT") return undefined;
    throw e;
  }
}

function* readdir(p, options) {
  const o = optionsOf(options), out = [];
  yield* walk(out, pathOf(p), "", !!o.withFileTypes, !!o.recursive);
  return out;
}

function* walk(out, dir, prefix, typed, deep) {
  const names = yield record({ op: "list", path: dir });
  const below = list();
  for (let i = 0; i < names.length; i++) {
    const e = names[i];
    define(out, out.length, typed ? new Dirent(e.name, dir, e.dir === true) : prefix + e.name, true);
    if (deep && e.dir) push(below, e.name);
  }
  for (let i = 0; i < below.length; i++) yield* walk(out, join2(dir, below[i]), prefix + below[i] + "/", typed, deep);
}

function* access(p, mode) {
  const s = yield record({ op: "stat", path: pathOf(p), call: "access" });
  if (mode & 2 && s.readonly) throw failure("EROFS", "read-only file system, access '" + pathOf(p) + "'", { op: "access", path: pathOf(p) });
}

function* exists(p) {
  try { yield record({ op: "stat", path: pathOf(p) }); return true; } catch { return false; }
}

function* mkdir(p, options) {
  const path = pathOf(p), recursive = !!(options && options.recursive);
  let first;
  if (recursive) { // returns the first directory created
    for (let at = path; at !== "" && at !== "/" && at !== "."; at = slice(at, 0, lastIndexOf(at, "/") < 0 ? 0 : lastIndexOf(at, "/"))) {
      if (yield* exists(at)) break;
      first = at;
    }
    if (first === undefined && (yield* stat(path)).isDirectory()) return undefined;
  }
  yield record({ op: "mkdir", path, recursive });
  return first;
}

function* mkdtemp(prefix) {
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", bytes = crypto.getRandomValues(new Uint8ArrayCtor(6));
  let path = pathOf(prefix);
  for (let i = 0; i < 6; i++) path += letters[bytes[i] % 62];
  yield record({ op: "mkdir", path });
  return path;
}

function* rm(p, options) {
  const path = pathOf(p);
  try {
    yield record({ op: "rm", path, recursive: !!(options && options.recursive), force: !!(options && options.force), call: "lstat" });
  } catch (e) {
    if (e.code !== "EISDIR") throw e;
    throw failure("ERR_FS_EISDIR", "Path is a directory: rm returned EISDIR (is a directory) " + path + ": give { recursive: true }", { op: "rm", path });
  }
}
function* rmdir(p, options) {
  if (options && options.recursive) yield record({ op: "rm", path: pathOf(p), recursive: true });
  else yield record({ op: "rmdir", path: pathOf(p) });
}
function* unlink(p) { yield record({ op: "rm", path: pathOf(p), call: "unlink" }); }
function* rename(p, to) { yield record({ op: "rename", path: pathOf(p), to: pathOf(to) }); }
function* copyFile(p, to, mode) { yield record({ op: "copy", path: pathOf(p), to: pathOf(to), flag: mode & 1 ? "wx" : undefined }); }
function* truncate(p, length) { yield record({ op: "truncate", path: p instanceof FileHandle ? p.path : pathOf(p), offset: length || 0 }); }

function* cp(p, to, options) {
  const from = pathOf(p), target = pathOf(to), o = optionsOf(options);
  const s = yield record({ op: "stat", path: from });
  if (!s.dir) { yield* copyOne(from, target, o); return; }
  if (!o.recursive) throw failure("ERR_FS_EISDIR", "Recursive option not enabled, cannot copy a directory: " + from, { op: "cp", path: from });
  if (target === from || startsWith(target, from + "/")) throw failure("ERR_FS_CP_EINVAL", "Cannot copy " + from + " to a subdirectory of self " + target, { op: "cp", path: from });
  yield record({ op: "mkdir", path: target, recursive: true });
  const names = yield record({ op: "list", path: from });
  for (let i = 0; i < names.length; i++) {
    const a = join2(from, names[i].name), b = join2(target, names[i].name);
    if (typeof o.filter === "function" && !o.filter(a, b)) continue;
    if (names[i].dir) yield* cp(a, b, o); else yield* copyOne(a, b, o);
  }
}

function* copyOne(from, to, o) {
  const keep = o.force === false || o.errorOnExist;
  try { yield record({ op: "copy", path: from, to, flag: keep ? "wx" : undefined }); } catch (e) { if (e.code !== "EEXIST" || o.errorOnExist) throw e; }
}

let nextHandle = 20;

// An open file: a path and an offset.
class FileHandle {
  constructor(path, flag) { this.path = path; this.flag = flag; this.at = 0; this.fd = nextHandle++; this.closed = false; }
  check(writes) {
    const no = (text) => failure("EBADF", "bad file descriptor, " + text, { op: text, path: this.path });
    if (this.closed) throw no(writes ? "write" : "read");
    if (writes ? this.flag === "r" : this.flag !== "r" && !endsWith(this.flag, "+")) throw no(writes ? "write" : "read");
  }
  * get(buffer, offset, length, position) {
    this.check(false);
    if (buffer !== undefined && buffer !== null && viewOf(buffer) === undefined) ({ buffer, offset, length, position } = buffer);
    if (buffer === undefined || buffer === null) buffer = asBuffer(new Uint8ArrayCtor(16384));
    if (offset !== null && typeof offset === "object") ({ offset, length, position } = offset);
    const view = viewOf(buffer), from = offset || 0, n = length === undefined || length === null ? typedArrayBytes(view) - from : length;
    const bytes = yield* readBytes(this.path, typeof position === "number" && position >= 0 ? position : this.at, n);
    typedArraySet(view, bytes, from);
    if (typeof position !== "number" || position < 0) this.at += bytes.length;
    return { bytesRead: bytes.length, buffer };
  }
  * put(data, a, b, c) {
    this.check(true);
    let encoding, position = c, bytes;
    if (typeof data === "string") { position = a; encoding = b; if (typeof a === "string") { encoding = a; position = undefined; } bytes = bytesOf(data, encoding); } else {
      bytes = bytesOf(data);
      if (bytes === undefined) throw typeError("ERR_INVALID_ARG_TYPE", "The \"buffer\" argument must be a string or a Buffer, got a " + typeof data);
      if (a !== null && typeof a === "object") ({ offset: a, length: b, position } = a);
      if (typeof a === "number" || typeof b === "number") bytes = typedArraySubarray(bytes, a || 0, typeof b === "number" ? (a || 0) + b : undefined);
    }
    if (this.flag[0] === "a") { yield* write(this.path, bytes, undefined, "a"); return { bytesWritten: bytes.length, buffer: data }; }
    const own = typeof position === "number";
    yield* write(this.path, bytes, undefined, "r+", own ? position : this.at);
    if (!own) this.at += bytes.length;
    return { bytesWritten: bytes.length, buffer: data };
  }
  * all(options) {
    this.check(false);
    const { encoding } = optionsOf(options), bytes = yield* readBytes(this.path, this.at);
    this.at += bytes.length;
    return encoding === undefined || encoding === null ? asBuffer(bytes) : decode(bytes, encoding);
  }
  read(...a) { return later(this.get(...a)); }
  write(...a) { return later(this.put(...a)); }
  readFile(options) { return later(this.all(options)); }
  writeFile(data, options) { return later(this.put(data, optionsOf(options).encoding)); }
  appendFile(data, options) { return later(this.put(data, optionsOf(options).encoding)); }
  stat() { return later(stat(this.path)); }
  truncate(length) { this.check(true); return later(truncate(this.path, length)); }
  async readv(buffers) { let bytesRead = 0; for (const b of buffers) bytesRead += (await this.read(b)).bytesRead; return { bytesRead, buffers }; }
  async writev(buffers) { let bytesWritten = 0; for (const b of buffers) bytesWritten += (await this.write(b)).bytesWritten; return { bytesWritten, buffers }; }
  async * readLines(options) { yield* lines(await this.readFile(optionsOf(options).encoding || "utf8")); }
  async sync() {}
  async datasync() {}
  async chmod() {}
  async utimes() {}
  async close() { this.closed = true; }
  async [Symbol.asyncDispose]() { this.closed = true; }
}

function lines(text) {
  const out = text.split(/\r?\n/);
  if (out[out.length - 1] === "") out.pop();
  return out;
}

function* open(p, flags) {
  const path = pathOf(p), flag = flags === undefined || flags === null ? "r" : flags;
  if (flag === "r" || flag === "r+" || flag === "rs") {
    const s = yield record({ op: "stat", path, call: "open" });
    if (flag === "r+" && s.dir) throw failure("EISDIR", "illegal operation on a directory, open '" + path + "'", { op: "open", path });
    if (flag === "r+" && s.readonly) throw failure("EROFS", "read-only file system, open '" + path + "'", { op: "open", path });
  } else yield record({ op: "write", path, data: "", flag: flagOf(flag, "w") });
  return new FileHandle(path, flag === "rs" ? "r" : flag);
}

const unsupported = (name) => function* (p) {
  throw failure("ENOSYS", "function not implemented, " + name + " '" + (p === undefined ? "" : StringCtor(p)) + "': there are no links, owners or watches here", { op: name, path: StringCtor(p) });
};
const nothing = function* (p) { yield record({ op: "stat", path: pathOf(p) }); };

const both = record({
  readFile, writeFile, appendFile, stat, lstat: stat, readdir, access, mkdir, mkdtemp, rm, rmdir, unlink, rename, copyFile, cp, truncate,
  realpath: function* (p) { const path = pathOf(p); yield record({ op: "stat", path }); return path_.resolve(path); },
  chmod: nothing, utimes: nothing,
  symlink: unsupported("symlink"), link: unsupported("link"), readlink: unsupported("readlink"), chown: unsupported("chown"), watch: unsupported("watch"),
});

export const constants = { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2 };

/** The module node:fs/promises. */
export const promises = { constants };
/** The module node:fs. */
export const fs = { promises, constants };

const names = keys(both);
for (let i = 0; i < names.length; i++) {
  const name = names[i], f = both[name];
  promises[name] = named((...a) => later(apply(f, undefined, a)), name);
  fs[name + "Sync"] = named((...a) => now(apply(f, undefined, a)), name + "Sync");
  fs[name] = callback(name, promises[name]);
}
promises.open = named((p, flags) => later(open(p, flags)), "open");
promises.exists = named((p) => later(exists(p)), "exists");
fs.existsSync = named((p) => now(exists(p)), "existsSync");
fs.exists = named((p, done) => { promises.exists(p).then(done); }, "exists");

function callback(name, f) {
  return named((...a) => {
    const done = a.pop();
    if (typeof done !== "function") throw typeError("ERR_INVALID_ARG_TYPE", "The last argument of fs." + name + " must be a function: use node:fs/promises, or fs." + name + "Sync");
    apply(f, undefined, a).then((v) => { done(null, v); }, (e) => { done(e); });
  }, name);
}

/** Reads a text file asynchronously. */
export const readText = (path) => later(readFile(path, "utf8"));

/** Throws unless path is a file. Does nothing if the host doesn't answer synchronous requests. */
export function mustBeFile(path) {
  let s;
  try { s = now(stat(path)); } catch (e) { if (e.code === undefined) return; throw e; }
  if (s.isDirectory()) throw failure("EISDIR", "illegal operation on a directory, read '" + path + "'", { op: "read", path });
}
