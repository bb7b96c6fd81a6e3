/* Reading torch tensors.
 *
 * They are read by torch's DLPack exchange API, a table of C functions behind
 * torch.Tensor.__dlpack_c_exchange_api__ (30 ns a tensor), and where torch is
 * older by their attributes. It reads tensors of some kinds wrongly without a
 * word: subclasses, hence the exact types, and views with the conjugate or the
 * negative bit, hence resolve(). */
#include "extension.h"

/* ---- DLPack 1.x, as far as it is used ---- */

typedef struct {
  uint32_t major, minor;
} DLPackVersion;

typedef struct {
  void *data;
  int32_t device_type, device_index;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *sizes, *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct {
  DLPackVersion version;
  void *previous;
  void *allocate, *managed_from_object, *managed_to_object;
  int (*read)(void *object, DLTensor *tensor); /* 0, or -1 with an exception; the result is borrowed */
  int (*current_stream)(int32_t device_type, int32_t device_index, void **stream); /* as read */
} ExchangeAPI;

static const ExchangeAPI *exchange; /* NULL: torch has none */

/* ---- What torch gives ---- */

Torch torch = {.num_devices = -1};

/* The attribute of module at a dotted path. */
PyObject *lookup(PyObject *module, const char *path) {
  PyObject *names = PyUnicode_FromString(path), *parts = names ? PyUnicode_Split(names, NULL, -1) : NULL;
  Py_XDECREF(names);
  Py_INCREF(module);
  PyObject *object = module;
  for (Py_ssize_t i = 0; object && parts && i < PyList_Size(parts); i++) {
    PyObject *next = PyObject_GetAttr(object, PyList_GetItem(parts, i));
    Py_DECREF(object);
    object = next;
  }
  if (!parts) Py_CLEAR(object);
  Py_XDECREF(parts);
  return object;
}

/* lookup, where NULL without an exception stands for an attribute that is not there. */
static PyObject *lookup_optional(PyObject *module, const char *path) {
  PyObject *found = lookup(module, path);
  if (!found) PyErr_Clear();
  return found;
}

int find_torch(void) {
  PyObject *module = PyImport_ImportModule("torch");
  if (!module) return -1;
  /* What is found is kept, as torch is. */
  if (!torch.tensor) torch.tensor = (PyTypeObject *)lookup(module, "Tensor");
  if (torch.tensor && !torch.parameter) torch.parameter = (PyTypeObject *)lookup(module, "nn Parameter");
  if (torch.parameter && !torch.uint8) torch.uint8 = lookup(module, "uint8");
  if (torch.uint8 && !torch.device) torch.device = lookup(module, "device");
  if (torch.device && !torch.cpu) torch.cpu = PyUnicode_InternFromString("cpu");
  if (torch.cpu && !torch.cuda) torch.cuda = PyUnicode_InternFromString("cuda");
  if (torch.cuda && !torch.is_grad_enabled) torch.is_grad_enabled = lookup(module, "is_grad_enabled");
  if (torch.is_grad_enabled && !torch.set_grad_enabled) torch.set_grad_enabled = lookup(module, "_C _set_grad_enabled");
  if (torch.set_grad_enabled && !torch.is_autocast_enabled) torch.is_autocast_enabled = lookup(module, "is_autocast_enabled");
  if (torch.is_autocast_enabled && !torch.set_autocast_enabled) torch.set_autocast_enabled = lookup(module, "set_autocast_enabled");
  if (torch.set_autocast_enabled && !torch.empty_strided && (torch.empty_strided = lookup(module, "empty_strided"))) {
    torch.reinterpret = lookup_optional(module, "_C _dynamo guards _reinterpret_tensor");
    torch.increment_version = lookup_optional(module, "autograd graph increment_version");
    torch.empty_strided_cuda = lookup_optional(module, "_C _dynamo guards _empty_strided_cuda");
    torch.current_device = lookup_optional(module, "_C _cuda_getDevice");
    torch.current_stream = lookup_optional(module, "_C _cuda_getCurrentRawStream");
    torch.device_count = lookup_optional(module, "cuda device_count");
    torch.out_of_memory = lookup_optional(module, "OutOfMemoryError");
    PyObject *capsule = PyObject_GetAttrString((PyObject *)torch.tensor, "__dlpack_c_exchange_api__");
    const ExchangeAPI *api = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    if (api && api->version.major == 1) exchange = api;
    PyErr_Clear(); /* without it, tensors are read by attributes */
    Py_XDECREF(capsule);
  }
  Py_DECREF(module);
  return torch.empty_strided ? 0 : -1;
}

PyObject *torch_kind(int32_t device_type) { return device_type == NVF_CUDA ? torch.cuda : torch.cpu; }

/* ---- Reading ---- */

static int dtype_of_dlpack(const DLTensor *t) {
  if (t->code == 17 && t->bits == 4 && t->lanes == 2) return NVF_FLOAT4_E2M1FN_X2;
  if (t->lanes != 1) return -1;
  switch (t->code << 16 | t->bits) {
  case 6 << 16 | 8: return NVF_BOOL;
  case 0 << 16 | 32: return NVF_INT32;
  case 0 << 16 | 64: return NVF_INT;
  case 1 << 16 | 64: return NVF_UINT64;
  case 2 << 16 | 16: return NVF_HALF;
  case 4 << 16 | 16: return NVF_BFLOAT16;
  case 2 << 16 | 32: return NVF_FLOAT;
  case 2 << 16 | 64: return NVF_DOUBLE;
  case 10 << 16 | 8: return NVF_FLOAT8_E4M3FN;
  case 12 << 16 | 8: return NVF_FLOAT8_E5M2;
  case 14 << 16 | 8: return NVF_FLOAT8_E8M0FNU;
  case 5 << 16 | 64: return NVF_COMPLEX_FLOAT;
  case 5 << 16 | 128: return NVF_COMPLEX_DOUBLE;
  }
  return -1;
}

struct extents {
  struct extents *next;
  int64_t values[];
};

static int64_t *extents(Inputs *in, Py_ssize_t n) {
  if (in->used + n <= (Py_ssize_t)(sizeof in->extents / sizeof *in->extents)) {
    in->used += n;
    return in->extents + in->used - n;
  }
  struct extents *more = PyMem_Malloc(sizeof *more + (size_t)n * sizeof *more->values);
  if (!more) return (int64_t *)PyErr_NoMemory();
  more->next = in->more;
  in->more = more;
  return more->values;
}

static int bad_dtype(PyObject *tensor, Py_ssize_t position) {
  PyObject *dtype = PyObject_GetAttrString(tensor, "dtype");
  if (dtype)
    PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError,
                 "execute(): input %zd has dtype %S, which fusions do not have; convert it, for example with x.to(torch.int32)", position,
                 dtype);
  Py_XDECREF(dtype);
  return -1;
}

