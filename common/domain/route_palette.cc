#include "common/domain/route_palette.h"

#include "absl/strings/str_cat.h"

namespace kernelcast {

RouteColour ColourOf(Route route) {
  switch (route) {
    case Route::kBootstrap: return {"#93a0b4", "#7b899d"};
    case Route::kSelected: return {"#e0932f", "#eba94f"};
    case Route::kDeferred: return {"#3f84ee", "#5d9bff"};
    case Route::kPromoted: return {"#12a37c", "#2fc79b"};
    case Route::kAudited: return {"#8a57dc", "#ac86f7"};
    case Route::kRequested: return {"#3aa6bd", "#56c3d8"};
    case Route::kUnforecast: return {"#b3895f", "#c7a47f"};
    case Route::kReused: return {"#c3cad6", "#566274"};
    case Route::kPruned: return {"#d3dae4", "#3a4554"};
    case Route::kRejected: return {"#efb48f", "#8a5c3e"};
    case Route::kDuplicate: return {"#e3c8d4", "#6d4a58"};
  }
  return {"#93a0b4", "#7b899d"};
}

std::string RoutePaletteCss() {
  std::string light;
  std::string dark;
  std::string classes;
  for (const Route route : kRoutes) {
    const absl::string_view name(Name(route).data(), Name(route).size());
    const RouteColour colour = ColourOf(route);
    absl::StrAppend(&light, "--", name, ":", colour.light, ";");
    absl::StrAppend(&dark, "--", name, ":", colour.dark, ";");
    absl::StrAppend(&classes, ".", name, "{--c:var(--", name, ")}");
  }
  return absl::StrCat(":root{", light, "}\n@media (prefers-color-scheme:dark){:root{", dark, "}}\n",
                      classes, "\n");
}

}  // namespace kernelcast
