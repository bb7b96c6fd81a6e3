/* The functions of NVRTC that we call. They are declared here, and not taken
 * from a header: the package that has it brings the library too, 100 MB that
 * the build does not need. The interface has been the same since CUDA 11. */
#ifndef NVFUSER_GO_NVRTC_H
#define NVFUSER_GO_NVRTC_H

#include <stddef.h>

struct nvrtc_program; /* what nvrtcProgram points to */

struct nvrtc {
  int (*version)(int *major, int *minor);
  int (*supported_count)(int *count);
  int (*supported)(int *architectures);
  int (*create)(struct nvrtc_program **program, const char *source, const char *name, int headers,
                const char *const *header_texts, const char *const *header_names);
  int (*destroy)(struct nvrtc_program **program);
  int (*compile)(struct nvrtc_program *program, int count, const char *const *options);
  int (*log_size)(struct nvrtc_program *program, size_t *size);
  int (*log)(struct nvrtc_program *program, char *log);
  int (*cubin_size)(struct nvrtc_program *program, size_t *size);
  int (*cubin)(struct nvrtc_program *program, char *cubin);
  const char *(*error)(int code);
};

/* Fills n from a library that is open. Returns the name of a function that it
 * lacks, or NULL. */
const char *nvrtc_bind(void *library, struct nvrtc *n);

/* What came of one text. The caller frees log and cubin, which may be NULL. */
struct nvrtc_result {
  int code;           /* of NVRTC */
  const char *failed; /* the call that gave it */
  char *log;
  char *cubin;
  size_t cubin_size;
};

enum { NVRTC_COMPILATION = 6 }; /* NVRTC_ERROR_COMPILATION: the text is wrong */

void nvrtc_compile(const struct nvrtc *n, const char *source, int count, const char *const *options,
                   struct nvrtc_result *out);

int nvrtc_version(const struct nvrtc *n, int *major, int *minor);
const char *nvrtc_error(const struct nvrtc *n, int code);

/* Whether code can be made for a compute capability, major*10 + minor. */
int nvrtc_supports(const struct nvrtc *n, int capability);

#endif
