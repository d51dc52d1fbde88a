// histogram-server: reads the configuration and runs the server.
#include <cstdio>
#include <string>

#include "server/app.h"
#include "server/base/logging.h"
#include "server/config/config.h"
#include "server/config/settings.h"
#include "server/process_tuning.h"

// Before the constructors of libraries, of which gRPC's opens descriptors.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kBeforeAll)() = histogram::server::OpenStandardDescriptors;

int main(int argc, char** argv) {
  const auto parsed =
      histogram::server::ParseConfig(argc, argv, histogram::server::ProcessVariables());
  if (!parsed.ok()) {
    std::fprintf(stderr, "histogram-server: %s\n", std::string(parsed.status().message()).c_str());
    return 2;
  }
  if (!parsed->text.empty()) {
    for (const std::string& warning : parsed->warnings) {
      std::fprintf(stderr, "histogram-server: warning: %s\n", warning.c_str());
    }
    if (std::fputs(parsed->text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
    std::perror("histogram-server: cannot write to standard output");
    return 1;
  }
  histogram::server::TuneMalloc();
  histogram::server::TuneMutexes();
  histogram::server::ChoosePolling();
  if (!parsed->config.core_dumps) histogram::server::DisableCoreDumps();
  histogram::server::BlockSignals();
  histogram::server::InitLogging(parsed->config.log.level, parsed->config.log.format);
  histogram::server::RaiseDescriptorLimit();
  for (const auto& [name, origin] : parsed->origins) {
    const std::string value = DisplayText(*histogram::server::FindSetting(name), parsed->config);
    histogram::server::Log(histogram::server::LogLevel::kDebug, "setting",
                           {{"name", name}, {"value", value}, {"set_by", origin}});
  }
  for (const std::string& warning : parsed->warnings) {
    histogram::server::Log(histogram::server::LogLevel::kWarn, warning);
  }
  return histogram::server::RunServer(parsed->config);
}
