// The opsnn tool. Exit status: 0 fine, 1 any error, failed verification or expectation.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "cli/cli.h"
#include "opsnn/system.h"

namespace {

using opsnn::Code;
using opsnn::Status;

constexpr const char* kNoMemory =
    "there is not enough memory (limits such as ulimit -v and fewer --threads matter)";

// One line on standard error, and for --json an object on standard output. The exit status of a failure.
int Fail(const Status& status, bool json) {
  const std::string text = cli::OneLine(status.message());
  if (json && !cli::JsonWasPrinted())
    cli::PrintJson({{"ok", false}, {"status", static_cast<int>(status.code())}, {"error", text}});
  std::fflush(stdout);
  std::fprintf(stderr, "opsnn: %s\n", text.c_str());
  return 1;
}

// What only the standard library, CLI11 or nlohmann-json can have thrown.
Status Guarded(const cli::Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Status(Code::kRuntime, kNoMemory);
  } catch (const std::length_error&) {
    return Status(Code::kRuntime, kNoMemory);
  } catch (const std::exception&) {
    return Status(Code::kInternal,
                  "something failed that should not; this is a fault of opsnn, please report it");
  }
}

// The names of the commands; ok if the first argument is one of them or an option.
Status CheckCommand(const CLI::App& app, int argc, char** argv) {
  std::string names;
  bool known = false;
  for (const CLI::App* c : app.get_subcommands(nullptr)) {
    known |= argc > 1 && c->get_name() == argv[1];
    names += (names.empty() ? "" : ", ") + c->get_name();
  }
  if (argc == 1)
    return Status(Code::kInvalid,
                  "no command given; allowed: " + names + " (opsnn COMMAND --help explains one)");
  const std::string first = argv[1];
  if (first[0] == '-' && first != "--help" && first != "-h" && first != "--version")
    return Status(Code::kInvalid,
                  "got " + first + " before any command; allowed: --help, --version or a command: " + names);
  if (first[0] != '-' && !known)
    return Status(Code::kInvalid, std::string("unknown command \"") + argv[1] + "\"; allowed: " + names);
  return opsnn::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;  // asked for, even where the rest of the line makes no sense
  for (int i = 1; i < argc; ++i) json |= std::strcmp(argv[i], "--json") == 0;
  cli::Run run;
  bool done = false;
  int help_status = 0;
  Status status = Guarded([&]() -> Status {
    CLI::App app{
        "opsnn: neural-network operators on the CPU - run, measure, explain and verify models and operators"};
    app.require_subcommand(1);
    app.set_version_flag("--version", opsnn::GetSystemInfo().version);
    cli::AddInfo(app, run);
    cli::AddRun(app, run);
    cli::AddBench(app, run);
    cli::AddExplain(app, run);
    cli::AddVerify(app, run);
    cli::AddCompare(app, run);
    cli::AddOps(app, run);
    cli::AddSelftest(app, run);
    cli::AddCalibrate(app, run);
    cli::AddMap(app, run);
    cli::AddScan(app, run);
    cli::AddTile(app, run);
    if (Status s = CheckCommand(app, argc, argv); !s.ok()) return s;
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& e) {  // --help, --version
      done = true;
      help_status = app.exit(e);
      return opsnn::OkStatus();
    } catch (const CLI::ParseError& e) {
      return Status(Code::kInvalid, cli::ParseErrorText(e));
    }
    if (Status s = opsnn::Initialize(); !s.ok()) return s;
    return run();
  });
  if (done) return help_status;
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
    status =
        Status(Code::kRuntime, "the output cannot be written (" + std::string(std::strerror(errno)) + ")");
  return status.ok() ? 0 : Fail(status, json);
}