static int too_many(Py_ssize_t position, Py_ssize_t rank) {
  PyErr_Format(invalid_argument ? invalid_argument : PyExc_ValueError,
               "execute(): input %zd has %zd dimensions; at most 32 are supported", position, rank);
  return -1;
}

/* 1, 0 if torch cannot show the memory of the tensor, or -1 with an exception. */
static int read_by_exchange(Inputs *in, PyObject *tensor, Py_ssize_t position, nvf_input *out) {
  DLTensor t;
  if (exchange->read(tensor, &t)) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();
    return 0;
  }
  int dtype = dtype_of_dlpack(&t);
  if (dtype < 0) return bad_dtype(tensor, position);
  if (t.rank > 32) return too_many(position, t.rank);
  int64_t *copy = extents(in, 2 * (Py_ssize_t)t.rank);
  if (!copy) return -1;
  for (int32_t d = 0; d < t.rank; d++) {
    copy[d] = t.sizes[d];
    copy[t.rank + d] = t.strides[d];
  }
  out->dtype = dtype;
  out->device_type = t.device_type == 3 ? NVF_CPU : t.device_type; /* 3: pinned host memory */
  out->device_index = t.device_index;
  out->rank = t.rank;
  out->sizes = copy;
  out->strides = copy + t.rank;
  out->data = t.data ? (char *)t.data + t.byte_offset : NULL;
  return 1;
}

static int read_ints(PyObject *sequence, int64_t *out, Py_ssize_t n) {
  PyObject *items = sequence ? PySequence_Tuple(sequence) : NULL;
  int ok = items && PyTuple_Size(items) == n;
  for (Py_ssize_t i = 0; ok && i < n; i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(items, i));
    ok = !PyErr_Occurred();
  }
  Py_XDECREF(items);
  return ok;
}

