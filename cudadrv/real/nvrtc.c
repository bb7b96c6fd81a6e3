#define _GNU_SOURCE
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>

const char *nvrtc_bind(void *library, struct nvrtc *n) {
  const struct {
    const char *name;
    void *to;
  } functions[] = {{"nvrtcVersion", &n->version},
                   {"nvrtcGetNumSupportedArchs", &n->supported_count},
                   {"nvrtcGetSupportedArchs", &n->supported},
                   {"nvrtcCreateProgram", &n->create},
                   {"nvrtcDestroyProgram", &n->destroy},
                   {"nvrtcCompileProgram", &n->compile},
                   {"nvrtcGetProgramLogSize", &n->log_size},
                   {"nvrtcGetProgramLog", &n->log},
                   {"nvrtcGetCUBINSize", &n->cubin_size},
                   {"nvrtcGetCUBIN", &n->cubin},
                   {"nvrtcGetErrorString", &n->error}};
  for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!(*(void **)functions[i].to = dlsym(library, functions[i].name))) return functions[i].name;
  return NULL;
}

/* Fills the result of a program that was created. */
static void compile(const struct nvrtc *n, struct nvrtc_program *program, int count, const char *const *options,
                    struct nvrtc_result *out) {
  out->failed = "nvrtcCompileProgram";
  out->code = n->compile(program, count, options);
  size_t size = 0;
  if (n->log_size(program, &size) == 0 && size > 0 && (out->log = calloc(1, size + 1))) n->log(program, out->log);
  if (out->code) return;
  out->failed = "nvrtcGetCUBINSize";
  if ((out->code = n->cubin_size(program, &out->cubin_size))) return;
  out->failed = "nvrtcGetCUBIN";
  out->cubin = malloc(out->cubin_size + 1);
  out->code = out->cubin ? n->cubin(program, out->cubin) : 1; /* NVRTC_ERROR_OUT_OF_MEMORY */
}

void nvrtc_compile(const struct nvrtc *n, const char *source, int count, const char *const *options,
                   struct nvrtc_result *out) {
  struct nvrtc_program *program = NULL;
  out->failed = "nvrtcCreateProgram";
  out->code = n->create(&program, source, "kernel.cu", 0, NULL, NULL);
  if (out->code) return;
  compile(n, program, count, options, out);
  n->destroy(&program);
}

int nvrtc_version(const struct nvrtc *n, int *major, int *minor) { return n->version(major, minor); }
const char *nvrtc_error(const struct nvrtc *n, int code) { return n->error(code); }

int nvrtc_supports(const struct nvrtc *n, int capability) {
  int count = 0, found = 0;
  if (n->supported_count(&count) || count <= 0) return 0;
  int *all = calloc((size_t)count, sizeof *all);
  if (all && n->supported(all) == 0)
    for (int i = 0; i < count; i++) found |= all[i] == capability;
  free(all);
  return found;
}
