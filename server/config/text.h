// What --help, --help-all, --version and --print-config print. Functions without state.
#ifndef HISTOGRAM_SERVER_CONFIG_TEXT_H_
#define HISTOGRAM_SERVER_CONFIG_TEXT_H_

#include <map>
#include <string>

#include "server/config/config.h"

namespace histogram::server {

// The settings that matter to most, or all of them.
std::string HelpText(bool all);
std::string VersionText();

// The configuration in the config file's own format, loadable with --config. `origins` says by
// setting where a value came from ("--listen", "HISTSVC_LISTEN", "server.toml:3"); the others are
// defaults.
std::string PrintConfigText(const Config& config,
                            const std::map<std::string, std::string, std::less<>>& origins);

}  // namespace histogram::server

#endif  // HISTOGRAM_SERVER_CONFIG_TEXT_H_
