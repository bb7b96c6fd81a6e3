/* Keeps signals of the process from the threads of Go.
 *
 * The kernel gives a signal such as SIGINT to any thread that does not block it, where
 * the first one has another to handle, as SIGURG, by which Go interrupts threads. Python
 * notes a signal wherever its handler runs, but its first thread, which alone runs
 * handlers of programs, may look for it only much later if that was another one. So
 * threads of Go block what programs handle. Those of other libraries do not, so the
 * extension module looks for signals when it is called, too.
 *
 * They have the mask of the thread that loads the library, which Go's runtime takes
 * while constructors run: this one blocks before that, the other one is after it. */
#include <pthread.h>
#include <signal.h>

static sigset_t before;
static int blocked;

/* Not those that a thread raises itself, nor those that Go needs: SIGURG stops a
 * thread, SIGPROF measures one. */
__attribute__((constructor(101))) static void block(void) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGURG, SIGPROF};
  sigset_t all;
  sigfillset(&all);
  for (unsigned i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
  blocked = !pthread_sigmask(SIG_BLOCK, &all, &before);
}

__attribute__((constructor)) static void restore(void) {
  if (blocked) (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}
