/* The end of the interpreter while other threads run fusions. A thread that comes to
 * want the lock of an interpreter that has ended is unwound, and torch, whose frames
 * end the process then, is called in the middle of a run. So the end waits for runs that
 * are under way, and others do not begin. */
#include <time.h>
#include <unistd.h>

#include "extension.h"

/* All are read and written with the lock of the interpreter held. */
static int runs, leaving;
static unsigned long leaver;
static _Thread_local int depth; /* of this thread's runs: one may execute a fusion in a hook */

enum { SLICE_NS = 2000000, MOST_SLICES = 1000 }; /* two seconds */

void run_enter(void) {
  if (leaving && !depth && PyThread_get_thread_ident() != leaver) {
    (void)PyEval_SaveThread();
    for (;;) pause(); /* until the process ends, which waits for no daemon */
  }
  depth++;
  runs++;
}

void run_leave(void) {
  depth--;
  runs--;
}

PyObject *leave_interpreter(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  leaving = 1;
  leaver = PyThread_get_thread_ident();
  for (int i = 0; i < MOST_SLICES && runs > depth && !nvf_forked(); i++) {
    const struct timespec slice = {0, SLICE_NS};
    Py_BEGIN_ALLOW_THREADS;
    nanosleep(&slice, NULL);
    Py_END_ALLOW_THREADS;
  }
  Py_RETURN_NONE;
}