/* As read_by_exchange, for a torch without it. */
static int read_by_attributes(Inputs *in, PyObject *tensor, Py_ssize_t position, nvf_input *out) {
  PyObject *shape = PyObject_GetAttrString(tensor, "shape"), *dtype = PyObject_GetAttrString(tensor, "dtype");
  PyObject *device = PyObject_GetAttrString(tensor, "device"), *strides = PyObject_CallMethod(tensor, "stride", NULL);
  PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL, *index = device ? PyObject_GetAttrString(device, "index") : NULL;
  PyObject *pointer = strides ? PyObject_CallMethod(tensor, "data_ptr", NULL) : NULL;
  Py_ssize_t rank = shape ? PySequence_Size(shape) : -1;
  int status = 0;
  if (rank > 32) status = too_many(position, rank);
  else if (pointer && type && dtype && rank >= 0) {
    int64_t *copy = extents(in, 2 * rank);
    out->dtype = dtype_of_torch(dtype);
    if (!copy) status = -1;
    else if (out->dtype < 0) status = bad_dtype(tensor, position);
    else if (read_ints(shape, copy, rank) && read_ints(strides, copy + rank, rank)) {
      out->device_type = PyUnicode_CompareWithASCIIString(type, "cpu") == 0 ? NVF_CPU
                         : PyUnicode_CompareWithASCIIString(type, "cuda") == 0 ? NVF_CUDA : 0;
      out->device_index = index && index != Py_None ? (int32_t)PyLong_AsLong(index) : 0;
      out->rank = (int32_t)rank;
      out->sizes = copy;
      out->strides = copy + rank;
      out->data = PyLong_AsVoidPtr(pointer);
      status = 1;
    }
  }
  if (status == 0 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) status = -1;
    else PyErr_Clear();
  }
  PyObject *const all[] = {shape, dtype, device, strides, type, index, pointer};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) Py_XDECREF(all[i]);
  return status;
}

static int read_tensor(Inputs *in, PyObject *tensor, Py_ssize_t position, nvf_input *out) {
  out->kind = NVF_KIND_TENSOR;
  return exchange ? read_by_exchange(in, tensor, position, out) : read_by_attributes(in, tensor, position, out);
}

/* Whether torch may have set the conjugate or negative bit of a tensor: it does
 * for complex numbers, and for their imaginary parts, whose strides are even. */
static int may_have_bits(const nvf_input *in) {
  if (in->dtype == NVF_COMPLEX_FLOAT || in->dtype == NVF_COMPLEX_DOUBLE) return 1;
  if (in->dtype != NVF_FLOAT && in->dtype != NVF_DOUBLE && in->dtype != NVF_HALF) return 0;
  for (int32_t d = 0; d < in->rank; d++)
    if (in->sizes[d] > 1 && in->strides[d] % 2 != 0) return 0;
  return 1;
}

static int is_set(PyObject *tensor, const char *method) {
  PyObject *answer = PyObject_CallMethod(tensor, method, NULL);
  int truth = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  return truth;
}

/* Reads, in place of a tensor with one of the bits, its elements in new memory. */
static int resolve(Inputs *in, PyObject *tensor, Py_ssize_t position, nvf_input *out) {
  int conjugate = is_set(tensor, "is_conj"), negative = conjugate < 0 ? -1 : is_set(tensor, "is_neg");
  if (negative < 0) return -1;
  if (!conjugate && !negative) return 1;
  PyObject *first = PyObject_CallMethod(tensor, "resolve_conj", NULL);
  PyObject *plain = first ? PyObject_CallMethod(first, "resolve_neg", NULL) : NULL;
  Py_XDECREF(first);
  PyObject *key = plain ? PyLong_FromSsize_t(position) : NULL;
  if (key && !in->resolved) in->resolved = PyDict_New();
  int status = key && in->resolved && !PyDict_SetItem(in->resolved, key, plain) ? read_tensor(in, plain, position, out) : -1;
  Py_XDECREF(key);
  Py_XDECREF(plain);
  return status;
}

static int read_number(PyObject *object, Py_ssize_t position, nvf_input *out) {
  if (PyFloat_CheckExact(object)) {
    out->kind = NVF_KIND_FLOAT;
    out->real = PyFloat_AsDouble(object);
    return 1;
  }
  Arguments a;
  nvf_value value;
  arguments_begin(&a, "execute");
  a.noun = "input";
  a.first = 0;
  int status = convert(&a, object, position, &value);
  arguments_end(&a);
  if (status) return -1;
  out->kind = value.kind;
  out->integer = value.integer;
  out->real = value.real;
  out->imag = value.imag;
  return 1;
}

static int read_one(Inputs *in, PyObject *object, Py_ssize_t position, nvf_input *out) {
  PyTypeObject *type = Py_TYPE(object);
  *out = (nvf_input){0};
  if (type == torch.tensor || type == torch.parameter) {
    int status = read_tensor(in, object, position, out);
    return status == 1 && may_have_bits(out) ? resolve(in, object, position, out) : status;
  }
  if (PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object))
    return read_number(object, position, out);
  return 0;
}

