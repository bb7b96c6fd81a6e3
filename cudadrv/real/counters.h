/* Memory of the device in which blocks count themselves, kept from launch to launch. */
#ifndef NVFUSER_GO_COUNTERS_H
#define NVFUSER_GO_COUNTERS_H

#include <stdint.h>

enum {
  COUNTERS_BYTES = 64 << 10,  /* for a stream */
  COUNTERS_SEMAPHORES = 1024, /* of those, the first ones: of words all but the top bit are zero */
  COUNTERS_MAX_STREAMS = 128, /* in the life of the process */
};

/* The address of COUNTERS_BYTES that are zero, but for top bits of the semaphores, whenever
 * no kernel of the stream uses them: what is submitted to one stream runs in order, so all
 * launches there may use the same ones, if each leaves them so. 0 where there are none: the
 * stream is captured for a graph, which may be replayed beside what the stream does then; it
 * is the default one of a thread; the driver does not tell streams apart (before CUDA 12);
 * there were too many streams, or no memory when they were first wanted.
 *
 * A stream is told by its number, which unlike its handle no other one gets. The memory is
 * never freed. Threads may call this at any time; it may block as a launch does, so hold no
 * lock that a callback in a queue may want. */
uint64_t counters_of(uintptr_t context, uintptr_t stream);

#endif
