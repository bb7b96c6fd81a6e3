#define _GNU_SOURCE
#include "signals.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*handler)(int);

static int ends_process(int number) { return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT; }

/* As signal(), which returns the handler there was before. */
static handler kept_signal(int number, handler wanted) {
  struct sigaction now;
  if (!ends_process(number)) return signal(number, wanted);
  return sigaction(number, NULL, &now) ? SIG_ERR : now.sa_handler;
}

static int kept_sigaction(int number, const struct sigaction *wanted, struct sigaction *before) {
  return sigaction(number, ends_process(number) ? NULL : wanted, before);
}

/* Instead of an imported function; NULL: as it is. */
static void *instead(const char *name) {
  if (!strcmp(name, "signal")) return (void *)kept_signal;
  return strcmp(name, "sigaction") ? NULL : (void *)kept_sigaction;
}

/* What the dynamic section of a library says of its references. */
struct imports {
  const ElfW(Sym) *symbols;
  const char *names;
  const ElfW(Rela) *tables[2]; /* of calls, and of addresses */
  size_t sizes[2];             /* bytes */
};

static struct imports imports_of(const struct link_map *map) {
  struct imports in = {0};
  for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) switch (d->d_tag) {
    case DT_SYMTAB: in.symbols = (const ElfW(Sym) *)d->d_un.d_ptr; break;
    case DT_STRTAB: in.names = (const char *)d->d_un.d_ptr; break;
    case DT_JMPREL: in.tables[0] = (const ElfW(Rela) *)d->d_un.d_ptr; break;
    case DT_PLTRELSZ: in.sizes[0] = d->d_un.d_val; break;
    case DT_RELA: in.tables[1] = (const ElfW(Rela) *)d->d_un.d_ptr; break;
    case DT_RELASZ: in.sizes[1] = d->d_un.d_val; break;
    }
  return in;
}

/* Writes to a table that may be read-only by now. */
static int overwrite(void **place, void *value) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)place & ~(page - 1);
  if (*place == value) return 0;
  if (mprotect((void *)first, page, PROT_READ | PROT_WRITE)) return 0;
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
  return 1;
}

int signals_keep(void *library) {
  struct link_map *map = NULL;
  int changed = 0;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map) return 0;
  struct imports in = imports_of(map);
  if (!in.symbols || !in.names) return 0;
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; in.tables[t] && i < in.sizes[t] / sizeof *in.tables[t]; i++) {
      const ElfW(Rela) *r = &in.tables[t][i];
      unsigned type = ELF64_R_TYPE(r->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      void *ours = instead(in.names + in.symbols[ELF64_R_SYM(r->r_info)].st_name);
      if (ours) changed += overwrite((void **)(map->l_addr + r->r_offset), ours);
    }
  return changed;
}
