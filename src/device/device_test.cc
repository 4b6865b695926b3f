#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/cpu_count.h"
#include "base/parallel.h"
#include "device/catalogue.h"
#include "device/host.h"
#include "device/profile.h"
#include "isa/caches.h"
#include "isa/cpuid.h"
#include "isa/tier.h"

namespace opsnn::device {
namespace {

class TempDir {
 public:
  TempDir() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TempDir() { EXPECT_EQ(system((std::string("rm -rf ") + path_).c_str()), 0); }
  std::string path() const { return path_; }

 private:
  char path_[64] = "/tmp/opsnn_device_XXXXXX";
};

TEST(Catalogue, HoldsThePublishedDevices) {
  const DeviceProfile a2 = *FindProfile("910B1");
  EXPECT_EQ(a2.name, "Ascend910B1");
  EXPECT_EQ(a2.cores(), 24);
  EXPECT_EQ(a2.vector_cores(), 48);
  EXPECT_EQ(a2.l1_bytes(), 512 * 1024);
  EXPECT_EQ(a2.ub_bytes(), 192 * 1024);
  EXPECT_EQ(a2.l0c_bytes(), 128 * 1024);
  EXPECT_EQ(a2.mac(DType::kF16), 4096);
  EXPECT_EQ(a2.mac(DType::kF32), 1024);
  EXPECT_EQ(a2.mac(DType::kS8), 8192);
  EXPECT_FALSE(a2.cube_feeds_vector());  // the rate in the platform file has no path
  EXPECT_FALSE(a2.assumed(Field::k_l1_bytes));
  EXPECT_TRUE(a2.assumed(Field::k_launch_us));
  EXPECT_TRUE(a2.assumed(Field::k_vector_clock_mhz));
  EXPECT_EQ(a2.vector_clock_mhz(), a2.clock_mhz());
  // Peak of f16 in TFLOP/s as published.
  EXPECT_NEAR(2 * a2.mac_f16() * a2.cores() * a2.clock_mhz() * 1e-6, 363.7, 0.1);
  // Memory rate by the rule of ops-nn: GHz x cores x rate / 1024.
  EXPECT_NEAR(a2.clock_mhz() * 1e-3 * a2.cores() * a2.hbm_rate() / 1024, 1.3875, 1e-4);

  const DeviceProfile a5 = *FindProfile("950PR");
  EXPECT_EQ(a5.ub_bytes(), 248 * 1024);
  EXPECT_EQ(a5.l0c_bytes(), 256 * 1024);
  EXPECT_EQ(a5.c0(DType::kF32), 8);
  EXPECT_EQ(a2.c0(DType::kF32), 16);
  EXPECT_TRUE(a5.cube_feeds_vector());
  EXPECT_GT(FindProfile("950DT")->hbm_rate(), a5.hbm_rate());
}

TEST(Catalogue, EveryDeviceIsUsable) {
  std::set<std::string> names;
  for (const std::string& name : ProfileNames()) {
    EXPECT_TRUE(names.insert(name).second);
    const DeviceProfile p = *FindProfile(name);
    EXPECT_EQ(p.name, name);
    for (Field f : {Field::k_cores, Field::k_vector_cores, Field::k_clock_mhz, Field::k_vector_clock_mhz,
                    Field::k_vector_bytes, Field::k_l1_bytes, Field::k_ub_bytes, Field::k_l0c_bytes,
                    Field::k_l2_bytes, Field::k_hbm_rate, Field::k_l2_read_rate, Field::k_l2_write_rate,
                    Field::k_ub_rate, Field::k_fractal_rows, Field::k_fractal_bytes, Field::k_line_bytes}) {
      EXPECT_GT(p[f], 0) << name << " " << Info(f).name;
    }
    for (int i = 0; i < kNumFields; ++i) {
      const DeviceProfile::Entry& e = p.fields[static_cast<size_t>(i)];
      if (e.assumed) {
        EXPECT_GT(e.source.size(), 10u) << name << " " << Info(static_cast<Field>(i)).name;
      }
    }
    EXPECT_GT(p.mac(DType::kF32), 0) << name;
  }
  for (const char* wanted :
       {"host", "Ascend310P3", "Ascend910A", "Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4",
        "Ascend910_9382", "Ascend910_9392", "Ascend950PR_9589", "Ascend950DT_9581"}) {
    EXPECT_EQ(names.count(wanted), 1u) << wanted;
  }
}

TEST(Catalogue, FamiliesOverridesAndErrors) {
  EXPECT_EQ(FindProfile("a2")->name, "Ascend910B1");
  EXPECT_EQ(FindProfile("A3")->name, "Ascend910_9382");
  EXPECT_EQ(FindProfile("310p")->name, "Ascend310P3");
  EXPECT_EQ(FindProfile("ascend910b4")->name, "Ascend910B4");
  const DeviceProfile p = *FindProfile("910B1:l1_bytes=256K,cores=8");
  EXPECT_EQ(p.l1_bytes(), 256 * 1024);
  EXPECT_EQ(p.cores(), 8);
  EXPECT_EQ(p.name, "Ascend910B1:l1_bytes=256K,cores=8");
  EXPECT_EQ(p.entry(Field::k_cores).source, "override");
  EXPECT_NE(p.Fingerprint(), FindProfile("910B1")->Fingerprint());
  const std::string unknown = FindProfile("tpu").status().message();
  EXPECT_NE(unknown.find("unknown device profile \"tpu\"; allowed: host, Ascend310P1"), std::string::npos)
      << unknown;
  EXPECT_NE(FindProfile("910B1:l9=1").status().message().find("unknown profile field \"l9\"; allowed: cores"),
            std::string::npos);
  EXPECT_FALSE(FindProfile("910B1:cores=0").ok());
  EXPECT_FALSE(FindProfile("910B1:cores").ok());
  EXPECT_FALSE(FindProfile("910B1:l1_bytes=12Q").ok());
  EXPECT_FALSE(FindProfile("910B1:l1_bytes=-1").ok());
  EXPECT_FALSE(FindProfile("910B1:l1_bytes=nan").ok());
}

TEST(Host, CachesFromSysfs) {
  TempDir dir;
  cpu_set_t allowed;  // the probe looks at a CPU that this process may run on
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    int index = 0;
    const std::string base = dir.path() + "/cpu" + std::to_string(cpu);
    mkdir(base.c_str(), 0755);
    mkdir((base + "/cache").c_str(), 0755);
    for (const char* text : {"1 Data 32K", "1 Instruction 64K", "2 Unified 1024K", "3 Unified 32M"}) {
      char type[32], size[32];
      int level;
      ASSERT_EQ(sscanf(text, "%d %31s %31s", &level, type, size), 3);
      const std::string at = base + "/cache/index" + std::to_string(index++);
      mkdir(at.c_str(), 0755);
      std::ofstream(at + "/level") << level << "\n";
      std::ofstream(at + "/type") << type << "\n";
      std::ofstream(at + "/size") << size << "\n";
    }
  }
  const isa::Caches c = isa::ProbeCaches(dir.path());
  EXPECT_EQ(c.source, "sysfs");
  EXPECT_EQ(c.l1d, 32 << 10);
  EXPECT_EQ(c.l2, 1 << 20);
  EXPECT_EQ(c.l3, 32 << 20);
}

TEST(Host, CachesWithoutSysfs) {
  const isa::Caches c = isa::ProbeCaches("/nonexistent");
  EXPECT_NE(c.source, "sysfs");
  EXPECT_GE(c.l1d, 8 << 10);
  EXPECT_GE(c.l2, c.l1d);
  EXPECT_GE(c.l3, c.l2);
}

TEST(Host, RatesSurviveTheCacheFile) {
  TempDir dir;
  const std::string path = dir.path() + "/sub/rates.toml";
  HostRates r;
  EXPECT_FALSE(ReadRates(path, &r));
  r.clock_ghz = 3.25;
  r.fma_gflops = 100;
  r.dram_read_gbps = 12.5;
  r.sync_us = 1.5;
  r.shared_mib = 8;
  WriteRates(path, r);
  HostRates back;
  ASSERT_TRUE(ReadRates(path, &back));
  EXPECT_EQ(back.clock_ghz, 3.25);
  EXPECT_EQ(back.sync_us, 1.5);
  EXPECT_EQ(back.shared_mib, 8);
  std::ofstream(path)
      << "clock_ghz = 3.25\nfma_gflops = 100\ndram_read_gbps = 12.5\n";  // earlier: fewer rates
  EXPECT_FALSE(ReadRates(path, &back));
  std::ofstream(path) << "clock_ghz = ";  // cut short
  EXPECT_FALSE(ReadRates(path, &back));
  WriteRates("/nonexistent/folder/rates.toml", r);  // unwritable: nothing happens
}

TEST(Host, UnmeasuredProfileSaysSo) {
  const DeviceProfile p = BuildHostProfile({48 << 10, 2 << 20, 32 << 20, "test"}, 2, HostRates{});
  EXPECT_TRUE(p.is_host());
  EXPECT_EQ(p.ub_bytes(), 48 << 10);
  EXPECT_EQ(p.l1_bytes(), 2 << 20);
  EXPECT_TRUE(p.assumed(Field::k_mac_f32));
  EXPECT_TRUE(p.assumed(Field::k_hbm_rate));
  EXPECT_GT(p.hbm_rate(), 0);
}

TEST(Host, RatesOfTheCoreAloneAreUsed) {
  HostRates r = MeasureCore();
  EXPECT_GT(r.clock_ghz, 0.2);
  EXPECT_GT(r.fma_gflops, 0.2);
  r.clock_ghz = 4, r.fma_gflops = 128;
  const DeviceProfile p = BuildHostProfile({32 << 10, 1 << 20, 32 << 20, "test"}, 2, r);
  EXPECT_EQ(p.mac_f32(), 16);
  EXPECT_EQ(p.clock_mhz(), 4000);
  EXPECT_FALSE(p.assumed(Field::k_mac_f32));
  EXPECT_TRUE(p.assumed(Field::k_hbm_rate));
}

TEST(Host, NeighboursTakeTheirShareOfTheSharedCache) {
  HostRates r;
  r.clock_ghz = 4, r.fma_gflops = 128, r.dram_read_gbps = 20;
  const auto shared = [&](double mib) {
    r.shared_mib = mib;
    return BuildHostProfile({32 << 10, 1 << 20, 32 << 20, "test"}, 2, r).l2_bytes();
  };
  EXPECT_EQ(shared(8), 8 << 20);
  EXPECT_EQ(shared(0), shared(64));  // not measured, or more than there is
  EXPECT_LE(shared(0), 32 << 20);
}

TEST(Host, ProfileIsMeasuredOnceAndPlausible) {
  const DeviceProfile& p = HostProfile();
  EXPECT_EQ(&p, &HostProfile());
  EXPECT_FALSE(p.assumed(Field::k_mac_f32));
  const double ghz = p.clock_mhz() * 1e-3;
  EXPECT_GT(ghz, 0.2);
  EXPECT_LT(ghz, 8);
  EXPECT_GT(p.mac_f32(), 0.3);
  EXPECT_GE(p.ub_rate(), p.hbm_rate() / 2);
  EXPECT_EQ(&HostProfileUnmeasured(), &p);
  for (int i = 0; i < kNumFields; ++i) {
    const Field f = static_cast<Field>(i);
    printf("  %-18s %14.6g %-9s %s%s\n", Info(f).name, p[f], Info(f).unit, p.assumed(f) ? "assumed: " : "",
           p.entry(f).source.c_str());
  }
  printf("  %s\n", p.product.c_str());
  TempDir dir;
  setenv("XDG_CACHE_HOME", dir.path().c_str(), 1);
  const auto begin = std::chrono::steady_clock::now();
  const HostRates r = Recalibrate();
  EXPECT_EQ(access(RateCachePath().c_str(), R_OK) == 0, r.together);  // else somebody else has the cores
  const double ms = 1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  printf(
      "  calibration took %.1f ms: L1d %.0f L2 %.0f L3 %.0f DRAM %.1f copy %.1f all %.1f GB/s, %.0f "
      "GFLOP/s\n",
      ms, r.l1d_gbps, r.l2_gbps, r.l3_gbps, r.dram_read_gbps, r.dram_copy_gbps, r.dram_total_gbps,
      r.fma_gflops);
}

// While another thread's job has the pool, nothing that several threads do can be measured: no such rate is
// kept, and the profile assumes one.
TEST(Host, RatesOfAHeldPoolAreNotKept) {
  if (AllowedCpus() < 2) return;  // nothing to share
  SetNumThreads(2);
  TempDir dir;
  setenv("XDG_CACHE_HOME", dir.path().c_str(), 1);
  std::atomic<bool> holds{false}, done{false};
  std::thread holder([&] {
    ParallelFor(2, [&](int64_t, int) {
      holds = true;
      while (!done) std::this_thread::yield();
    });
  });
  while (!holds) std::this_thread::yield();
  const HostRates r = Recalibrate();
  done = true;
  holder.join();
  SetNumThreads(0);
  EXPECT_GT(r.dram_read_gbps, 0);
  EXPECT_NE(access(RateCachePath().c_str(), R_OK), 0);
  const DeviceProfile p = BuildHostProfile(isa::HostCaches(), 2, r);
  EXPECT_FALSE(p.assumed(Field::k_hbm_rate));
  EXPECT_FALSE(r.together);
  EXPECT_TRUE(p.assumed(Field::k_hbm_total_rate));
  EXPECT_TRUE(p.assumed(Field::k_sync_us));
  EXPECT_GE(p.hbm_total_rate(), p.hbm_rate());
}

TEST(Host, EachTierHasItsProfile) {
  const isa::Tier best = isa::ActiveTier();
  isa::SetMaxTier(isa::Tier::kSse4);
  const DeviceProfile& low = HostProfileUnmeasured();
  EXPECT_EQ(low.vector_bytes(), 16);
  isa::SetMaxTier(best);
  EXPECT_GE(HostProfileUnmeasured().vector_bytes(), low.vector_bytes());
}

}  // namespace
}  // namespace opsnn::device
