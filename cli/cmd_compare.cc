// compare: two .npy files, or the files of the same names in two folders.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/cli.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct Figures {
  std::string name, note;  // note: why there are no figures, or where NaN and Inf do not match
  double cosine = NAN, max_abs = NAN, max_rel = NAN, largest = NAN;  // NAN: they say nothing here
  bool ok = false;
};

std::string DimsText(const opsnn::Tensor& t) {
  std::string s = std::string(opsnn::Name(t.dtype())) + "[";
  for (size_t i = 0; i < t.dims().size(); ++i) s += (i ? "," : "") + std::to_string(t.dims()[i]);
  return s + "]";
}

// max_abs may be `tolerance` times the largest finite magnitude of b; NaN equals NaN, Inf the same Inf.
void Measure(const std::vector<double>& a, const std::vector<double>& b, double tolerance, Figures* f) {
  double dot = 0, aa = 0, bb = 0;
  int64_t alike = 0;
  f->max_abs = f->max_rel = f->largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      alike += same;
      if (!same && f->note.empty()) f->note = "NaN or Inf does not match at element " + std::to_string(i);
      continue;
    }
    const double error = std::fabs(a[i] - b[i]);
    dot += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
    f->max_abs = std::max(f->max_abs, error);
    f->largest = std::max(f->largest, std::fabs(b[i]));
    if (b[i] != 0) f->max_rel = std::max(f->max_rel, error / std::fabs(b[i]));
  }
  if (f->note.empty())
    f->cosine = aa > 0 && bb > 0 ? dot / (std::sqrt(aa) * std::sqrt(bb)) : aa == bb ? 1 : 0;
  f->ok = f->note.empty() && f->max_abs <= tolerance * f->largest;
  const bool finite = alike < static_cast<int64_t>(a.size()) || a.empty();
  if (!finite) f->cosine = f->max_abs = f->max_rel = f->largest = NAN;
  if (alike > 0 && f->note.empty())
    f->note = std::to_string(alike) + " of " + std::to_string(a.size()) + " elements are the same NaN or Inf";
}

// Doubles cannot tell integers beyond 2^53 apart.
void MeasureExactly(const opsnn::Tensor& a, const opsnn::Tensor& b, double tolerance, Figures* f) {
  for (int64_t i = 0; i < a.size(); ++i) {
    const auto error = static_cast<__int128>(a.data<int64_t>()[i]) - b.data<int64_t>()[i];
    f->max_abs = std::max(f->max_abs, std::fabs(static_cast<double>(error)));
  }
  f->ok = f->max_abs <= tolerance * f->largest;
}

Result<Figures> CompareFiles(const fs::path& a, const fs::path& b, double tolerance) {
  auto x = opsnn::LoadNpy(a.string());
  if (!x.ok()) return x.status();
  auto y = opsnn::LoadNpy(b.string());
  if (!y.ok()) return y.status();
  Figures f;
  f.name = a.filename().string();
  if (x->dims() != y->dims()) {
    f.note = DimsText(*x) + " and " + DimsText(*y);
  } else {
    Measure(x->ToDoubles(), y->ToDoubles(), tolerance, &f);
    // Types of one kind differ by rounding; a float against an integer is a mistake.
    f.ok &= IsFloat(x->dtype()) == IsFloat(y->dtype());
    if (x->dtype() != y->dtype())
      f.note += std::string(f.note.empty() ? "" : "; ") + Name(x->dtype()) + " against " + Name(y->dtype());
    if (x->dtype() == opsnn::DType::kS64 && y->dtype() == opsnn::DType::kS64)
      MeasureExactly(*x, *y, tolerance, &f);
  }
  return f;
}

// Pairs of files; in folders those that the first one has.
Result<std::vector<std::pair<fs::path, fs::path>>> Pairs(const std::string& a, const std::string& b) {
  std::error_code error;
  for (const std::string& path : {a, b})
    if (!fs::exists(path, error))
      return Status(opsnn::Code::kInvalid, path +
                                               ": there is no such file or folder; allowed: .npy files, or "
                                               "folders that run --output wrote");
  if (fs::is_directory(a, error) != fs::is_directory(b, error))
    return Status(opsnn::Code::kInvalid,
                  "compare: got one of each, a file and a folder; allowed: two files or two folders");
  if (!fs::is_directory(a, error)) return std::vector{std::pair{fs::path(a), fs::path(b)}};
  std::vector<std::pair<fs::path, fs::path>> pairs;
  for (fs::directory_iterator it(a, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".npy") pairs.emplace_back(it->path(), fs::path(b) / it->path().filename());
  }
  if (error) return Status(opsnn::Code::kInvalid, a + ": cannot be read (" + error.message() + ")");
  if (pairs.empty()) return Status(opsnn::Code::kInvalid, a + ": there are no .npy files in this folder");
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

std::string Figure(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return std::isnan(v) ? "-" : text;
}

Status RunCompare(const std::string& a, const std::string& b, double tolerance, bool json) {
  auto pairs = Pairs(a, b);
  if (!pairs.ok()) return pairs.status();
  Json list = Json::array();
  std::string first_bad, why;
  for (const auto& [x, y] : *pairs) {
    auto figures = CompareFiles(x, y, tolerance);
    if (!figures.ok()) return figures.status();
    const Figures& f = *figures;
    if (!f.ok && first_bad.empty()) {
      first_bad = f.name;
      why = f.max_abs > tolerance * f.largest || f.note.empty() ? "by more than the tolerance" : f.note;
    }
    // NAN becomes null in JSON.
    list.push_back({{"name", f.name},
                    {"ok", f.ok},
                    {"cosine", f.cosine},
                    {"max_abs", f.max_abs},
                    {"max_rel", f.max_rel},
                    {"largest", f.largest},
                    {"note", f.note}});
    if (!json)
      std::printf("%-4s %-32s cosine %s, max abs %s (largest value %s), max rel %s%s%s\n",
                  f.ok ? "ok" : "BAD", f.name.c_str(), Figure("%.9f", f.cosine).c_str(),
                  Figure("%.3g", f.max_abs).c_str(), Figure("%.3g", f.largest).c_str(),
                  Figure("%.3g", f.max_rel).c_str(), f.note.empty() ? "" : "; ", f.note.c_str());
  }
  if (json) PrintJson({{"ok", first_bad.empty()}, {"tolerance", tolerance}, {"tensors", list}});
  if (first_bad.empty()) return opsnn::OkStatus();
  return Status(opsnn::Code::kInvalid, "compare: " + first_bad + " differs: " + why);
}

}  // namespace

void AddCompare(CLI::App& app, Run& run) {
  auto* cmd = app.add_subcommand("compare", "Compare two .npy files, or the .npy files of two folders");
  auto a = std::make_shared<std::string>(), b = std::make_shared<std::string>();
  auto tolerance = std::make_shared<double>(1e-4);
  auto json = std::make_shared<bool>(false);
  cmd->add_option("A", *a, "A file, or a folder such as run --output writes")
      ->required()
      ->check(NotEmpty("a file or a folder"));
  cmd->add_option("B", *b, "What A is compared with")->required()->check(NotEmpty("a file or a folder"));
  cmd->add_option("--tolerance", *tolerance,
                  "Largest error allowed, as a share of the largest magnitude in B (default 1e-4)")
      ->check(NumberIn(0, 1));
  AddFlag(*cmd, "--json", *json, "Print JSON");
  cmd->callback([&run, a, b, tolerance, json] {
    run = [a, b, tolerance, json]() -> Status { return RunCompare(*a, *b, *tolerance, *json); };
  });
}

}  // namespace cli
