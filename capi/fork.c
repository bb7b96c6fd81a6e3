/* Marks the child of a fork. See nvf_forked in nvfuser_go.h. */
#include <pthread.h>

#include "nvfuser_go.h"

/* Written by the only thread of a new process, before anything can read it. */
static volatile int forked;

static void mark_child(void) { forked = 1; }

int nvf_forked(void) { return forked; }

/* Runs when the library is loaded, so that a C program is covered too. There
 * is no error to report to: pthread_atfork fails only without memory. */
__attribute__((constructor)) static void watch_fork(void) {
  (void)pthread_atfork(NULL, NULL, mark_child);
}
