#!/usr/bin/env python3
"""Plants violations in temporary trees and checks that check_includes.py reports them."""

import os
import tempfile
import unittest

import check_includes

HEADERS = [
    "common/base/status.h", "common/domain/bins.h", "common/convert/convert.h",
    "common/rpc/server.h", "services/worker/core/statistics.h", "services/worker/cpu/compiler.h",
    "services/worker/rpc/service.h", "services/worker/runner/protocol.h",
    "services/worker/virtual_gpu/program.h", "services/worker/virtual_gpu/execute/warp.h",
    "services/worker/virtual_gpu/bind/decoder.h", "services/worker/cuda/judge/judge.h",
    "services/forecaster/core/model.h", "services/orchestrator/store/log.h", "tests/fakes/clock.h",
]


class CheckIncludesTest(unittest.TestCase):

    def problems(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**{h: "" for h in HEADERS}, **files}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return check_includes.check(root)

    def accepts(self, path, include):
        self.assertEqual(self.problems({path: f"#include {include}\n"}), [])

    def rejects(self, path, include, reason):
        problems = self.problems({path: f"\n#include {include}\n"})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(f"{path}:2: ", problems[0])
        self.assertIn(reason, problems[0])

    def test_dependencies_that_point_down_are_accepted(self):
        self.accepts("common/domain/a.cc", '"common/base/status.h"')
        self.accepts("services/worker/core/a.cc", '"common/domain/bins.h"')
        self.accepts("services/worker/cpu/a.cc", '"services/worker/core/statistics.h"')
        self.accepts("services/worker/rpc/a.cc", '"services/worker/cpu/compiler.h"')
        self.accepts("services/worker/main.cc", '"services/worker/rpc/service.h"')
        self.accepts("services/worker/rpc/a.cc", '"kernelcast/v1/worker.grpc.pb.h"')
        self.accepts("services/worker/core/a.cc", "<vector>")
        self.accepts("services/worker/core/a.cc", '"absl/status/status.h"')
        self.accepts("tests/unit/services/worker/core/a_test.cc",
                     '"services/worker/core/statistics.h"')
        self.accepts("tests/integration/a_test.cc", '"services/worker/rpc/service.h"')

    def test_common_includes_no_service(self):
        self.rejects("common/base/a.h", '"services/worker/core/statistics.h"', "nothing but common/")

    def test_folders_of_common_have_an_order(self):
        self.rejects("common/base/a.h", '"common/domain/bins.h"', "may not depend on")
        self.rejects("common/domain/a.h", '"common/convert/convert.h"', "may not depend on")

    def test_a_new_folder_of_common_must_be_declared(self):
        self.assertIn("does not say what common/misc may include",
                      self.problems({"common/misc/a.h": ""})[0])

    def test_services_never_include_one_another(self):
        self.rejects("services/worker/rpc/a.cc", '"services/forecaster/core/model.h"', "proto/ only")

    def test_lower_layers_never_include_higher_ones(self):
        self.rejects("services/worker/core/a.cc", '"services/worker/cpu/compiler.h"', "is below")
        self.rejects("services/worker/cpu/a.cc", '"services/worker/rpc/service.h"', "is below")

    def test_core_is_pure(self):
        for include in ("<grpcpp/grpcpp.h>", "<sqlite3.h>", "<curl/curl.h>", "<cuda.h>",
                        "<yaml-cpp/yaml.h>", '"kernelcast/v1/kernel.pb.h"', "<prometheus/counter.h>",
                        "<google/protobuf/message.h>", "<xgboost/c_api.h>"):
            self.rejects("services/worker/core/a.cc", include, "is not included here")
        self.rejects("services/worker/core/a.cc", '"common/rpc/server.h"', "only base, domain")
        self.rejects("services/worker/core/a.cc", '"common/convert/convert.h"', "only base, domain")

    def test_the_runner_is_free_of_grpc_and_protos(self):
        self.rejects("services/worker/runner/a.cc", "<grpcpp/grpcpp.h>", "is not included here")
        self.rejects("services/worker/runner/a.cc", '"common/convert/convert.h"', "may include of")

    def test_the_virtual_gpu_includes_only_common_and_itself(self):
        room = "services/worker/virtual_gpu"
        self.accepts(f"{room}/bind/a.cc", '"common/base/status.h"')
        self.accepts(f"{room}/bind/a.cc", f'"{room}/program.h"')
        self.accepts("services/worker/cuda/a.cc", f'"{room}/execute/warp.h"')
        self.rejects(f"{room}/bind/a.cc", '"services/worker/core/statistics.h"', "only common/ and itself")
        self.rejects(f"{room}/program.cc", '"services/worker/cuda/judge/judge.h"', "only common/ and itself")

    def test_the_folders_of_the_virtual_gpu_have_an_order(self):
        room = "services/worker/virtual_gpu"
        self.accepts(f"{room}/bind/a.cc", f'"{room}/execute/warp.h"')
        self.accepts(f"{room}/parse/a.cc", f'"{room}/bind/decoder.h"')
        self.rejects(f"{room}/execute/a.cc", f'"{room}/bind/decoder.h"', "may not depend on")
        self.rejects(f"{room}/program.h", f'"{room}/execute/warp.h"', "files at the top")

    def test_the_domain_keeps_yaml_out_of_its_headers(self):
        self.accepts("common/domain/a.cc", "<yaml-cpp/yaml.h>")
        self.rejects("common/domain/a.h", "<yaml-cpp/yaml.h>", "is not included here")

    def test_generated_messages_stay_at_the_edge(self):
        self.accepts("services/orchestrator/store/a.cc", '"kernelcast/v1/event.pb.h"')
        self.rejects("services/worker/cpu/a.cc", '"kernelcast/v1/kernel.pb.h"', "protobuf")
        self.rejects("common/base/a.cc", '"kernelcast/v1/kernel.pb.h"', "protobuf")

    def test_cycles_between_adapters_are_found(self):
        problems = self.problems({
            "services/worker/cpu/a.cc": '#include "services/worker/runner/protocol.h"\n',
            "services/worker/runner/a.cc": '#include "services/worker/cpu/compiler.h"\n',
        })
        self.assertEqual(len(problems), 1)
        self.assertIn("closes the cycle", problems[0])

    def test_paths_start_at_the_root_and_stand_in_quotes(self):
        self.rejects("services/worker/core/a.cc", '"statistics.h"', "no such file")
        self.rejects("services/worker/core/a.cc", '"../core/statistics.h"', "no such file")
        self.rejects("services/worker/core/a.cc", "<common/base/status.h>", "in quotes")

    def test_products_do_not_include_tests(self):
        self.rejects("services/worker/core/a.cc", '"tests/fakes/clock.h"', "only tests")
        self.rejects("tests/unit/common/base/a_test.cc", '"services/worker/core/statistics.h"',
                     "includes no service")
        self.rejects("tests/unit/services/worker/a_test.cc", '"services/forecaster/core/model.h"',
                     "one service only")


if __name__ == "__main__":
    unittest.main()
