// CPython as a WASI reactor: bp_boot once, when the golden image is made, then one bp_deliver for each line of the host
// and bp_idle whenever those are dealt with. Between calls nothing is on the stack: linear memory is the whole state.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(n) __attribute__((export_name(#n)))
#define IMPORT(n) __attribute__((import_module("env"), import_name(#n)))

// One line of the guest protocol, without its newline, to the host.
IMPORT(host_write) extern void host_write(const char *line, size_t len);
// A question: waits for its answer and gives its length, or -1 when there is none. host_answer copies that answer.
IMPORT(host_ask) extern int32_t host_ask(const char *question, size_t len);
IMPORT(host_answer) extern void host_answer(char *to);
// The next line of the host: waits for it and gives its length, or -1 when the host has hung up. host_answer copies it.
IMPORT(host_next) extern int32_t host_next(void);
// Sets the guest's clock, in milliseconds since the epoch.
IMPORT(host_clock) extern void host_clock(double ms);

EXPORT(bp_alloc) void *bp_alloc(size_t n) { return malloc(n); }
EXPORT(bp_free) void bp_free(void *p) { free(p); }

// The table of open files, which the host's WASI functions keep: in linear memory, so that it is part of every snapshot.
#define FILES 64
#define FILE_SIZE 1024
static _Alignas(16) unsigned char files[FILES * FILE_SIZE];
EXPORT(bp_files) void *bp_files(void) { return files; }

// Randomness: ChaCha20 (RFC 8439, 2.3) in counter mode under the key that the host gave last.
static struct {
  uint32_t state[16];
  unsigned char block[64];
  unsigned used;
} drbg = {.used = 64};

#define ROT(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define QUARTER(a, b, c, d) \
  (a += b, d ^= a, d = ROT(d, 16), c += d, b ^= c, b = ROT(b, 12), a += b, d ^= a, d = ROT(d, 8), c += d, b ^= c, b = ROT(b, 7))

static void drbg_seed(const unsigned char *key) {
  static const uint32_t sigma[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  memset(&drbg, 0, sizeof drbg);
  memcpy(drbg.state, sigma, sizeof sigma);
  memcpy(drbg.state + 4, key, 32);
  drbg.used = 64;
}

static void drbg_block(void) {
  uint32_t x[16];
  memcpy(x, drbg.state, sizeof x);
  for (int i = 0; i < 10; i++) {
    QUARTER(x[0], x[4], x[8], x[12]);
    QUARTER(x[1], x[5], x[9], x[13]);
    QUARTER(x[2], x[6], x[10], x[14]);
    QUARTER(x[3], x[7], x[11], x[15]);
    QUARTER(x[0], x[5], x[10], x[15]);
    QUARTER(x[1], x[6], x[11], x[12]);
    QUARTER(x[2], x[7], x[8], x[13]);
    QUARTER(x[3], x[4], x[9], x[14]);
  }
  for (int i = 0; i < 16; i++) x[i] += drbg.state[i];
  memcpy(drbg.block, x, sizeof x);
  if (++drbg.state[12] == 0) drbg.state[13]++;
  drbg.used = 0;
}

// getentropy is libc's source of randomness, and Python's: random, os.urandom, uuid, secrets.
int getentropy(void *to, size_t n) {
  for (unsigned char *p = to; n > 0;) {
    if (drbg.used == sizeof drbg.block) drbg_block();
    size_t k = sizeof drbg.block - drbg.used;
    if (k > n) k = n;
    memcpy(p, drbg.block + drbg.used, k);
    drbg.used += k, p += k, n -= k;
  }
  return 0;
}

// The module _host.

static PyObject *py_write(PyObject *self, PyObject *line) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(line, &n);
  if (!s) return NULL;
  host_write(s, n);
  Py_RETURN_NONE;
}

static PyObject *answer(int32_t len) {
  if (len < 0) Py_RETURN_NONE;
  char *b = PyMem_Malloc(len + 1);
  if (!b) return PyErr_NoMemory();
  host_answer(b);
  PyObject *r = PyUnicode_DecodeUTF8(b, len, "replace");
  PyMem_Free(b);
  return r;
}

static PyObject *py_ask(PyObject *self, PyObject *question) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(question, &n);
  return s ? answer(host_ask(s, n)) : NULL;
}

static PyObject *py_next(PyObject *self, PyObject *none) { return answer(host_next()); }

static PyObject *py_clock(PyObject *self, PyObject *ms) {
  double t = PyFloat_AsDouble(ms);
  if (t == -1 && PyErr_Occurred()) return NULL;
  host_clock(t);
  Py_RETURN_NONE;
}

static PyObject *py_seed(PyObject *self, PyObject *key) {
  if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) != 32) {
    PyErr_SetString(PyExc_ValueError, "a seed has 32 bytes");
    return NULL;
  }
  drbg_seed((const unsigned char *)PyBytes_AS_STRING(key));
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"write", py_write, METH_O, NULL},
    {"ask", py_ask, METH_O, NULL},
    {"next", py_next, METH_NOARGS, NULL},
    {"clock", py_clock, METH_O, NULL},
    {"seed", py_seed, METH_O, NULL},
    {0},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_host", NULL, -1, methods};
static PyObject *init_host(void) { return PyModule_Create(&module); }

// Everything that there is when the image is made lives for ever: then nobody counts references to it, and the pages
// that it is in stay those of the image (PEP 683).

static PyObject **todo; // what has been reached and not been looked into
static size_t todo_len, todo_cap;

