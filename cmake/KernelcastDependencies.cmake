# All third-party packages. Names in comments are Debian packages.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)            # libprotobuf-dev protobuf-compiler
find_package(gRPC CONFIG REQUIRED)         # libgrpc++-dev protobuf-compiler-grpc
find_package(absl CONFIG REQUIRED)         # libabsl-dev
find_package(Boost 1.74 REQUIRED)           # libboost-dev
find_package(Eigen3 3.4 CONFIG REQUIRED)   # libeigen3-dev
find_package(OpenSSL REQUIRED)             # libssl-dev
find_package(ZLIB REQUIRED)                # zlib1g-dev
find_package(CURL 7.88 REQUIRED)           # libcurl4-openssl-dev
find_package(SQLite3 REQUIRED)             # libsqlite3-dev
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET libpq>=15)  # libpq-dev
find_library(KERNELCAST_LIBBLOOM bloom REQUIRED)  # libbloom-dev
find_package(simdjson CONFIG REQUIRED)      # libsimdjson-dev
find_package(nlohmann_json CONFIG REQUIRED)  # nlohmann-json3-dev
find_package(yaml-cpp CONFIG REQUIRED)     # libyaml-cpp-dev
find_package(prometheus-cpp CONFIG REQUIRED)  # prometheus-cpp-dev
find_package(civetweb CONFIG REQUIRED)     # libcivetweb-dev
find_package(CLI11 CONFIG REQUIRED)        # libcli11-dev
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)  # libmicrohttpd-dev
pkg_check_modules(gnutls REQUIRED IMPORTED_TARGET gnutls)      # libgnutls28-dev
pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET jemalloc)  # libjemalloc-dev
pkg_check_modules(muparser REQUIRED IMPORTED_TARGET muparser)  # libmuparser-dev
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)  # libseccomp-dev
# XGBoost's CMake package asks for CUDA at configure time; its pkg-config file does not.
pkg_check_modules(xgboost REQUIRED IMPORTED_TARGET xgboost)    # libxgboost-dev
if(KERNELCAST_BUILD_TESTS)
  find_package(Catch2 2.13 CONFIG REQUIRED)  # catch2
endif()
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
