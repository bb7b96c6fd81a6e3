// The program around printed kernels: reads launches from standard input, runs
// them, and writes the buffers to standard output. Included behind the kernels.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx, blockDim, gridDim;

extern "C" void host_switch(void** save, void* load);

// Saves the registers that a call keeps on the stack of one thread, and takes
// up those of another (System V ABI, x86-64).
asm(R"(
.text
.globl host_switch
.type host_switch, @function
host_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_switch, .-host_switch
)");

namespace host {

using Kernel = void (*)(void* parameters);

inline std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

struct Register {
  Register(const char* name, Kernel kernel) { kernels()[name] = kernel; }
};

// Where a set of threads waits until all of them have come.
struct Gate {
  Meeting meeting = Meeting::none;
  int members = 0, arrived = 0;
  unsigned generation = 0;
};

struct Copy {
  void* to;
  const void* from;
  int bytes, size;
};

struct Warp {
  Gate gate;
  unsigned char slots[32][16];
  int lanes = 0;
};

struct Block;

struct Cluster {
  Gate gate;
  std::vector<Block*> blocks;  // those along x
};

struct Block {
  uint3 index, indexInCluster;
  Gate gate;
  std::vector<Warp> warps;
  std::vector<unsigned char> memory;
  unsigned char* shared = nullptr;
  Cluster* cluster = nullptr;
  int left = 0;  // threads that have not ended
};

struct Thread {
  void* stack = nullptr;  // where it goes on
  uint3 index;
  Block* block = nullptr;
  int number = 0;
  Gate* gate = nullptr;  // that it waits at
  unsigned generation = 0;
  bool ended = false, spins = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

constexpr size_t stackBytes = 256 << 10;
constexpr int patience = 1 << 14;  // rounds in which threads do nothing but look at memory
constexpr unsigned char undefined = 0xfe, fence = 0xa5;

struct Launch {
  std::string name;
  uint3 grid, block, cluster;
  uint32_t shared, cooperative, reverse;
  std::vector<unsigned char> parameters;
  Kernel kernel;
};

inline Launch* launch;
inline Thread* current;
inline void* scheduler;

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "%s: block (%u, %u, %u), thread (%u, %u, %u): %s\n", launch ? launch->name.c_str() : "", blockIdx.x, blockIdx.y,
          blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
  exit(2);
}

inline void leave() {
  host_switch(&current->stack, scheduler);
}

inline void arrive(Gate& gate, Meeting meeting) {
  if (gate.arrived == 0) gate.meeting = meeting;
  if (gate.meeting != meeting) fail("some threads wait at a barrier and others at a barrier of another kind or a shuffle");
  if (++gate.arrived == gate.members) {
    gate.arrived = 0;
    ++gate.generation;
    return;
  }
  current->gate = &gate;
  current->generation = gate.generation;
  leave();
  current->gate = nullptr;
}

inline Warp& warp() {
  return current->block->warps[current->number / 32];
}

void meet(Meeting meeting) {
  arrive(meeting == Meeting::block ? current->block->gate : warp().gate, meeting);
}

void clusterBarrier() {
  arrive(current->block->cluster->gate, Meeting::cluster);
}

void pause() {
  current->spins = true;
  leave();
  current->spins = false;
}

unsigned char* blockMemory() {
  return current->block->shared;
}

void* ofPeer(void* p, int rank) {
  const Block& own = *current->block;
  if (rank < 0 || rank >= (int)own.cluster->blocks.size()) fail("there is no such block in the cluster");
  const Block& peer = *own.cluster->blocks[rank];
  if (peer.left == 0) fail("the other block of the cluster has ended");
  return peer.shared + ((unsigned char*)p - own.shared);
}

uint3 clusterIdx() {
  return current->block->indexInCluster;
}

int lane() {
  return current->number % 32;
}

void exchange(void* to, const void* from, int size, int source) {
  Warp& w = warp();
  if (source < 0 || source >= w.lanes) fail("a shuffle reads a lane that does not exist");
  memcpy(w.slots[lane()], from, size);
  arrive(w.gate, Meeting::shuffle);
  memcpy(to, w.slots[source], size);
  arrive(w.gate, Meeting::shuffle);
}

void copyAsync(void* to, const void* from, int bytes, int size) {
  if ((uintptr_t)to % bytes != 0 || (size != 0 && (uintptr_t)from % bytes != 0)) fail("an asynchronous copy is misaligned");
  memset(to, undefined, bytes);
  current->open.push_back({to, from, bytes, size});
}

void commitAsync() {
  current->groups.push_back(current->open);
  current->open.clear();
}

// Copies land as late as they may.
void waitAsync(int pending) {
  while ((int)current->groups.size() > pending) {
    for (const Copy& c : current->groups.front()) {
      memset(c.to, 0, c.bytes);
      memcpy(c.to, c.from, c.size);
    }
    current->groups.pop_front();
  }
}

inline void begin() {
  launch->kernel(launch->parameters.data());
  current->ended = true;
  leave();
}

inline unsigned char* stacks(size_t count) {
  static unsigned char* memory = nullptr;
  static size_t held = 0;
  if (count > held) {
    if (memory) munmap(memory, held * stackBytes);
    void* p = mmap(nullptr, count * stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no memory for the stacks of so many threads");
    memory = (unsigned char*)p;
    held = count;
  }
  return memory;
}

inline void resume(Thread& t) {
  current = &t;
  threadIdx = t.index;
  blockIdx = t.block->index;
  host_switch(&scheduler, t.stack);
}

[[noreturn]] inline void reportDeadlock(const std::vector<Thread>& threads, const char* what) {
  size_t ended = 0;
  for (const Thread& t : threads) ended += t.ended;
  for (const Thread& t : threads)
    if (!t.ended) {
      threadIdx = t.index;
      blockIdx = t.block->index;
      break;
    }
  std::string text = what + std::string("; ") + std::to_string(ended) + " of " + std::to_string(threads.size()) + " threads have ended";
  fail(text.c_str());
}

// Runs the threads of blocks that are resident together.
inline void runTogether(std::vector<Block>& blocks) {
  const uint3 size = launch->block;
  const size_t perBlock = (size_t)size.x * size.y * size.z;
  std::vector<Thread> threads(blocks.size() * perBlock);
  unsigned char* stack = stacks(threads.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    Thread& t = threads[i];
    t.block = &blocks[i / perBlock];
    t.number = i % perBlock;
    t.index = {t.number % size.x, t.number / size.x % size.y, t.number / size.x / size.y};
    void** top = (void**)(stack + (i + 1) * stackBytes);
    top[-1] = nullptr;         // return address of begin, which does not return
    top[-2] = (void*)&begin;   // where host_switch returns to
    memset(top - 8, 0, 6 * sizeof(void*));
    t.stack = top - 8;
  }
  size_t left = threads.size();
  int idle = 0;
  while (left > 0) {
    bool ran = false, worked = false;
    for (size_t n = 0; n < threads.size(); ++n) {
      Thread& t = threads[launch->reverse ? threads.size() - 1 - n : n];
      if (t.ended || (t.gate && t.gate->generation == t.generation)) continue;
      ran = true;
      worked = worked || !t.spins;
      resume(t);
      left -= t.ended;
      t.block->left -= t.ended;
    }
    if (!ran) reportDeadlock(threads, "threads wait at a barrier or a shuffle that others do not reach");
    idle = worked ? 0 : idle + 1;
    if (idle > patience) reportDeadlock(threads, "threads wait for memory that no thread changes");
  }
}

inline void prepare(Block& b, uint3 index, Cluster* cluster) {
  const uint3 size = launch->block;
  const int threads = size.x * size.y * size.z;
  b.index = index;
  b.indexInCluster = {index.x % launch->cluster.x, index.y % launch->cluster.y, index.z % launch->cluster.z};
  b.cluster = cluster;
  b.left = threads;
  if (index.y % launch->cluster.y == 0 && index.z % launch->cluster.z == 0) {
    cluster->blocks.resize(launch->cluster.x);
    cluster->blocks[b.indexInCluster.x] = &b;
  }
  b.gate.members = threads;
  b.warps.assign((threads + 31) / 32, Warp());
  for (size_t w = 0; w < b.warps.size(); ++w) {
    b.warps[w].lanes = threads - (int)w * 32 < 32 ? threads - (int)w * 32 : 32;
    b.warps[w].gate.members = b.warps[w].lanes;
  }
  b.memory.assign(launch->shared + 384, fence);
  b.shared = b.memory.data() + 128;
  b.shared += (128 - (uintptr_t)b.shared % 128) % 128;
  memset(b.shared, undefined, launch->shared);
}

inline void checkMemory(const Block& b) {
  blockIdx = b.index;
  for (const unsigned char* p = b.memory.data(); p < b.memory.data() + b.memory.size(); ++p)
    if ((p < b.shared || p >= b.shared + launch->shared) && *p != fence) fail("a thread of the block wrote beyond its shared memory");
}

inline void runGrid() {
  gridDim = launch->grid;
  blockDim = launch->block;
  const uint3 g = launch->grid, c = launch->cluster;
  const size_t count = (size_t)g.x * g.y * g.z, clusterBlocks = (size_t)c.x * c.y * c.z;
  const bool together = launch->cooperative || clusterBlocks > 1;
  const size_t perBlock = (size_t)blockDim.x * blockDim.y * blockDim.z;
  std::map<std::vector<unsigned>, Cluster> clusters;
  std::vector<Block> blocks(together ? count : 1);
  for (size_t n = 0; n < count; ++n) {
    const size_t i = launch->reverse ? count - 1 - n : n;
    const uint3 index = {unsigned(i % g.x), unsigned(i / g.x % g.y), unsigned(i / g.x / g.y)};
    Cluster& cluster = clusters[{index.x / c.x, index.y / c.y, index.z / c.z}];
    cluster.gate.members = clusterBlocks * perBlock;
    prepare(blocks[together ? n : 0], index, &cluster);
    if (together) continue;
    runTogether(blocks);
    checkMemory(blocks[0]);
  }
  if (!together || count == 0) return;
  runTogether(blocks);
  for (const Block& b : blocks) checkMemory(b);
}

struct Buffer {
  uint32_t parameter;
  uint64_t size = 0;
  std::vector<unsigned char> memory;  // empty: that of another one
  unsigned char* start = nullptr;
};

constexpr size_t margin = 256;

inline void receive(void* to, size_t size) {
  if (size > 0 && fread(to, 1, size, stdin) != size) fail("the input ends early");
}

template <class T>
T receive() {
  T x;
  receive(&x, sizeof x);
  return x;
}

inline int program() {
  for (int c; (c = getc(stdin)) != EOF;) {
    ungetc(c, stdin);
    Launch l;
    l.name.resize(receive<uint32_t>());
    receive(&l.name[0], l.name.size());
    l.grid = receive<uint3>();
    l.block = receive<uint3>();
    l.cluster = receive<uint3>();
    l.shared = receive<uint32_t>();
    l.cooperative = receive<uint32_t>();
    l.reverse = receive<uint32_t>();
    l.parameters.resize(receive<uint32_t>());
    receive(l.parameters.data(), l.parameters.size());
    launch = &l;
    std::vector<Buffer> buffers(receive<uint32_t>());
    for (Buffer& b : buffers) {
      b.parameter = receive<uint32_t>();
      const uint32_t first = receive<uint32_t>();
      if (&buffers[first] != &b) {  // the same memory
        memcpy(&l.parameters[b.parameter], &buffers[first].start, sizeof b.start);
        continue;
      }
      b.size = receive<uint64_t>();
      b.memory.assign(b.size + 3 * margin, fence);
      b.start = b.memory.data() + margin;
      b.start += (margin - (uintptr_t)b.start % margin) % margin;
      receive(b.start, b.size);
      memcpy(&l.parameters[b.parameter], &b.start, sizeof b.start);
    }
    const auto found = kernels().find(l.name);
    if (found == kernels().end()) fail("there is no such kernel");
    l.kernel = found->second;
    runGrid();
    for (const Buffer& b : buffers) {
      for (const unsigned char* p = b.memory.data(); p < b.memory.data() + b.memory.size(); ++p)
        if ((p < b.start || p >= b.start + b.size) && *p != fence) {
          char text[100];
          snprintf(text, sizeof text, "a thread wrote beyond the buffer at byte %u of the parameters", b.parameter);
          fail(text);
        }
      if (b.size > 0 && fwrite(b.start, 1, b.size, stdout) != b.size) fail("the output cannot be written");
    }
    launch = nullptr;
  }
  return 0;
}

}  // namespace host

int main() {
  return host::program();
}
