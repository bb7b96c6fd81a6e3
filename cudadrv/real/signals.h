/* Keeps a library from replacing the process's signal handlers. */
#ifndef NVFUSER_GO_SIGNALS_H
#define NVFUSER_GO_SIGNALS_H

/* Lets the calls of signal() and sigaction() that an open library makes leave
 * the handlers of signals that ask a process to end as they are. Returns how many
 * of its references were changed.
 *
 * NVRTC up to 13.0 handles SIGINT and SIGTERM by exit() for as long as its front
 * end runs (from 18 to 130 ms of a compilation that was looked at), whichever
 * thread that is: Ctrl-C then ended the process in the middle of everything, with
 * no KeyboardInterrupt and sometimes with a crash. It is not told otherwise by an
 * option, its handler belongs to the whole process, and between a check and its
 * call there would be a gap. What it calls is in its own table of imported
 * functions, which the loader fills in and we overwrite. */
int signals_keep(void *library);

#endif
