// The opsnn tool. Exit status: 0 fine, 1 any error or failed verification.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/cli.h"
#include "opsnn/system.h"

int main(int argc, char** argv) {
  CLI::App app{
      "opsnn: neural-network operators on the CPU - run, measure, explain and verify models and operators"};
  app.require_subcommand(1);
  app.set_version_flag("--version", opsnn::GetSystemInfo().version);
  cli::Run run;
  cli::AddInfo(app, run);
  cli::AddRun(app, run);
  cli::AddBench(app, run);
  cli::AddExplain(app, run);
  cli::AddVerify(app, run);
  cli::AddCompare(app, run);
  cli::AddOps(app, run);
  cli::AddSelftest(app, run);
  // CLI11 would only say that a subcommand is required.
  std::string names;
  bool known = false;
  for (const CLI::App* c : app.get_subcommands(nullptr)) {
    known |= argc > 1 && c->get_name() == argv[1];
    names += (names.empty() ? "" : ", ") + c->get_name();
  }
  if (argc == 1) {
    std::fprintf(stderr, "opsnn: no command given; allowed: %s (opsnn COMMAND --help explains one)\n",
                 names.c_str());
    return 1;
  }
  if (argv[1][0] != '-' && !known) {
    std::fprintf(stderr, "opsnn: unknown command \"%s\"; allowed: %s\n", argv[1], names.c_str());
    return 1;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "opsnn: %s\n", cli::OneLine(e.what()).c_str());
    return 1;
  }
  if (opsnn::Status s = opsnn::Initialize(); !s.ok()) {
    std::fprintf(stderr, "opsnn: %s\n", s.message().c_str());
    return 1;
  }
  opsnn::Status status;
  try {
    status = run();
  } catch (const std::exception& e) {  // the standard library or nlohmann-json, e.g. out of memory
    status = opsnn::Status(opsnn::Code::kRuntime, e.what());
  }
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout))) {
    status = opsnn::Status(opsnn::Code::kRuntime,
                           "the output cannot be written (" + std::string(std::strerror(errno)) + ")");
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "opsnn: %s\n", cli::OneLine(status.message()).c_str());
  return 1;
}
