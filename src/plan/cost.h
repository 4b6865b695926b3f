// Time of one contraction or one pass over memory on a profile. One cost function per class; the judge adds
// them up.
#ifndef OPSNN_PLAN_COST_H_
#define OPSNN_PLAN_COST_H_

#include <cstdint>

#include "base/dtype.h"
#include "device/profile.h"
#include "plan/tiling.h"
#include "program/program.h"

namespace opsnn::plan {

// Where a tensor that one operator writes and the next reads lives meanwhile.
enum class Level : uint8_t { kL1, kL2, kHbm };
const char* Name(Level l);  // in the profile's words
Level LevelOf(int64_t bytes, int cores, const device::DeviceProfile& p);

// Cores that work: the profile's, or on the host the threads in use.
int ActiveCores(const device::DeviceProfile& p, int threads);

// The cube's time for the whole product with this tile, in microseconds: per block the larger of computing
// and loading, times the rounds that the busiest core makes.
double CubeMicroseconds(const MatrixShape& s, const Tile& t, bool loads_ahead, const device::DeviceProfile& p,
                        int cores);
// The same for many tiles of one product: what does not depend on the tile is worked out once.
class CubeTime {
 public:
  CubeTime(const MatrixShape& s, bool loads_ahead, const device::DeviceProfile& p, int cores);
  double Microseconds(const Tile& t) const;

 private:
  MatrixShape shape_;
  int cores_;
  bool loads_ahead_;
  int64_t rows_ = 1;
  double size_, mac_, clock_mhz_;
  double rate_ = 1;      // bytes per cycle and core that reach a block
  double a_share_ = 1;   // of an A that is smaller than m x k
  double least_us_ = 0;  // what no tile can beat: memory, or all of a depthwise window
};
// Blocks that the busiest core works through.
double BlocksPerCore(const MatrixShape& s, const Tile& t, int cores);

// Moving bytes between a level and the vector units, all cores together. Stores that stream past the caches
// write each line once; plain ones on the host read it first.
double ReadMicroseconds(int64_t bytes, Level l, const device::DeviceProfile& p, int cores);
double WriteMicroseconds(int64_t bytes, Level l, const device::DeviceProfile& p, int cores,
                         bool streaming = false);
// What streaming stores to memory add to a pass that reads `read` bytes from memory: they travel while the
// pass waits for those.
double StreamedMicroseconds(int64_t written, int64_t read, const device::DeviceProfile& p, int cores);
// How much narrower the data paths of the host's core are than its vectors, from 0 (as wide: two
// multiply-adds per cycle) to 1 (half as wide, as where vectors of 64 bytes pass in two halves), by the
// measured rate of multiply-adds.
double NarrowPaths(const device::DeviceProfile& p);
// What one element of a program costs on this device, in vector instructions at one per cycle.
double InstructionsPerElement(const Program& program, const device::DeviceProfile& p);
// The arithmetic of a program over this many elements.
double VectorMicroseconds(double instructions_per_element, int64_t elements, DType dtype,
                          const device::DeviceProfile& p, int cores);

// Two things done at the same time by the same core: the longer one, and the part of the shorter that is not
// hidden.
double Overlapped(double a_us, double b_us);

// Values of a program that are alive at the same time, inputs and outputs included.
int PeakLiveSlots(const Program& program);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_COST_H_