int inputs_read(Inputs *in, PyObject *list) {
  enum { FEW = sizeof in->few_inputs / sizeof *in->few_inputs };
  int is_list = PyList_Check(list);
  in->resolved = NULL;
  in->used = 0;
  in->more = NULL;
  in->inputs = in->few_inputs;
  in->objects = in->few_objects;
  in->count = in->held = 0;
  if (!is_list && !PyTuple_Check(list)) return 0;
  Py_ssize_t n = is_list ? PyList_Size(list) : PyTuple_Size(list);
  if (n > FEW) {
    in->inputs = n <= INT32_MAX ? PyMem_Malloc((size_t)n * sizeof *in->inputs) : NULL;
    in->objects = n <= INT32_MAX ? PyMem_Malloc((size_t)n * sizeof *in->objects) : NULL;
    if (!in->inputs || !in->objects) return PyErr_NoMemory(), -1;
  }
  /* All of them before anything runs that could change the list. */
  for (; in->held < n; in->held++) {
    PyObject *item = is_list ? PyList_GetItem(list, in->held) : PyTuple_GetItem(list, in->held);
    Py_INCREF(item);
    in->objects[in->held] = item;
  }
  in->count = (int32_t)n;
  for (Py_ssize_t i = 0; i < n; i++) {
    int status = read_one(in, in->objects[i], i, &in->inputs[i]);
    if (status != 1) return status;
  }
  return 1;
}

void inputs_end(Inputs *in) {
  while (in->more) {
    struct extents *more = in->more;
    in->more = more->next;
    PyMem_Free(more);
  }
  while (in->held > 0) Py_DECREF(in->objects[--in->held]);
  if (in->inputs != in->few_inputs) PyMem_Free(in->inputs);
  if (in->objects != in->few_objects) PyMem_Free(in->objects);
  Py_XDECREF(in->resolved);
}

void inputs_refuse(PyObject *list) {
  Inputs in;
  PyObject *items = PySequence_Tuple(list);
  inputs_read(&in, items);
  Py_ssize_t at = 0, n = items ? PyTuple_Size(items) : 0;
  PyErr_Clear();
  for (nvf_input unused; at < n; at++) {
    int status = read_one(&in, PyTuple_GetItem(items, at), at, &unused);
    if (status != 1) break;
  }
  inputs_end(&in);
  if (at < n && !PyErr_Occurred())
    PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError,
                 "execute(): input %zd (%R) is not a plain torch.Tensor whose memory can be read, nor a bool, an int, a float or a complex",
                 at, (PyObject *)Py_TYPE(PyTuple_GetItem(items, at)));
  Py_XDECREF(items);
}

/* ---- What else is read ---- */

int tensor_read(Inputs *in, PyObject *tensor, nvf_input *out) {
  *out = (nvf_input){0};
  return Py_TYPE(tensor) == torch.tensor ? read_tensor(in, tensor, 0, out) : 0;
}

int memory_of(PyObject *tensor, int32_t *device_index, void **memory) {
  *memory = NULL;
  *device_index = 0;
  if (Py_TYPE(tensor) != torch.tensor) return 0;
  if (exchange) {
    DLTensor t;
    if (exchange->read(tensor, &t)) return 0;
    *memory = t.data;
    *device_index = t.device_index;
    return 1;
  }
  PyObject *pointer = PyObject_CallMethod(tensor, "data_ptr", NULL), *index = pointer ? PyObject_CallMethod(tensor, "get_device", NULL) : NULL;
  if (index) {
    *memory = PyLong_AsVoidPtr(pointer);
    *device_index = (int32_t)PyLong_AsLong(index); /* -1: the CPU */
  }
  Py_XDECREF(pointer);
  Py_XDECREF(index);
  return !PyErr_Occurred();
}

int current_stream(int32_t device_index, uintptr_t *stream) {
  void *handle = NULL;
  if (exchange && exchange->current_stream) {
    if (exchange->current_stream(NVF_CUDA, device_index, &handle)) return 0;
    *stream = (uintptr_t)handle;
    return 1;
  }
  PyObject *number = torch.current_stream ? PyObject_CallFunction(torch.current_stream, "i", (int)device_index) : NULL;
  if (!number && !PyErr_Occurred())
    PyErr_SetString(fusion_error ? fusion_error : PyExc_RuntimeError, "execute(): this torch does not say which CUDA stream is the current one");
  if (number) *stream = (uintptr_t)PyLong_AsUnsignedLongLong(number);
  Py_XDECREF(number);
  return !PyErr_Occurred();
}
