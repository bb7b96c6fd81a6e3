/* The line of Python that calls an operation.
 *
 * CPython finds the line of a frame by walking the line table of its code from
 * the start, which makes a definition of n lines in one function quadratic. So
 * the table of a code object that calls often is read once. */
#include "extension.h"

enum { SLOTS = 64, CALLS_BEFORE_TABLE = 64 };

/* What is known of one code object. A slot is taken over by the next code object
 * that falls into it, so the cache keeps at most SLOTS of them alive. */
static struct slot {
  PyObject *code, *filename;
  const char *file;
  int calls;
  Py_ssize_t num_ranges; /* 0: not read yet; -1: cannot be read */
  struct range {
    int end, line; /* of instructions before `end` */
  } *ranges;
} cache[SLOTS];

static struct slot *slot_of(PyObject *code) {
  struct slot *slot = &cache[((uintptr_t)code >> 5) % SLOTS];
  if (slot->code == code) return slot;
  PyObject *filename = PyObject_GetAttrString(code, "co_filename");
  const char *file = filename ? PyUnicode_AsUTF8AndSize(filename, NULL) : NULL;
  if (!file) {
    Py_XDECREF(filename);
    return NULL;
  }
  struct slot old = *slot;
  Py_INCREF(code);
  *slot = (struct slot){.code = code, .filename = filename, .file = file};
  PyMem_Free(old.ranges);
  Py_XDECREF(old.filename);
  Py_XDECREF(old.code);
  /* Releasing the old code may have run Python code that took the slot. */
  return slot->code == code ? slot : NULL;
}

/* Reads code.co_lines(): (start, end, line or None). */
static struct range *read_ranges(PyObject *code, Py_ssize_t *count) {
  PyObject *lines = PyObject_CallMethod(code, "co_lines", NULL);
  PyObject *list = lines ? PySequence_List(lines) : NULL;
  Py_XDECREF(lines);
  if (!list) return NULL;
  Py_ssize_t n = PyList_Size(list);
  struct range *ranges = PyMem_Malloc((size_t)(n + 1) * sizeof *ranges);
  for (Py_ssize_t i = 0; ranges && i < n; i++) {
    PyObject *item = PyList_GetItem(list, i), *line = PyTuple_GetItem(item, 2);
    ranges[i].end = (int)PyLong_AsLong(PyTuple_GetItem(item, 1));
    ranges[i].line = line == Py_None ? 0 : (int)PyLong_AsLong(line);
  }
  Py_DECREF(list);
  *count = n;
  return ranges;
}

static int line_in(const struct slot *slot, int instruction) {
  Py_ssize_t low = 0, high = slot->num_ranges - 1;
  while (low < high) {
    Py_ssize_t middle = (low + high) / 2;
    if (instruction < slot->ranges[middle].end) high = middle;
    else low = middle + 1;
  }
  return slot->ranges[low].line;
}

static int line_of(struct slot *slot, PyFrameObject *frame) {
  if (slot->num_ranges == 0 && ++slot->calls > CALLS_BEFORE_TABLE) {
    PyObject *code = slot->code;
    Py_ssize_t count = 0;
    struct range *ranges = read_ranges(code, &count);
    if (slot->code != code) { /* taken over meanwhile */
      PyMem_Free(ranges);
      return PyFrame_GetLineNumber(frame);
    }
    slot->ranges = ranges;
    slot->num_ranges = ranges && count > 0 ? count : -1;
  }
  if (slot->num_ranges > 0) {
    PyObject *instruction = PyObject_GetAttrString((PyObject *)frame, "f_lasti");
    int at = instruction ? (int)PyLong_AsLong(instruction) : -1;
    Py_XDECREF(instruction);
    if (at >= 0) return line_in(slot, at);
  }
  return PyFrame_GetLineNumber(frame);
}

void current_location(nvf_location *location) {
  *location = (nvf_location){0};
  PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
  if (!frame) return;
  PyObject *code = (PyObject *)PyFrame_GetCode(frame);
  struct slot *slot = slot_of(code);
  if (slot) {
    int line = line_of(slot, frame);
    if (slot->code == code) *location = (nvf_location){.file = slot->file, .line = line};
  }
  Py_DECREF(code);
  PyErr_Clear(); /* a location is not worth an error */
}
