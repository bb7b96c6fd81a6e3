/* Making torch tensors: the memory that a plan asks for. What a plan calls torch
 * with is made once, and kept with the plan. */
#include "extension.h"

PyObject *tuple_of(const int64_t *values, int32_t n) {
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; i++) {
    PyObject *item = PyLong_FromLongLong(values[i]);
    if (!item || PyTuple_SetItem(tuple, i, item)) Py_CLEAR(tuple);
  }
  return tuple;
}

/* The device of a plan as torch has it. */
static PyObject *device_of(const nvf_plan_description *d) {
  if (d->device_type == NVF_CPU) return PyObject_CallFunction(torch.device, "s", "cpu");
  return PyObject_CallFunction(torch.device, "si", "cuda", (int)d->device_index);
}

/* The arguments of a call that makes memory: of _empty_strided_cuda, and of
 * empty_strided with its keywords. */
static PyObject *call_of(const int64_t *sizes, const int64_t *strides, int32_t rank, PyObject *dtype, PyObject *device) {
  PyObject *shape = tuple_of(sizes, rank), *steps = shape ? tuple_of(strides, rank) : NULL;
  PyObject *call = steps && dtype ? Py_BuildValue("((OOO)(OO){s:O,s:O})", shape, steps, dtype, shape, steps, "dtype", dtype, "device", device) : NULL;
  Py_XDECREF(shape);
  Py_XDECREF(steps);
  return call;
}

/* The call that makes a memory. */
static PyObject *call_for(const nvf_output *m, PyObject *device) {
  static const int64_t one = 1;
  if (m->dtype == NVF_NULL) return call_of(&m->num_bytes, &one, 1, torch.uint8, device);
  return call_of(m->sizes, m->strides, m->rank, torch_dtype(m->dtype), device);
}

/* How many memories a run of the plan has. */
static int32_t num_memories(const nvfi_plan *plan) { return plan->description.num_outputs + plan->description.num_workspaces; }

/* The sizes and strides of an output that is a view. */
static PyObject *extents_of(const nvfi_argument *a) {
  PyObject *sizes = tuple_of(a->sizes, a->rank), *strides = sizes ? tuple_of(a->strides, a->rank) : NULL;
  PyObject *pair = strides ? PyTuple_Pack(2, sizes, strides) : NULL;
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  return pair;
}

/* The calls that make memories, then what calls of torch keep, then sizes and
 * strides of outputs if some are views: a tuple, borrowed. */
static PyObject *objects_of(nvfi_plan *plan) {
  if (plan->objects) return plan->objects;
  int32_t memories = num_memories(plan), views = memories + plan->num_calls, count = views + (plan->views ? plan->description.num_outputs : 0);
  PyObject *device = device_of(&plan->description), *objects = device ? PyTuple_New(count) : NULL;
  for (int32_t i = 0; objects && i < count; i++) {
    PyObject *object;
    if (i < memories) object = call_for(&plan->memories[i], device);
    else if (i < views) object = new_call(plan, i - memories, device);
    else object = extents_of(&plan->views[i - views]);
    if (!object || PyTuple_SetItem(objects, i, object)) Py_CLEAR(objects);
  }
  Py_XDECREF(device);
  if (!objects) return NULL;
  if (plan->objects) Py_DECREF(objects); /* another thread was faster */
  else plan->objects = objects;
  return plan->objects;
}

PyObject *kept_call(nvfi_plan *plan, int32_t call) {
  PyObject *objects = objects_of(plan);
  return objects ? PyTuple_GetItem(objects, num_memories(plan) + call) : NULL;
}

int num_devices(void) {
  if (torch.num_devices >= 0) return torch.num_devices;
  PyObject *count = torch.device_count ? PyObject_CallNoArgs(torch.device_count) : PyLong_FromLong(0);
  long number = count ? PyLong_AsLong(count) : -1;
  Py_XDECREF(count);
  if (PyErr_Occurred()) return -1;
  return torch.num_devices = number > 0 ? (int)number : 0;
}

/* Whether the device of a plan is the one that torch allocates on, and torch has
 * started it; -1 with an exception. */
static int is_current(const nvfi_plan *plan) {
  if (plan->description.device_type != NVF_CUDA || !plan->runs_with_gpu || !torch.empty_strided_cuda || !torch.current_device) return 0;
  int devices = num_devices();
  if (devices <= 1) return devices < 0 ? -1 : 1;
  PyObject *current = PyObject_CallNoArgs(torch.current_device);
  long number = current ? PyLong_AsLong(current) : -1;
  Py_XDECREF(current);
  return PyErr_Occurred() ? -1 : number == plan->description.device_index;
}

/* Makes what was raised before the cause of the exception that is set. */
static void set_cause(PyObject *cause, PyObject *traceback) {
  PyObject *own_type, *own, *own_traceback;
  PyErr_Fetch(&own_type, &own, &own_traceback);
  PyErr_NormalizeException(&own_type, &own, &own_traceback);
  if (traceback) PyException_SetTraceback(cause, traceback);
  Py_INCREF(cause);
  PyException_SetCause(own, cause);
  PyErr_Restore(own_type, own, own_traceback);
}

/* Raises FusionError for what torch raised instead of memory, whose cause that is;
 * OutOfMemoryError stays, which programs catch. Of its text the first line is
 * shown: a stack of C++ may follow. */
