/* One run of a plan: phase by phase, memory, launches, a call of torch. */
#include "extension.h"

#include <string.h>

/* Work below which a run on the CPU holds the lock of the interpreter and stays on
 * its thread, in operations on elements: some 20 us, when releasing the lock and
 * waking another thread would cost as much again. */
enum { SMALL_WORK = 1 << 15, SLICE_MS = 50 };

void run_begin(Run *run) {
  run->plan = NULL;
  run->random = NULL;
  run->tensors = run->few_tensors;
  run->words = run->few_words;
  run->num_tensors = 0;
  run->has_stream = run->may_have_written = run->modes = 0;
  run->seed = run->offset = 0;
}

void run_end(Run *run) {
  while (run->num_tensors > 0) Py_XDECREF(run->tensors[--run->num_tensors]);
  if (run->plan) plan_release(run->plan);
  inputs_end(&run->in);
  if (run->tensors != run->few_tensors) PyMem_Free(run->tensors);
  if (run->words != run->few_words) PyMem_Free(run->words);
  Py_XDECREF(run->random);
}

/* Waits for a job and looks for signals meanwhile: an exception of a signal handler,
 * such as KeyboardInterrupt, ends a run, and leaves a plan to be made by itself. */
int wait_for(nvfi_job job, int is_run) {
  nvf_error error = {0};
  PyObject *type = NULL, *value, *traceback;
  int status;
  for (;;) {
    int ended;
    Py_BEGIN_ALLOW_THREADS;
    ended = nvfi_wait(job, SLICE_MS, &status, &error);
    Py_END_ALLOW_THREADS;
    if (ended) break;
    if (type || !PyErr_CheckSignals()) continue;
    if (!is_run) {
      nvfi_abandon(job);
      return 0;
    }
    PyErr_Fetch(&type, &value, &traceback);
    nvfi_stop(job);
  }
  if (!type) return check(status, &error);
  nvf_error_clear(&error);
  PyErr_Restore(type, value, traceback);
  return 0;
}

/* Makes room for tensors and words. */
static int reserve(Run *run) {
  const nvfi_plan *plan = run->plan;
  size_t tensors = (size_t)plan->description.num_outputs + (size_t)plan->description.num_workspaces, words = (size_t)plan->num_words;
  if (tensors > sizeof run->few_tensors / sizeof *run->few_tensors) {
    PyObject **more = PyMem_Malloc(tensors * sizeof *more);
    if (!more) return PyErr_NoMemory(), 0;
    run->tensors = more;
  }
  memset(run->tensors, 0, tensors * sizeof *run->tensors);
  run->num_tensors = (int32_t)tensors;
  if (words > sizeof run->few_words / sizeof *run->few_words) {
    uint64_t *more = PyMem_Malloc(words * sizeof *more);
    if (!more) return PyErr_NoMemory(), 0;
    run->words = more;
  }
  return 1;
}

static int find_stream(Run *run) {
  if (!run->has_stream && !current_stream(run->plan->description.device_index, &run->stream)) return 0;
  return run->has_stream = 1;
}

/* Whether the zeroed memories of a phase are borrowed; -1 with an exception. */
static int borrow(Run *run, const nvfi_phase *phase) {
  int borrowed;
  if (!phase->counters || !run->plan->runs_with_gpu) return 0; /* torch may not have started the device yet */
  if (!find_stream(run)) return -1;
  Py_BEGIN_ALLOW_THREADS; /* as for launches */
  borrowed = plan_borrow(run->plan, phase, run->stream, run->words);
  Py_END_ALLOW_THREADS;
  return borrowed;
}

static int allocate(Run *run, const nvfi_phase *phase, int borrowed) {
  int32_t count = phase->num_allocated - (borrowed ? phase->num_zeroed : 0);
  for (int32_t i = 0; i < count; i++) {
    void *address = NULL;
    PyObject *tensor = new_memory(run->plan, phase->allocated[i], &address);
    if (!tensor) return 0;
    run_put(run, phase->allocated[i], tensor, address);
  }
  return 1;
}

void run_put(Run *run, int32_t memory, PyObject *tensor, void *address) {
  run->tensors[memory] = tensor;
  run->words[run->plan->places[memory]] = (uintptr_t)address;
}

static int launch(Run *run, const nvfi_phase *phase, int borrowed) {
  nvf_error error = {0};
  const nvfi_plan *plan = run->plan;
  if (!find_stream(run)) return 0;
  int code;
  int32_t failed;
  /* A full queue blocks, and what is in it may wait for the lock. */
  Py_BEGIN_ALLOW_THREADS;
  code = plan_launch(plan, phase, borrowed, run->words, run->stream, &failed);
  Py_END_ALLOW_THREADS;
  return !code || check(nvfi_launch_error(run->plan, code, failed, &error), &error);
}

static int compute(Run *run, int32_t number) {
  nvf_error error = {0};
  nvfi_job job;
  const nvfi_plan *plan = run->plan;
  const nvfi_phase *phase = &plan->phases[number];
  for (int32_t i = 0; i < phase->num_zeroed; i++) {
    int32_t memory = phase->zeroed[i];
    memset((void *)(uintptr_t)run->words[plan->places[memory]], 0, (size_t)plan->memories[memory].num_bytes);
  }
  if (!phase->num_launches) return 1;
  if (plan->description.work < SMALL_WORK) return check(nvfi_run_phase(run->plan, number, run->in.inputs, run->words, &error), &error);
  return check(nvfi_start_run_phase(run->plan, number, run->in.inputs, run->words, &job, &error), &error) && wait_for(job, 1);
}

static int run_phase(Run *run, int32_t number) {
  const nvfi_phase *phase = &run->plan->phases[number];
  int borrowed = borrow(run, phase);
  if (borrowed < 0 || !allocate(run, phase, borrowed)) return 0;
  if (phase->num_launches || phase->num_zeroed) {
    run->may_have_written = 1;
    if (!(run->plan->description.device_type == NVF_CUDA ? launch(run, phase, borrowed) : compute(run, number))) return 0;
  }
  if (phase->call >= 0 && !call_torch(run, phase->call)) return 0;
  for (int32_t i = 0; i < phase->num_released; i++) Py_CLEAR(run->tensors[phase->released[i]]);
  return 1;
}

static PyObject *outputs_of(Run *run) {
  const nvf_plan_description *d = &run->plan->description;
  PyObject *list = PyList_New(d->num_outputs);
  for (int32_t i = 0; list && i < d->num_outputs; i++) {
    PyObject *tensor;
    if (run->plan->views && run->plan->views[i].kind == NVFI_VIEW)
      tensor = view_for(run, i);
    else {
      tensor = run->tensors[d->outputs[i].same_as < 0 ? i : d->outputs[i].same_as];
      Py_INCREF(tensor);
    }
    if (!tensor || PyList_SetItem(list, i, tensor)) Py_CLEAR(list);
  }
  return list;
}

static int run_phases(Run *run) {
  int ok = 1;
  for (int32_t i = 0; ok && i < run->plan->num_phases; i++) ok = run_phase(run, i);
  return calls_end(run) && ok;
}

PyObject *run_plan(Run *run) {
  nvf_error error = {0};
  const nvfi_plan *plan = run->plan;
  if (!reserve(run)) return NULL;
  plan_begin(plan, run->in.inputs, run->seed, run->offset, run->words);
  if (plan->num_scalars && !check(nvfi_scalars(run->plan, run->in.inputs, run->words + plan->scalars_at, &error), &error)) return NULL;
  return run_phases(run) ? outputs_of(run) : NULL;
}
