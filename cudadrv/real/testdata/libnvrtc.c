/* An NVRTC that handles the signals that end a process while it compiles, as the
 * real one did up to 13.0. The code that it makes says which handlers ran. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char code[64];

static void on_signal(int number) { sprintf(code + strlen(code), "handled %d;", number); }

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0; }
int nvrtcGetNumSupportedArchs(int *count) { return *count = 1, 0; }
int nvrtcGetSupportedArchs(int *architectures) { return *architectures = 90, 0; }
int nvrtcCreateProgram(void **program) { return *program = code, 0; }
int nvrtcDestroyProgram(void **program) { return *program = NULL, 0; }

int nvrtcCompileProgram(void *program) {
  (void)program;
  strcpy(code, "compiled;");
  struct sigaction action = {.sa_handler = on_signal}, before_action, other;
  void (*before)(int) = signal(SIGTERM, on_signal);
  sigaction(SIGINT, &action, &before_action);
  raise(SIGTERM);
  raise(SIGINT);
  signal(SIGTERM, before);
  sigaction(SIGINT, &before_action, NULL);
  /* What is no request to end is as it was. */
  sigaction(SIGURG, &action, &other);
  raise(SIGURG);
  sigaction(SIGURG, &other, NULL);
  return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *size) { return (void)program, *size = 0, 0; }
int nvrtcGetProgramLog(void *program, char *log) { return (void)program, *log = 0, 0; }
int nvrtcGetCUBINSize(void *program, size_t *size) { return (void)program, *size = strlen(code), 0; }
int nvrtcGetCUBIN(void *program, char *cubin) { return (void)program, memcpy(cubin, code, strlen(code)), 0; }
const char *nvrtcGetErrorString(int number) { return (void)number, "error"; }
