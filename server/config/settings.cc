#include "server/config/settings.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace histogram::server {

const Setting* FindSetting(absl::string_view name) {
  const auto& settings = Settings();
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.name == name || (!setting.old_name.empty() && setting.old_name == name);
  });
  return found == settings.end() ? nullptr : &*found;
}

std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("HISTSVC_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

absl::Status SetFromText(const Setting& setting, const std::string& text, absl::string_view source,
                         Config& config) {
  const absl::Status status = setting.value.set(text, config);
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(source, " ", status.message())};
}

std::string DisplayText(const Setting& setting, const Config& config) {
  const std::string text = setting.value.get(config);
  if (setting.value.kind == SettingKind::kSwitch) return text == "true" ? "on" : "off";
  return text.empty() ? "none" : text;
}

}  // namespace histogram::server
