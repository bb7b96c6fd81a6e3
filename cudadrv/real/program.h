/* What the loader knows of the library or executable that this is in. */
#ifndef NVFUSER_GO_PROGRAM_H
#define NVFUSER_GO_PROGRAM_H

#include <stddef.h>

struct program_notes {
  const void *bytes; /* there as long as the process */
  size_t size;
};

/* Returns the notes that segment i of those with notes has in memory; NULL if there
   are not so many. The file may be another one by now. */
struct program_notes program_notes(int i);

#endif