static int reach(PyObject *op, void *arg) {
  if (!op || op->ob_refcnt == _Py_IMMORTAL_REFCNT) return 0;
  op->ob_refcnt = _Py_IMMORTAL_REFCNT;
  if (!Py_TYPE(op)->tp_traverse && !PyCode_Check(op)) return 0;
  if (todo_len == todo_cap) {
    size_t cap = todo_cap ? 2 * todo_cap : 1 << 12;
    PyObject **more = realloc(todo, cap * sizeof *more);
    if (!more) return -1;
    todo = more, todo_cap = cap;
  }
  todo[todo_len++] = op;
  return 0;
}

static int reach_code(PyCodeObject *c) {
  return reach(c->co_consts, NULL) | reach(c->co_names, NULL) | reach(c->co_exceptiontable, NULL) | reach(c->co_localsplusnames, NULL) |
         reach(c->co_localspluskinds, NULL) | reach(c->co_filename, NULL) | reach(c->co_name, NULL) | reach(c->co_qualname, NULL) |
         reach(c->co_linetable, NULL);
}

static int immortalize(void) {
  PyObject *gc = PyImport_ImportModule("gc"), *all = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
  int bad = !all;
  for (Py_ssize_t i = 0; !bad && i < PyList_GET_SIZE(all); i++) bad = reach(PyList_GET_ITEM(all, i), NULL);
  while (!bad && todo_len > 0) {
    PyObject *op = todo[--todo_len];
    if (PyCode_Check(op)) bad = reach_code((PyCodeObject *)op);
    else bad = Py_TYPE(op)->tp_traverse(op, reach, NULL);
    if (!bad) bad = reach((PyObject *)Py_TYPE(op), NULL);
  }
  free(todo);
  todo = NULL, todo_len = todo_cap = 0;
  Py_XDECREF(all);
  PyObject *r = bad ? NULL : PyObject_CallMethod(gc, "freeze", NULL);
  Py_XDECREF(r);
  Py_XDECREF(gc);
  return r ? 0 : -1;
}

static PyObject *deliver, *idle;
static char error[4096]; // what the driver raised, which never should

EXPORT(bp_error) const char *bp_error(void) { return error; }

static int failed(void) {
  PyObject *e = PyErr_GetRaisedException(), *s = e ? PyObject_Str(e) : NULL;
  const char *text = s ? PyUnicode_AsUTF8(s) : NULL;
  snprintf(error, sizeof error, "%s: %s", e ? Py_TYPE(e)->tp_name : "error", text ? text : "?");
  Py_XDECREF(s);
  Py_XDECREF(e);
  PyErr_Clear();
  return 1;
}

// bp_boot starts the interpreter and runs the driver, the text of a module that then has the functions deliver(line)
// and idle(). It gives 0, or 1 with a text in bp_error.
EXPORT(bp_boot) int bp_boot(const char *driver, size_t len) {
  static const unsigned char none[32];
  drbg_seed(none);
  PyImport_AppendInittab("_host", init_host);
  PyPreConfig pre;
  PyPreConfig_InitIsolatedConfig(&pre);
  pre.utf8_mode = 1;
  PyStatus status = Py_PreInitialize(&pre);
  PyConfig c;
  PyConfig_InitIsolatedConfig(&c);
  c.write_bytecode = 0;
  c.site_import = 0;
  c.install_signal_handlers = 0;
  c.use_hash_seed = 1;
  c.hash_seed = 0;
  c.pathconfig_warnings = 0;
  c.faulthandler = 0;
  c.module_search_paths_set = 1;
  PyWideStringList_Append(&c.module_search_paths, L"/lib/python3.13");
  PyConfig_SetBytesString(&c, &c.home, "/");
  PyConfig_SetBytesString(&c, &c.program_name, "/bin/python3");
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&c);
  PyConfig_Clear(&c);
  if (PyStatus_Exception(status)) {
    snprintf(error, sizeof error, "start the interpreter: %s", status.err_msg ? status.err_msg : "?");
    return 1;
  }
  PyObject *m = PyImport_AddModule("_driver");
  if (!m) return failed();
  PyObject *d = PyModule_GetDict(m), *text = PyUnicode_DecodeUTF8(driver, len, NULL);
  const char *s = text ? PyUnicode_AsUTF8(text) : NULL;
  PyObject *code = s ? Py_CompileString(s, "<driver>", Py_file_input) : NULL;
  Py_XDECREF(text);
  if (!code || PyDict_SetItemString(d, "__builtins__", PyEval_GetBuiltins()) < 0) return failed();
  PyObject *r = PyEval_EvalCode(code, d, d);
  Py_DECREF(code);
  if (!r) return failed();
  Py_DECREF(r);
  deliver = Py_XNewRef(PyDict_GetItemString(d, "deliver"));
  idle = Py_XNewRef(PyDict_GetItemString(d, "idle"));
  if (!deliver || !idle) {
    snprintf(error, sizeof error, "the driver has no deliver or idle");
    return 1;
  }
  PyGC_Collect();
  return immortalize() < 0 ? failed() : 0;
}

// bp_deliver takes a line of the host; bp_idle is called when nothing is left to deliver. Both give 0, or 1 with a text
// in bp_error.
EXPORT(bp_deliver) int bp_deliver(const char *line, size_t len) {
  PyObject *s = PyUnicode_DecodeUTF8(line, len, "replace");
  PyObject *r = s ? PyObject_CallOneArg(deliver, s) : NULL;
  Py_XDECREF(s);
  if (!r) return failed();
  Py_DECREF(r);
  return 0;
}

EXPORT(bp_idle) int bp_idle(void) {
  PyObject *r = PyObject_CallNoArgs(idle);
  if (!r) return failed();
  Py_DECREF(r);
  return 0;
}
