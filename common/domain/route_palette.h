#ifndef KERNELCAST_COMMON_DOMAIN_ROUTE_PALETTE_H_
#define KERNELCAST_COMMON_DOMAIN_ROUTE_PALETTE_H_

#include <string>

#include "common/domain/decision.h"

namespace kernelcast {

// Colour of a route in all charts: reports, the status page and boards use the same.
struct RouteColour {
  const char* light;
  const char* dark;  // on a dark page
};
RouteColour ColourOf(Route route);

// CSS rules: the class of a route's name sets --c to its colour.
std::string RoutePaletteCss();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_ROUTE_PALETTE_H_
