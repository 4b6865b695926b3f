// What the commands of the tool share: the model or operator a command works on, output, progress.
#ifndef CLI_CLI_H_
#define CLI_CLI_H_

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "opsnn/model.h"
#include "opsnn/operator_model.h"
#include "opsnn/planner.h"

namespace cli {

using Json = nlohmann::ordered_json;

// The commands report failure by returning a bad Status; main prints it as one line and exits with 1.
using opsnn::Result;
using opsnn::Status;

// MODEL.onnx or an operator with its shapes, as options of a command.
struct Target {
  std::string name;                 // path or operator
  std::vector<std::string> shapes;  // NAME=1,3,640,640
  std::vector<std::string> inputs;  // NAME=FILE.npy
  std::map<std::string, std::string> operator_args;
  std::string dtype = "f32", epilogue;
  std::string fusion, policy, passes_off;          // empty: what the knobs say
  int threads = 0;                                 // 0: not given
  bool training = false, precision_first = false;  // what the planner assumes
  int concurrent = 1;
  double peak_limit = -1;  // below 0: not given
  std::string buckets;     // INPUT:DIM=256,512; empty: sizes are taken as they come
  uint64_t seed = 0;
  bool takes_operators = true;

  // Adds the positional and every option; `operators` allows operator targets.
  void AddTo(CLI::App& app, bool operators);
  bool IsModel() const;
  // Applies threads, loads the model or builds the operator's. `fusion` overrides the option where given.
  // plan_only: large weights of an operator need no values.
  Result<opsnn::Model> Load(const char* fusion_override = nullptr, bool plan_only = false) const;
  // Feeds from the .npy files, random ones for the rest. Dims that nobody gives are 1, and a note says so.
  Result<opsnn::Feeds> MakeFeeds(const opsnn::Model& model) const;
  // For planning: dims of every input, and the tensors that --input gives.
  Status PlanInputs(const opsnn::Model& model, opsnn::Shapes* shapes, opsnn::Feeds* given) const;
  std::string Describe() const;  // path, or "matmul m=128 n=768 k=3072 +bias+gelu"

 private:
  // The --shape options, checked against the model's inputs.
  Result<opsnn::Shapes> MakeShapes(const opsnn::Model& model) const;
  // The --input options, which must agree with `shapes`.
  Result<opsnn::Feeds> ReadInputs(const opsnn::Model& model, const opsnn::Shapes& shapes) const;
};

// "1,3,640,640" -> dims; the error names `what`.
Result<std::vector<int64_t>> ParseInts(const std::string& text, const std::string& what);

// "a,b" -> parts; an empty part is an error that names `what` and says what it should be, `part`.
Result<std::vector<std::string>> ParseList(const std::string& text, const std::string& what,
                                           const std::string& part);

// ---- option values; the error says what was got and what is allowed
CLI::Validator IntIn(uint64_t lo, uint64_t hi);
CLI::Validator NumberIn(double lo, double hi);
CLI::Validator OneOf(std::vector<std::string> words);
CLI::Validator NotEmpty(const std::string& allowed);
// A flag that takes no value.
CLI::Option* AddFlag(CLI::App& app, const std::string& name, bool& value, const std::string& help);
// What CLI11 complains of, in the words of this tool.
std::string ParseErrorText(const CLI::ParseError& e);

// Control characters, which names from a file may hold, as \xNN: an error stays one line.
std::string OneLine(const std::string& text);
void PrintJson(const Json& json);
bool JsonWasPrinted();
// Something the user should know, on standard error; results in JSON list it too.
void Note(const std::string& text);
const std::vector<std::string>& Notes();
double Median(std::vector<double> v);
Json ToJson(const opsnn::plan::Decision& d);
Json ToJson(const opsnn::PlanCacheUse& c);
int64_t Blocks(const opsnn::plan::Region& r);  // of rows, the last of which may be shorter

// A line that rewrites itself on a terminal and stays silent elsewhere.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  void Update(int done, int total);

 private:
  std::string label_;
  bool terminal_, drawn_ = false;
};

// Each command registers itself and stores what to run.
using Run = std::function<Status()>;
void AddInfo(CLI::App& app, Run& run);
void AddRun(CLI::App& app, Run& run);
void AddBench(CLI::App& app, Run& run);
void AddBenchPlanner(CLI::App& bench, Run& run);  // bench judge, bench plan
void AddExplain(CLI::App& app, Run& run);
void AddVerify(CLI::App& app, Run& run);
void AddCompare(CLI::App& app, Run& run);
void AddOps(CLI::App& app, Run& run);
void AddSelftest(CLI::App& app, Run& run);
void AddCalibrate(CLI::App& app, Run& run);
void AddMap(CLI::App& app, Run& run);
void AddScan(CLI::App& app, Run& run);
void AddTile(CLI::App& app, Run& run);

}  // namespace cli

#endif  // CLI_CLI_H_