static void refuse_memory(const nvfi_plan *plan, int32_t number) {
  const nvf_plan_description *d = &plan->description;
  if (torch.out_of_memory && PyErr_ExceptionMatches(torch.out_of_memory)) return;
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
      !PyErr_ExceptionMatches(PyExc_AssertionError)) /* raised by a torch without CUDA */
    return;
  PyObject *type, *cause, *traceback;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  PyObject *text = PyObject_Str(cause);
  PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  const nvf_output *m = &plan->memories[number];
  PyObject *sizes = lines && number < d->num_outputs ? tuple_of(m->sizes, m->rank) : NULL;
  PyObject *list = sizes ? PySequence_List(sizes) : NULL;
  PyObject *words = lines && PyList_Size(lines) ? PyList_GetItem(lines, 0) : type;
  PyObject *class = fusion_error ? fusion_error : PyExc_RuntimeError;
  if (list)
    PyErr_Format(class, "execute(): output %d of shape %S needs %lld bytes: %S", (int)number, list, (long long)m->num_bytes, words);
  else if (number >= d->num_outputs)
    PyErr_Format(class, "execute(): a workspace of %lld bytes is needed: %S", (long long)m->num_bytes, words);
  if (PyErr_Occurred()) set_cause(cause, traceback);
  Py_XDECREF(list);
  Py_XDECREF(sizes);
  Py_XDECREF(lines);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(traceback);
}

/* Whether a tensor has the memory that was asked for. */
static int is_usable(const nvfi_plan *plan, int32_t number, PyObject *tensor, void **memory) {
  const nvf_plan_description *d = &plan->description;
  int32_t device;
  if (!memory_of(tensor, &device, memory) || (d->device_type == NVF_CUDA && device != d->device_index)) return 0;
  return *memory || plan->memories[number].num_bytes == 0;
}

PyObject *new_memory(nvfi_plan *plan, int32_t number, void **memory) {
  PyObject *calls = objects_of(plan), *call = calls ? PyTuple_GetItem(calls, number) : NULL;
  int current = call ? is_current(plan) : -1;
  if (current < 0) return NULL;
  if (current) {
    PyObject *tensor = PyObject_Call(torch.empty_strided_cuda, PyTuple_GetItem(call, 0), NULL);
    if (tensor && is_usable(plan, number, tensor, memory)) return tensor;
    if (!tensor) return refuse_memory(plan, number), NULL;
    Py_DECREF(tensor); /* on another device: the public function is told which */
    if (PyErr_Occurred()) return NULL;
  }
  PyObject *tensor = PyObject_Call(torch.empty_strided, PyTuple_GetItem(call, 1), PyTuple_GetItem(call, 2));
  if (tensor && is_usable(plan, number, tensor, memory)) return tensor;
  if (!tensor) refuse_memory(plan, number);
  else if (!PyErr_Occurred())
    PyErr_Format(fusion_error ? fusion_error : PyExc_RuntimeError,
                 "execute(): torch.empty_strided gave %R without memory; fusions do not run under FakeTensorMode or another mode that replaces tensors",
                 (PyObject *)Py_TYPE(tensor));
  Py_XDECREF(tensor);
  return NULL;
}

/* Raises FusionError for what torch raised instead of a view, which is the cause. */
static void refuse_view(int32_t output) {
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return;
  PyObject *type, *cause, *traceback;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  PyErr_Format(fusion_error ? fusion_error : PyExc_RuntimeError, "execute(): output %d is a view of another tensor, and torch fails: %S", (int)output, cause);
  set_cause(cause, traceback);
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(traceback);
}

/* A view of a tensor that takes no part in its autograd, from an element on that is
 * counted from its first one. */
static PyObject *seen(PyObject *tensor, PyObject *extents, int64_t offset) {
  PyObject *plain = PyObject_CallMethod(tensor, "detach", NULL), *first = plain ? PyObject_CallMethod(plain, "storage_offset", NULL) : NULL;
  long long at = first ? PyLong_AsLongLong(first) : -1;
  PyObject *view = NULL;
  if (first && !PyErr_Occurred())
    view = PyObject_CallMethod(plain, "as_strided", "OOL", PyTuple_GetItem(extents, 0), PyTuple_GetItem(extents, 1), at + (long long)offset);
  Py_XDECREF(first);
  Py_XDECREF(plain);
  return view;
}

PyObject *view_for(Run *run, int32_t output) {
  nvfi_plan *plan = run->plan;
  const nvf_plan_description *d = &plan->description;
  const nvfi_argument *a = &plan->views[output];
  PyObject *objects = objects_of(plan), *tensor = objects ? tensor_of(run, a->from) : NULL;
  if (!tensor) return NULL;
  PyObject *view = seen(tensor, PyTuple_GetItem(objects, num_memories(plan) + plan->num_calls + output), a->offset);
  Py_DECREF(tensor);
  if (!view) return refuse_view(output), NULL;
  int32_t device;
  void *memory;
  if (memory_of(view, &device, &memory) && (d->device_type != NVF_CUDA || device == d->device_index)) return view;
  if (!PyErr_Occurred())
    PyErr_Format(fusion_error ? fusion_error : PyExc_RuntimeError,
                 "execute(): torch gave as output %d %R without memory; fusions do not run under FakeTensorMode or another mode that replaces tensors",
                 (int)output, (PyObject *)Py_TYPE(view));
  Py_DECREF(view);
  return NULL;
}

void clean_plans(void) {
  for (nvfi_plan *plan = plan_exhume(), *next; plan; plan = next) {
    next = plan->next;
    Py_DECREF((PyObject *)plan->objects);
    plan->objects = NULL;
    plan_bury(plan);
  }
}

int mark_written(PyObject *tensor) {
  if (!torch.increment_version) return 0;
  PyObject *none = PyObject_CallFunctionObjArgs(torch.increment_version, tensor, NULL);
  if (!none && PyErr_ExceptionMatches(PyExc_RuntimeError)) PyErr_Clear(); /* inference tensors count no versions */
  Py_XDECREF(none);
  return PyErr_Occurred() ? -1 : 0;
}
