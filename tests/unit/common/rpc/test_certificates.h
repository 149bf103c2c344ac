#ifndef KERNELCAST_TESTS_UNIT_COMMON_RPC_TEST_CERTIFICATES_H_
#define KERNELCAST_TESTS_UNIT_COMMON_RPC_TEST_CERTIFICATES_H_

#include <string>

namespace kernelcast {

struct PemPair {
  std::string certificate;
  std::string key;
};

// A self-signed authority, and its certificate for "localhost" and 127.0.0.1, valid for `seconds`
// from now; negative: expired.
PemPair MakeAuthority(const std::string& name);
PemPair MakeCertificate(const PemPair& authority, const std::string& name, long seconds = 3600);

}  // namespace kernelcast

#endif  // KERNELCAST_TESTS_UNIT_COMMON_RPC_TEST_CERTIFICATES_H_
