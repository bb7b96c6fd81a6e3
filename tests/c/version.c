/* Loads the library into a program without Python and asks for its version. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvfuser_go.h"

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "version.c: failed: %s\n", what);
  failures++;
}

static void *version_on_thread(void *unused) {
  (void)unused;
  return (void *)nvf_version();
}

int main(void) {
  const char *version = nvf_version();
  expect(version != NULL && strchr(version, '.') != NULL, "the version has a dot");

  pthread_t thread;
  void *other = NULL;
  expect(pthread_create(&thread, NULL, version_on_thread, NULL) == 0, "a thread starts");
  expect(pthread_join(thread, &other) == 0, "the thread ends");
  expect(other == (const void *)version, "another thread gets the same text");

  expect(nvf_forked() == 0, "the first process is not forked");
  pid_t child = fork();
  if (child == 0) _exit(nvf_forked() == 1 ? 0 : 1);
  int status = -1;
  expect(child > 0 && waitpid(child, &status, 0) == child, "the child ends");
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child knows that it is forked");
  expect(nvf_forked() == 0, "the parent is still not forked");
  return failures != 0;
}
