#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL(name) #name,
static const char *const names[] = {
#include "symbols.h"
};
#undef SYMBOL

/* What trampolines.S jumps through; a null entry is not bound yet. */
void *trampoline_table[sizeof names / sizeof *names];

/* Written once, by library_start_driver. */
static void *driver;

static int missing(void) { return LIBRARY_MISSING; }

/* Called by the trampolines. Two threads may bind the same function at once:
 * they store the same address. */
void *trampoline_bind(unsigned index) {
  void *library = __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
  if (!library) return (void *)missing; /* not started: not stored, so that a later call finds it */
  void *found = dlsym(library, names[index]);
  if (!found) found = (void *)missing;
  __atomic_store_n(&trampoline_table[index], found, __ATOMIC_RELEASE);
  return found;
}

/* Package gorgonia.org/cu calls cuInit when it is initialised, which is when
 * Python imports us, and ends the process if that fails. So this one does
 * nothing and succeeds; the real one is called at the first use of a device. */
int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}

int library_start_driver(void *library) {
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  /* Before it is known to start: it has the names of its errors either way. */
  __atomic_store_n(&driver, library, __ATOMIC_RELEASE);
  return init ? init(0) : LIBRARY_MISSING;
}

void *library_open(const char *path, int loaded, char *problem, unsigned long size) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
  if (!library) {
    const char *words = dlerror();
    snprintf(problem, size, "%s", words ? words : "not loaded");
  }
  return library;
}

void library_path(void *library, char *path, unsigned long size) {
  struct link_map *map = NULL;
  path[0] = 0;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map) snprintf(path, size, "%s", map->l_name);
}

/* Text that grows. */
struct names {
  char *text;
  size_t size;
};

static int add_name(struct dl_phdr_info *library, size_t size, void *to) {
  (void)size;
  struct names *names = to;
  size_t length = strlen(library->dlpi_name);
  char *text = realloc(names->text, names->size + length + 2);
  if (!text) return 1;
  names->text = text;
  memcpy(text + names->size, library->dlpi_name, length);
  names->size += length;
  text[names->size++] = '\n';
  text[names->size] = 0;
  return 0;
}

/* Not /proc/self/maps: with CUDA in a process it has thousands of lines. */
char *library_names(void) {
  struct names names = {NULL, 0};
  dl_iterate_phdr(add_name, &names);
  return names.text ? names.text : calloc(1, 1);
}
