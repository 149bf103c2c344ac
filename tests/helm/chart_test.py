#!/usr/bin/env python3
"""Checks the Helm chart's output for its defaults and for each file of helm/kernelcast/examples.

    chart_test.py [--programs FOLDER] [--renew] [TEST ...]

--renew rewrites tests/helm/golden; review the difference before committing it. --programs is the folder of the three
services' programs; without it the flags that they accept are not checked. Exit code 77: Helm is missing.
"""

import argparse
import base64
import contextlib
import copy
import functools
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

import yaml

import review

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHART = os.path.join(ROOT, "helm/kernelcast")
GOLDEN = os.path.join(ROOT, "tests/helm/golden")
with open(os.path.join(ROOT, "helm/kernelcast/Chart.yaml"), encoding="utf-8") as chart:
    VERSION = yaml.safe_load(chart)["appVersion"]
TOOLS = os.path.join(ROOT, ".setup/bin")
SCHEMAS = os.path.join(ROOT, ".setup/schemas")
KUBERNETES = "1.31.0"
START_SECONDS = 60
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
options = None

VALUES = {"defaults": None} | {
    name[:-len(".yaml")]: os.path.join(CHART, "examples", name)
    for name in sorted(os.listdir(os.path.join(CHART, "examples")))}

with open(os.path.join(CHART, "Chart.yaml"), encoding="utf-8") as chart_file:
    chart_data = yaml.load(chart_file, Loader)
# Labels of every object.
LABELS = {
    "app.kubernetes.io/name": "kernelcast", "app.kubernetes.io/instance": "kc",
    "app.kubernetes.io/version": chart_data["appVersion"], "app.kubernetes.io/part-of": "kernelcast",
    "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": f"kernelcast-{chart_data['version']}"}


def helm(*arguments):
    return subprocess.run([os.path.join(TOOLS, "helm"), *arguments], text=True, capture_output=True, check=False)


def template(values=None, *sets, chart=CHART):
    """Runs helm on the chart. Returns the process with its output."""
    arguments = ["template", "kc", chart, "--namespace", "kernelcast", "--kube-version", KUBERNETES]
    if values:
        arguments += ["--values", values]
    for one in sets:
        arguments += ["--set-json" if "=" in one and one.split("=", 1)[1][:1] in "[{\"" else "--set", one]
    return helm(*arguments)


def parsed(text):
    return [document for document in yaml.load_all(text, Loader) if document]


def render(name_or_path, *sets, chart=CHART):
    """Objects rendered by the chart."""
    result = template(VALUES.get(name_or_path, name_or_path), *sets, chart=chart)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return parsed(result.stdout)


@functools.lru_cache(maxsize=None)
def rendered_text(name):
    """What the chart renders for an entry of VALUES, once per run."""
    result = template(VALUES[name])
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


def of_kind(objects, *kinds):
    return [one for one in objects if one["kind"] in kinds]


def named(objects, kind, name):
    found = [one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects {kind} {name}")
    return found[0]


def label_selector(one):
    return one["spec"]["selector"]["matchLabels"]


def label(one, name):
    return one["metadata"]["labels"].get(name)


def pod_specs(objects):
    """(name, spec) of each pod that the objects are or create."""
    for one in objects:
        if one["kind"] == "Pod":
            yield one["metadata"]["name"], one["spec"]
        elif one["kind"] in ("StatefulSet", "Deployment", "DaemonSet", "Job"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def restricted_violations(spec):
    """Violations of the restricted Pod Security Standard, and of this project's additions."""
    pod = spec.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes", []):
        allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
                   "secret", "name"}
        if set(volume) - allowed:
            yield f"volume {volume['name']}: {sorted(set(volume) - allowed)}"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a service account's token is mounted"
    for container in spec.get("initContainers", []) + spec["containers"]:
        context = container.get("securityContext", {})
        name = container["name"]
        if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
            yield f"{name}: may run as root"
        if context.get("runAsUser", pod.get("runAsUser")) == 0:
            yield f"{name}: runs as root"
        if context.get("privileged"):
            yield f"{name}: privileged"
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: may escalate"
        capabilities = context.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities {capabilities}"
        seccomp = context.get("seccompProfile", pod.get("seccompProfile", {}))
        if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: no seccomp profile"
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{name}: writable root"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name}: a port of the host"
        for variable in container.get("env", []):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                yield f"{name}: a secret in the environment"
        if "limits" not in container.get("resources", {}) or "memory" not in container["resources"]["limits"]:
            yield f"{name}: no memory limit"


def flags_of(program):
    """Names of the flags in a program's help."""
    result = subprocess.run([os.path.join(options.programs, program), "--help"], text=True, capture_output=True,
                            check=True)
    return set(re.findall(r"^\s+(?:-\w,)?--([a-z][a-z0-9-]*)", result.stdout, re.MULTILINE))


def config_of(objects, stateful_set):
    return yaml.safe_load(named(objects, "ConfigMap", stateful_set["metadata"]["name"])["data"]["config.yaml"])


class ChartTest(unittest.TestCase):
    maxDiff = None

    def each(self):
        for name in VALUES:
            yield name, parsed(rendered_text(name))

    def test_helm_lint_is_strict_and_content(self):
        for name, path in VALUES.items():
            with self.subTest(values=name):
                result = helm("lint", "--strict", CHART, "--kube-version", KUBERNETES, *(["--values", path] if path else []))
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertNotIn("[WARNING]", result.stdout)

    def test_what_is_rendered_is_what_was_reviewed(self):
        reviewed = {name: [review.readable(one, LABELS) for one in objects] for name, objects in self.each()}
        golden = set()
        for name, objects in reviewed.items():
            with self.subTest(values=name):
                is_default = name == "defaults"
                text = review.in_full(objects) if is_default else review.differences(reviewed["defaults"], objects)
                file_name = name + (".yaml" if is_default else ".txt")
                golden.add(file_name)
                path = os.path.join(GOLDEN, file_name)
                if options.renew:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                    continue
                with open(path, encoding="utf-8") as file:
                    self.assertMultiLineEqual(file.read(), text, "tests/helm/chart_test.py --renew rewrites it")
        self.assertEqual(golden, set(os.listdir(GOLDEN)))

    def test_every_object_has_the_common_labels(self):
        for name, objects in self.each():
            for one in objects:
                self.assertLessEqual(LABELS.items(), one["metadata"]["labels"].items(), f"{name}: {review.key(one)}")

    def test_the_review_shows_planted_changes(self):
        defaults = parsed(rendered_text("defaults"))
        self.assertEqual(review.differences(defaults, copy.deepcopy(defaults)), "")
        def shows(change, *lines):
            planted = copy.deepcopy(defaults)
            change(planted, named(planted, "StatefulSet", "kc-kernelcast-worker-cpu"))
            self.assertEqual(review.differences(defaults, planted).splitlines(), list(lines))
        worker = "StatefulSet kc-kernelcast-worker-cpu"
        container = "spec.template.spec.containers.worker"
        shows(lambda objects, one: one["spec"].update(replicas=7), f"{worker} changes", "  spec.replicas: 1 -> 7")
        shows(lambda objects, one: one["spec"].pop("replicas"), f"{worker} changes", "  - spec.replicas: 1")
        shows(lambda objects, one: one["spec"]["template"]["spec"]["containers"][0].update(tty=True),
              f"{worker} changes", f"  + {container}.tty: true")
        shows(lambda objects, one: one["spec"]["template"]["spec"]["containers"][0].update(env=[]), f"{worker} changes",
              f"  + {container}.env: []", f"  - {container}.env.CPU_LIMIT.name: CPU_LIMIT",
              f"  - {container}.env.CPU_LIMIT.valueFrom.resourceFieldRef.containerName: worker",
              f"  - {container}.env.CPU_LIMIT.valueFrom.resourceFieldRef.resource: limits.cpu")
        shows(lambda objects, one: objects.remove(one), f"{worker} is removed")
        def add(objects, one):
            objects.append(copy.deepcopy(one))
            objects[-1]["metadata"]["name"] += "-more"
            objects[-1]["spec"]["replicas"] = 2
        shows(add, f"{worker}-more is added, like kc-kernelcast-worker-cpu except",
              "  spec.serviceName: kc-kernelcast-worker-cpu-more -> kc-kernelcast-worker-cpu", "  spec.replicas: 1 -> 2",
              "  spec.template.spec.volumes.config.configMap.name: kc-kernelcast-worker-cpu-more -> kc-kernelcast-worker-cpu")
        shows(lambda objects, one: objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
              "Secret s is added", "  apiVersion: v1", "  kind: Secret", "  metadata: {name: s}")

    def assert_valid(self, rendered):
        """Objects are valid by the schemas of Kubernetes and of the CRDs."""
        if not os.path.isdir(SCHEMAS):
            self.skipTest("no schemas; scripts/setup.sh --test makes them")
        result = subprocess.run(
            [os.path.join(TOOLS, "kubeconform"), "-strict", "-summary", "-output", "json", "-schema-location",
             SCHEMAS + "/{{.ResourceKind}}{{.KindSuffix}}.json"],
            input=rendered, text=True, capture_output=True, check=False)
        summary = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0, json.dumps(summary, indent=2))
        self.assertEqual(summary["summary"]["skipped"], 0)
        self.assertEqual(summary["summary"]["valid"], len(parsed(rendered)))

    def test_objects_are_valid_by_the_schemas_of_kubernetes_and_of_the_crds(self):
        for name in VALUES:
            with self.subTest(values=name):
                self.assert_valid(rendered_text(name))

    def test_the_validation_finds_a_planted_mistake(self):
        if not os.path.isdir(SCHEMAS):
            self.skipTest("no schemas; scripts/setup.sh --test makes them")
        stateful_set = copy.deepcopy(of_kind(render("defaults"), "StatefulSet")[0])
        stateful_set["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        result = subprocess.run(
            [os.path.join(TOOLS, "kubeconform"), "-strict", "-schema-location",
             SCHEMAS + "/{{.ResourceKind}}{{.KindSuffix}}.json"],
            input=yaml.dump(stateful_set), text=True, capture_output=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("livenesProbe", result.stdout)

    def test_pods_keep_the_restricted_pod_security_standard(self):
        for name, objects in self.each():
            seen = 0
            for pod, spec in pod_specs(objects):
                self.assertEqual(list(restricted_violations(spec)), [], f"{name}: {pod}")
                seen += 1
            self.assertGreaterEqual(seen, 3)

    def test_the_check_of_pod_security_finds_planted_violations(self):
        _, spec = next(pod_specs(render("defaults")))
        self.assertEqual(list(restricted_violations(spec)), [])
        def plant(change):
            planted = copy.deepcopy(spec)
            change(planted, planted["containers"][0])
            self.assertNotEqual(list(restricted_violations(planted)), [])
        plant(lambda pod, one: pod.update(hostNetwork=True))
        plant(lambda pod, one: pod.pop("automountServiceAccountToken"))
        plant(lambda pod, one: pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}}))
        plant(lambda pod, one: one["securityContext"].update(runAsNonRoot=False))
        plant(lambda pod, one: one["securityContext"].update(runAsUser=0))
        plant(lambda pod, one: one["securityContext"].update(privileged=True))
        plant(lambda pod, one: one["securityContext"].pop("allowPrivilegeEscalation"))
        plant(lambda pod, one: one["securityContext"].update(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}))
        plant(lambda pod, one: one["securityContext"].update(seccompProfile={"type": "Unconfined"}))
        plant(lambda pod, one: one["securityContext"].update(readOnlyRootFilesystem=False))
        plant(lambda pod, one: one["resources"].pop("limits"))
        plant(lambda pod, one: one.update(env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {}}}]))

    def test_values_that_are_wrong_are_refused_with_a_clear_message(self):
        pools = "worker.pools."
        for sets, message in (
                (["tls.mode=on"], "'/tls/mode': value must be one of 'off', false, 'certManager', 'existingSecret'"),
                ([pools + "cpu.replica=2"], "'/worker/pools/cpu': additional properties 'replica' not allowed"),
                (["forecaster.replica=3"], "'/forecaster': additional properties 'replica' not allowed"),
                (["forecaster.replicaCount=0"], "'/forecaster/replicaCount': minimum"),
                (["orchestrator.replicaCount=0"], "'/orchestrator/replicaCount': minimum"),
                (["orchestrator.replicaCount=3"], "orchestrator.replicaCount: more than one need orchestrator.database.uri"),
                (["orchestrator.database.uri=postgresql://u@h/d", "orchestrator.perPool=true", pools + 'b.gpuProducts=["NVIDIA-H200"]'],
                 "orchestrator.database.uri: must name a database for each pool's orchestrator"),
                (["orchestrator.database.uri=postgresql://user:secret@host/db"],
                 "'/orchestrator/database/uri': 'postgresql://user:secret@host/db' does not match pattern"),
                (["logLevel=loud"], "'/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
                (["grpc.port=80"], "'/grpc/port': minimum"),
                (["surprise=1"], "additional properties 'surprise' not allowed"),
                ([pools + "Big_pool.replicaCount=1"], "'Big_pool' does not match pattern"),
                (["forecaster.config.--seed=1"], "does not match pattern"),
                ([pools + 'a100.gpuProducts=["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"]'],
                 "worker.pools.a100.gpuProducts: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb is a shared GPU or a part of one"),
                ([pools + 'l40s.gpuProducts=["NVIDIA-L40S-SHARED"]'], "NVIDIA-L40S-SHARED is a shared GPU"),
                ([pools + "cpu.enabled=false"], "worker.pools: at least one pool must be enabled"),
                ([pools + "cpu.terminationGracePeriodSeconds=600"],
                 "worker.pools.cpu: terminationGracePeriodSeconds must be longer than drainSeconds"),
                (["forecaster.terminationGracePeriodSeconds=30"],
                 "forecaster.terminationGracePeriodSeconds: must be longer than drainSeconds"),
                (["forecaster.backend=llm"],
                 "forecaster.backend: llm needs forecaster.llm.url or forecaster.llm.endpoints"),
                (["metrics.prometheusRule.enabled=true"], "metrics.runbookBase: needed for metrics.prometheusRule"),
                (["metrics.dashboards.enabled=true"], "metrics.runbookBase: needed for"),
                (["orchestrator.gateway.enabled=true"], "orchestrator.gateway.parentRefs: at least one gateway is needed"),
                (["orchestrator.ingress.enabled=true", "orchestrator.ingress.host=a.example.com", "orchestrator.perPool=true",
                  pools + "b.enabled=true"],
                 "orchestrator.ingress.host: must hold {pool}"),
                (["forecaster.replicaCount=2", "forecaster.persistence.existingClaim=mine"],
                 "forecaster.persistence.existingClaim: one claim serves one pod"),
                (["orchestrator.persistence.existingClaim=mine", "orchestrator.perPool=true", pools + "b.enabled=true"],
                 "orchestrator.persistence.existingClaim: one claim serves one pod"),
                (["httpGateway.enabled=true", "httpGateway.replicaCount=2", "httpGateway.persistence.existingClaim=mine"],
                 "httpGateway.persistence.existingClaim: one claim serves one pod"),
                (['imagePullSecrets=[{"secret":"x"}]'], "'/imagePullSecrets/0'"),
                (['forecaster.extraEnv=[{"value":"x"}]'], "'/forecaster/extraEnv/0': missing property 'name'"),
                (["tls.mode=certManager"], "tls.certManager: issuerRef.name or createIssuer is needed"),
                (["tls.mode=existingSecret"], "the name of a secret is needed where tls.mode is existingSecret"),
                (["auth.enabled=true"], "auth.enabled: tokens need TLS"),
                (["auth.enabled=true", "tls.mode=certManager", "tls.certManager.createIssuer=true"],
                 "the name of a secret is needed where auth.enabled holds"),
                (["grpc.healthPort=50051", "tls.mode=certManager", "tls.certManager.createIssuer=true"],
                 "grpc.healthPort: must differ from grpc.port"),
                (["image.digests.worker=sha256:12"], "'/image/digests/worker': 'sha256:12' does not match pattern"),
                (["image.digests.wroker=sha256:12"], "'/image/digests': additional properties 'wroker' not allowed"),
                (["forecaster.updateStrategy.type=Recreate"],
                 "'/forecaster/updateStrategy/type': value must be one of 'RollingUpdate', 'OnDelete'"),
                (["orchestrator.probes.startup.grpc.port=1"],
                 "'/orchestrator/probes/startup': additional properties 'grpc' not allowed"),
                (["orchestrator.probes.startup.failureThreshold=0"], "'/orchestrator/probes/startup/failureThreshold': minimum"),
                (["orchestrator.persistence.retention.whenDeleted=Keep"],
                 "'/orchestrator/persistence/retention/whenDeleted': value must be one of 'Retain', 'Delete'"),
                ([pools + "cpu.podSecurityContext.seccompProfile.type=Localhost"],
                 "'/worker/pools/cpu/podSecurityContext/seccompProfile': missing property 'localhostProfile'"),
                ([pools + "cpu.securityContext.privilege=true"],
                 "'/worker/pools/cpu/securityContext': additional properties 'privilege' not allowed"),
                ([pools + "cpu.hostUsers=never"], "'/worker/pools/cpu/hostUsers': got string, want"),
                ([pools + 'cpu.envFrom=[{"prefix":"A_"}]'], "'/worker/pools/cpu/envFrom/0': 'oneOf' failed"),
                ([pools + 'cpu.sidecars=[{"image":"a"}]'], "'/worker/pools/cpu/sidecars/0': missing property 'name'"),
                ([pools + "cpu.autoscaling.mode=hpa", pools + "cpu.autoscaling.minReplicas=9"],
                 "worker.pools.cpu.autoscaling: minReplicas is larger than maxReplicas"),
        ):
            with self.subTest(sets=sets):
                result = template(None, *sets)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(message, result.stderr)

    def test_names_fit_and_are_said_once(self):
        for name, objects in self.each():
            keys = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects]
            self.assertEqual(len(keys), len(set(keys)))
            for one in objects:
                self.assertEqual(one["metadata"]["namespace"], "kernelcast")
        long = "a-release-with-a-name-that-is-longer-than-most"
        rendered = helm("template", long, CHART, "--namespace", "kernelcast", "--kube-version", KUBERNETES, "--set",
                        "worker.pools.twelvelong12.replicaCount=2", "--set", "tls.mode=certManager", "--set", "tls.certManager.createIssuer=true")
        self.assertEqual(rendered.returncode, 0, rendered.stderr)
        for one in parsed(rendered.stdout):
            # A set's pods have their revision's name as a label, which is 11 characters longer.
            limit = 52 if one["kind"] == "StatefulSet" else 63
            self.assertLessEqual(len(one["metadata"]["name"]), limit, one["metadata"]["name"])

    def test_services_find_the_pods_and_orchestrators_the_workers(self):
        for name, objects in self.each():
            sets = of_kind(objects, "StatefulSet")
            port = sets[0]["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
            addresses = {}
            for one in sets:
                service = named(objects, "Service", one["spec"]["serviceName"])
                self.assertEqual(service["spec"]["clusterIP"], "None")
                labels = one["spec"]["template"]["metadata"]["labels"]
                self.assertLessEqual(service["spec"]["selector"].items(), labels.items())
                self.assertLessEqual(one["spec"]["selector"]["matchLabels"].items(), labels.items())
                # Forecasters are addressed per pod, workers by their common name.
                host = f"{one['spec']['serviceName']}.kernelcast.svc.cluster.local:{port}"
                addresses[one["metadata"]["name"]] = [f"dns:///{host}"] if "-worker-" in one["metadata"]["name"] else [
                    f"{one['metadata']['name']}-{i}.{host}" for i in range(one["spec"]["replicas"])]
            wanted = []
            for one in sets:
                if label(one, "app.kubernetes.io/component") != "orchestrator":
                    continue
                config = config_of(objects, one)
                self.assertEqual(config["forecaster"], addresses["kc-kernelcast-forecaster"])
                # Without its own pool it uses the workers of all.
                pool = one["spec"]["template"]["metadata"]["labels"].get("kernelcast.dev/pool", "")
                self.assertCountEqual(config["worker"], [
                    address for set_name, of_set in addresses.items()
                    if set_name.startswith(f"kc-kernelcast-worker-{pool}") for address in of_set])
                wanted += config["worker"]
                front = named(objects, "Service", one["metadata"]["name"][:-len("-pod")])
                self.assertLessEqual(front["spec"]["selector"].items(), one["spec"]["template"]["metadata"]["labels"].items())
            workers = [address for set_name, of_set in addresses.items() if "-worker-" in set_name for address in of_set]
            self.assertCountEqual(wanted, workers)

    def test_one_orchestrator_serves_all_pools(self):
        objects = render("defaults", "worker.pools.more.replicaCount=2",
                         'worker.pools.more.gpuProducts=["NVIDIA-L40S"]', 'worker.pools.cpu.gpuProducts=["NVIDIA-H200"]')
        config = config_of(objects, named(objects, "StatefulSet", "kc-kernelcast-orchestrator-pod"))
        self.assertEqual([address.split(".")[0] for address in config["worker"]],
                         ["dns:///kc-kernelcast-worker-cpu", "dns:///kc-kernelcast-worker-more"])

    def test_a_pool_is_scaled_without_a_word_to_its_orchestrator(self):
        def orchestrator(*sets):
            return named(render("defaults", *sets), "StatefulSet", "kc-kernelcast-orchestrator-pod")
        scaled = ["worker.pools.cpu.autoscaling.mode=keda", "worker.pools.cpu.autoscaling.maxReplicas=40"]
        for sets in (["worker.pools.cpu.replicaCount=7"], scaled):
            self.assertEqual(orchestrator(*sets), orchestrator())  # includes the checksum of its flags
        # Replicas that it must know by name are passed to it.
        self.assertNotEqual(orchestrator("forecaster.replicaCount=2"), orchestrator())

    def test_several_forecasters_have_a_name_and_a_state_each(self):
        objects = render("several-orchestrators")
        one = named(objects, "StatefulSet", "kc-kernelcast-forecaster")
        self.assertEqual(one["spec"]["replicas"], 2)
        self.assertEqual([claim["metadata"]["name"] for claim in one["spec"]["volumeClaimTemplates"]], ["state"])
        config = config_of(objects, named(objects, "StatefulSet", "kc-kernelcast-orchestrator-h100-pod"))
        self.assertEqual([address.split(".")[0] for address in config["forecaster"]],
                         ["kc-kernelcast-forecaster-0", "kc-kernelcast-forecaster-1"])
        # Spread over nodes where there are several, and not evicted at once.
        budget = named(objects, "PodDisruptionBudget", "kc-kernelcast-forecaster")
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)
        for name in ("kc-kernelcast-forecaster", "kc-kernelcast-orchestrator-h100-pod"):
            one = named(objects, "StatefulSet", name)
            spread, = one["spec"]["template"]["spec"]["topologySpreadConstraints"]
            self.assertEqual((spread["topologyKey"], spread["whenUnsatisfiable"]), ("kubernetes.io/hostname", "ScheduleAnyway"))
            self.assertEqual(spread["labelSelector"]["matchLabels"], label_selector(one))
        for one in of_kind(render("defaults"), "StatefulSet"):
            self.assertNotIn("topologySpreadConstraints", one["spec"]["template"]["spec"])

    def test_orchestrators_that_share_a_database_find_each_other(self):
        objects = render("several-orchestrators")
        databases = set()
        for pool in ("h100", "l40s"):
            name = f"kc-kernelcast-orchestrator-{pool}-pod"
            one = named(objects, "StatefulSet", name)
            spec = one["spec"]["template"]["spec"]
            container = spec["containers"][0]
            self.assertEqual(one["spec"]["replicas"], 3)
            self.assertNotIn("volumeClaimTemplates", one["spec"])
            self.assertEqual(container["args"][1:], [
                f"--advertise-address=$(POD_NAME).{name}.kernelcast.svc.cluster.local:50051"])
            self.assertEqual(container["env"],
                             [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
            # Pods get names from the headless Service, and their certificate has these names.
            self.assertEqual(named(objects, "Service", name)["spec"]["clusterIP"], "None")
            certificate = named(objects, "Certificate", "kc-kernelcast-orchestrator")
            self.assertIn(f"*.{name}.kernelcast.svc.cluster.local", certificate["spec"]["dnsNames"])
            config = config_of(objects, one)
            databases.add(config["store"])
            self.assertIn(f"/kernelcast_{pool}?", config["store"])
            # Paths in the configuration are mounted.
            mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
            self.assertIn(os.path.dirname(config["store-password-file"]), mounts)
            self.assertIn(os.path.dirname(re.search(r"sslrootcert=([^&]*)", config["store"]).group(1)), mounts)
            policy = named(objects, "NetworkPolicy", f"kc-kernelcast-orchestrator-{pool}")
            own = {**label_selector(one), "app.kubernetes.io/component": "orchestrator"}
            for direction, peers in (("ingress", "from"), ("egress", "to")):
                self.assertIn({"podSelector": {"matchLabels": own}},
                              [peer for rule in policy["spec"][direction] for peer in rule.get(peers, [])])
        self.assertEqual(len(databases), 2)
        # One orchestrator for all pools needs no selection.
        objects = render("defaults", "orchestrator.perPool=false", "orchestrator.replicaCount=2",
                         "orchestrator.database.uri=postgresql://u@h/d")
        one = named(objects, "StatefulSet", "kc-kernelcast-orchestrator-pod")
        self.assertEqual(config_of(objects, one)["store"], "postgresql://u@h/d")

    def test_gpu_pools_get_a_whole_gpu_of_their_product(self):
        objects = render("three-pools")
        products = {"a100": ["NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-40GB"], "l40s": ["NVIDIA-L40S"],
                    "h100": ["NVIDIA-H100-80GB-HBM3"]}
        for pool, wanted in products.items():
            spec = named(objects, "StatefulSet", f"kc-kernelcast-worker-{pool}")["spec"]["template"]["spec"]
            container = spec["containers"][0]
            self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], 1)
            self.assertTrue(container["image"].endswith(f"/worker-cuda:{VERSION}"))
            terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            self.assertEqual(terms, [{"matchExpressions": [
                {"key": "nvidia.com/gpu.product", "operator": "In", "values": wanted},
                {"key": "nvidia.com/gpu.sharing-strategy", "operator": "In", "values": ["none"]}]}])
            self.assertIn({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, spec["tolerations"])
            self.assertNotIn("podAntiAffinity", spec["affinity"])
        several = render("three-pools", "worker.pools.h100.gpusPerWorker=4")
        spec = named(several, "StatefulSet", "kc-kernelcast-worker-h100")["spec"]["template"]["spec"]
        self.assertEqual(spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], 4)
        cpu = named(render("defaults"), "StatefulSet", "kc-kernelcast-worker-cpu")["spec"]["template"]["spec"]
        self.assertTrue(cpu["containers"][0]["image"].endswith(f"/worker:{VERSION}"))
        self.assertNotIn("nvidia.com/gpu", cpu["containers"][0]["resources"]["limits"])
        self.assertIn("podAntiAffinity", cpu["affinity"])

    def test_pods_have_time_to_drain(self):
        for name, objects in self.each():
            for one in of_kind(objects, "StatefulSet"):
                spec = one["spec"]["template"]["spec"]
                hook = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
                drain = config_of(objects, one)["drain-seconds"]
                self.assertGreater(spec["terminationGracePeriodSeconds"], drain + int(hook[1]))
                if label(one, "app.kubernetes.io/component") == "worker":
                    self.assertGreaterEqual(drain, 600)  # the longest measurement

    def test_probes_ask_health_where_the_kubelet_can(self):
        for name, objects in self.each():
            for one in of_kind(objects, "StatefulSet"):
                container = one["spec"]["template"]["spec"]["containers"][0]
                config = config_of(objects, one)
                # Kubelets support neither TLS nor tokens.
                address = config["health-listen" if "tls-key-file" in config else "listen"]
                self.assertEqual("health-listen" in config, "tls-key-file" in config)
                port = int(address.rsplit(":", 1)[1])
                self.assertIn(port, [port["containerPort"] for port in container["ports"]])
                if label(one, "app.kubernetes.io/component") == "gateway":
                    self.assertEqual(container["livenessProbe"]["tcpSocket"], {"port": port})
                    self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/health", "port": port})
                    continue
                for probe, service in (("startup", "liveness"), ("liveness", "liveness"), ("readiness", "readiness")):
                    self.assertEqual(container[f"{probe}Probe"]["grpc"], {"port": port, "service": service})

    def test_the_gateway_reaches_its_orchestrator_and_clients_reach_it(self):
        objects = render("gateway")
        one = named(objects, "StatefulSet", "kc-kernelcast-gateway-pod")
        config = config_of(objects, one)
        name = config["orchestrator"].removeprefix("dns:///").split(":")[0]
        self.assertIn(name, named(objects, "Certificate", "kc-kernelcast-orchestrator")["spec"]["dnsNames"])
        self.assertEqual(config["client-token-file"], "/run/secrets/kernelcast/auth/token")
        # HTTP clients have tokens and no certificates.
        self.assertIn("tls-certificate-file", config)
        self.assertNotIn("tls-client-ca-file", config)
        files = named(objects, "ConfigMap", "kc-kernelcast-gateway-pod")["data"]
        self.assertEqual(config["serve"], "/etc/kernelcast/serve.yaml")
        self.assertEqual(yaml.safe_load(files["serve.yaml"]),
                         {"serve": [{"name": "softmax", "problem": "row_softmax", "target": "cpu"}],
                          "own_references": {"target": "cpu"}})
        service = named(objects, "Service", "kc-kernelcast-gateway")
        names = named(objects, "Certificate", "kc-kernelcast-gateway")["spec"]["dnsNames"]
        self.assertTrue({service["metadata"]["name"], "kernels.example.com"} <= set(names))
        self.assertFalse([name for name in names if name.startswith("kernels.example.com.")])
        self.assertEqual([port["port"] for port in service["spec"]["ports"]], [8080])
        peer = {"podSelector": {"matchLabels": label_selector(one)}}
        ingress = named(objects, "NetworkPolicy", "kc-kernelcast-orchestrator")["spec"]["ingress"]
        self.assertIn(peer, [one_peer for rule in ingress for one_peer in rule["from"]])
        self.assertEqual(of_kind(render("defaults"), "StatefulSet"),
                         [other for other in of_kind(render("defaults", "httpGateway.port=8081"), "StatefulSet")])
        pools = ("httpGateway.enabled=true", "orchestrator.perPool=true")
        self.assertIn("httpGateway.pool: with orchestrator.perPool, must name the pool", template(None, *pools).stderr)
        objects = render(None, *pools, "httpGateway.pool=cpu")
        config = config_of(objects, named(objects, "StatefulSet", "kc-kernelcast-gateway-pod"))
        self.assertTrue(config["orchestrator"].startswith("dns:///kc-kernelcast-orchestrator-cpu.kernelcast.svc."))
        self.assertNotIn("serve", config)

    def test_replicas_of_the_gateway_keep_their_callers_and_have_an_address_outside(self):
        objects = render("gateway-outside")
        one = named(objects, "StatefulSet", "kc-kernelcast-gateway-pod")
        self.assertEqual(one["spec"]["replicas"], 2)
        self.assertEqual([claim["metadata"]["name"] for claim in one["spec"]["volumeClaimTemplates"]], ["state"])
        spread, = one["spec"]["template"]["spec"]["topologySpreadConstraints"]
        self.assertEqual(spread["labelSelector"]["matchLabels"], label_selector(one))
        service = named(objects, "Service", "kc-kernelcast-gateway")
        self.assertEqual(service["spec"]["sessionAffinity"], "ClientIP")
        ingress = named(objects, "Ingress", "kc-kernelcast-gateway")["spec"]
        self.assertEqual(ingress["tls"], [{"secretName": "kernels-example-com", "hosts": ["kernels.example.com"]}])
        rule, = ingress["rules"]
        self.assertEqual((rule["host"], rule["http"]["paths"][0]["backend"]["service"]),
                         ("kernels.example.com", {"name": service["metadata"]["name"], "port": {"name": "http"}}))
        self.assertEqual(service["spec"]["ports"][0]["name"], "http")
        # One replica needs no affinity, and has no address outside unless asked.
        alone = render("gateway")
        self.assertNotIn("sessionAffinity", named(alone, "Service", "kc-kernelcast-gateway")["spec"])
        self.assertEqual(of_kind(alone, "Ingress"), [])

    def test_tokens_come_from_secrets_and_the_health_port_is_in_no_service(self):
        objects = render("tokens")
        for one in of_kind(objects, "StatefulSet"):
            component = label(one, "app.kubernetes.io/component")
            config = config_of(objects, one)
            self.assertEqual(config["auth-tokens-file"], "/run/secrets/kernelcast/auth/tokens.yaml")
            self.assertEqual(config.get("client-token-file"),
                             "/run/secrets/kernelcast/auth/token" if component == "orchestrator" else None)
            spec = one["spec"]["template"]["spec"]
            volume = next(volume for volume in spec["volumes"] if volume["name"] == "auth")
            self.assertEqual(volume["secret"]["secretName"], f"kernelcast-{component}-tokens")
            mount = next(mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "auth")
            self.assertEqual(mount["mountPath"], "/run/secrets/kernelcast/auth")
            self.assertNotIn("subPath", mount)
        for service in of_kind(objects, "Service"):
            self.assertNotIn("health", [port["name"] for port in service["spec"]["ports"]])
        pods = [one for one in of_kind(objects, "Pod")]
        self.assertTrue(all("--token-file=/run/secrets/kernelcast/auth/token" in pod["spec"]["containers"][0]["args"]
                            for pod in pods) and pods)
        self.assertEqual(of_kind(render("tokens", "auth.testSecret="), "Pod"), [])

    def test_every_set_has_a_disruption_budget(self):
        for name, objects in self.each():
            for one in of_kind(objects, "StatefulSet"):
                labels = one["spec"]["template"]["metadata"]["labels"]
                budgets = [budget for budget in of_kind(objects, "PodDisruptionBudget")
                           if budget["spec"]["selector"]["matchLabels"].items() <= labels.items()]
                self.assertEqual(len(budgets), 1, one["metadata"]["name"])
                # Draining a node must be possible, even with one pod.
                self.assertEqual(budgets[0]["spec"], {"maxUnavailable": 1, "selector": budgets[0]["spec"]["selector"]})

    def policies_of(self, objects, one):
        labels = one["spec"]["template"]["metadata"]["labels"]
        for policy in of_kind(objects, "NetworkPolicy"):
            selector = policy["spec"]["podSelector"]
            if selector.get("matchLabels", {}).items() <= labels.items() and all(
                    labels.get(rule["key"]) in rule["values"] for rule in selector.get("matchExpressions", [])):
                yield policy

    def test_workers_have_no_egress_and_only_the_forecaster_reaches_out(self):
        for name, objects in self.each():
            for one in of_kind(objects, "StatefulSet"):
                policies = list(self.policies_of(objects, one))
                self.assertEqual(len(policies), 2, one["metadata"]["name"])
                self.assertTrue(all(policy["spec"]["policyTypes"] == ["Ingress", "Egress"] for policy in policies))
                egress = [rule for policy in policies for rule in policy["spec"].get("egress", [])]
                ingress = [rule for policy in policies for rule in policy["spec"].get("ingress", [])]
                self.assertTrue(all(rule["from"] for rule in ingress))
                component = label(one, "app.kubernetes.io/component")
                anywhere = [rule for rule in egress if "to" not in rule]
                if component == "worker":
                    self.assertEqual(egress, [])
                elif component == "forecaster":
                    self.assertEqual(len(anywhere), 1 if "llm" in config_of(objects, one) else 0)
                    self.assertEqual(bool(egress), "llm" in config_of(objects, one))
                else:
                    self.assertEqual(anywhere, [{"ports": [{"port": 5432, "protocol": "TCP"}]}]
                                     if "store" in config_of(objects, one) else [])
        self.assertEqual(of_kind(render("defaults", "networkPolicy.enabled=false"), "NetworkPolicy"), [])

    def test_all_services_get_the_address_of_a_collector_and_may_reach_it(self):
        objects = render("three-pools", "tracing.otlpEndpoint=http://collector.monitoring:4318")
        for one in of_kind(objects, "StatefulSet"):
            config = config_of(objects, one)
            self.assertEqual(config["otlp-endpoint"], "http://collector.monitoring:4318")
            self.assertEqual(config["trace-ratio"], 0.01)
            if options.programs:
                self.assertLessEqual(set(config), flags_of(self.program(one)))
            policies = [policy for policy in self.policies_of(objects, one) if policy["metadata"]["name"].endswith("-tracing")]
            self.assertEqual([policy["spec"]["policyTypes"] for policy in policies], [["Egress"]])
            ports = [port["port"] for rule in policies[0]["spec"]["egress"] for port in rule["ports"]]
            self.assertEqual(ports, [53, 53, 4318])
            self.assertTrue(all(rule["to"] for rule in policies[0]["spec"]["egress"]))
        for one in of_kind(render("three-pools"), "StatefulSet"):
            self.assertNotIn("otlp-endpoint", config_of(render("three-pools"), one))

    def test_a_pool_that_is_scaled_leaves_its_replicas_to_the_scaler(self):
        objects = render("keda")
        for pool, kind in (("cpu", "HorizontalPodAutoscaler"), ("h100", "ScaledObject")):
            self.assertNotIn("replicas", named(objects, "StatefulSet", f"kc-kernelcast-worker-{pool}")["spec"])
            scaler = named(objects, kind, f"kc-kernelcast-worker-{pool}")
            self.assertEqual(scaler["spec"]["scaleTargetRef"]["kind"], "StatefulSet")
        trigger = scaler["spec"]["triggers"][0]["metadata"]
        self.assertEqual(trigger["ignoreNullValues"], "false")
        self.assertEqual(scaler["spec"]["fallback"]["behavior"], "currentReplicasIfHigher")
        with open(os.path.join(ROOT, "docs/reference/metrics.md"), encoding="utf-8") as file:
            self.assertIn(re.search(r"kernelcast_\w+", trigger["query"]).group(), file.read())

    def test_certificates_hold_every_name_that_is_called(self):
        objects = render("tls")
        hosts = {label(one, "app.kubernetes.io/component"): one["spec"]["dnsNames"]
                 for one in of_kind(objects, "Certificate") if not one["spec"].get("isCA")}
        def covered(component, host):
            return host in hosts[component] or "*." + host.split(".", 1)[1] in hosts[component]
        for one in of_kind(objects, "StatefulSet"):
            secrets = [volume["secret"]["secretName"] for volume in one["spec"]["template"]["spec"]["volumes"]
                       if "secret" in volume]
            component = label(one, "app.kubernetes.io/component")
            self.assertEqual(secrets, [f"kc-kernelcast-{component}-tls"])
            mounts = one["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
            self.assertTrue(all("subPath" not in mount for mount in mounts))  # subPath would hide renewed files
            config = config_of(objects, one)
            self.assertIn("tls-client-ca-file", config)
            if component == "orchestrator":
                for forecaster in config["forecaster"]:
                    self.assertTrue(covered("forecaster", forecaster.split(":")[0]))
                for worker in config["worker"]:
                    # Verified against the name that is looked up, whichever pod answers.
                    self.assertIn(worker.removeprefix("dns:///").split(":")[0], hosts["worker"])
                self.assertIn("client-certificate-file", config)
        for service in of_kind(objects, "Service"):
            self.assertTrue(covered(label(service, "app.kubernetes.io/component"), service["metadata"]["name"]))
        one_sided = render("tls-existing-secret")
        config = config_of(one_sided, named(one_sided, "StatefulSet", "kc-kernelcast-worker-cpu"))
        self.assertIn("tls-key-file", config)
        self.assertNotIn("tls-client-ca-file", config)

    def test_secrets_are_files_that_exist_by_name_only(self):
        for name, objects in self.each():
            self.assertEqual(of_kind(objects, "Secret"), [])
        objects = render("three-pools")
        forecaster = named(objects, "StatefulSet", "kc-kernelcast-forecaster")
        key_file = config_of(objects, forecaster)["llm-key-file"]
        mounts = forecaster["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        self.assertIn(os.path.dirname(key_file), [mount["mountPath"] for mount in mounts])

    def test_endpoints_of_models_come_as_a_file_with_their_secrets(self):
        endpoints = {"endpoints": [{"url": "https://a.example.com/v1", "model": "m",
                                    "api_key_file": "/run/secrets/kernelcast/llm-a/api-key"}]}
        objects = render("defaults", "forecaster.backend=pool", "forecaster.llm.secrets=" + json.dumps(["llm-a"]),
                         "forecaster.llm.endpoints=" + json.dumps(endpoints))
        config_map = named(objects, "ConfigMap", "kc-kernelcast-forecaster")
        self.assertEqual(yaml.safe_load(config_map["data"]["llm.yaml"]), endpoints)
        self.assertEqual(yaml.safe_load(config_map["data"]["config.yaml"])["llm-config"], "/etc/kernelcast/llm.yaml")
        volumes = named(objects, "StatefulSet", "kc-kernelcast-forecaster")["spec"]["template"]["spec"]["volumes"]
        self.assertIn("llm-a", [volume.get("secret", {}).get("secretName") for volume in volumes])

    def test_an_older_kubernetes_is_refused(self):
        old = helm("template", "kc", CHART, "--kube-version", "1.26.3")
        self.assertIn("chart requires kubeVersion: >=1.27.0-0 which is incompatible with Kubernetes v1.26.3", old.stderr)
        # Versions of distributions have suffixes.
        for version in ("1.27.0", "1.27.16-eks-7f9249a", "1.31.4+k3s1"):
            self.assertEqual(helm("template", "kc", CHART, "--kube-version", version).returncode, 0, version)

    def test_the_chart_has_an_icon_that_needs_no_address(self):
        kind, data = chart_data["icon"].split(",")
        self.assertEqual(kind, "data:image/svg+xml;base64")
        self.assertEqual(xml.dom.minidom.parseString(base64.b64decode(data)).documentElement.tagName, "svg")

    def test_secrets_and_registry_of_images_are_those_of_the_chart_or_of_its_parent(self):
        objects = render("defaults", 'imagePullSecrets=["own",{"name":"other"}]', "image.registry=registry.example.com",
                         'global.imagePullSecrets=["shared"]')
        for name, spec in pod_specs(objects):
            self.assertEqual(spec["imagePullSecrets"], [{"name": "own"}, {"name": "other"}, {"name": "shared"}], name)
            self.assertTrue(spec["containers"][0]["image"].startswith("registry.example.com/kernelcast/"), name)
        for name, spec in pod_specs(render("defaults", "image.registry=a.example.com", "global.imageRegistry=b.example.com")):
            self.assertTrue(spec["containers"][0]["image"].startswith("b.example.com/kernelcast/"), name)
            self.assertNotIn("imagePullSecrets", spec)

    def test_what_operators_add_reaches_the_pods(self):
        volume = {"name": "more", "emptyDir": {}}
        mount = {"name": "more", "mountPath": "/more"}
        variable = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
        spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2}
        sets = []
        for component in ("forecaster", "orchestrator", "worker.pools.cpu"):
            for key, value in (("extraVolumes", volume), ("extraVolumeMounts", mount), ("extraEnv", variable),
                               ("topologySpreadConstraints", spread)):
                sets.append(f"{component}.{key}={json.dumps([value])}")
        objects = render("defaults", *sets)
        for one in of_kind(objects, "StatefulSet"):
            spec = one["spec"]["template"]["spec"]
            container = spec["containers"][0]
            self.assertIn(volume, spec["volumes"])
            self.assertIn(mount, container["volumeMounts"])
            self.assertIn(variable, container["env"])
            self.assertEqual(spec["topologySpreadConstraints"], [
                {**spread, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": label_selector(one)}}])
        # The chart's own variables stay.
        worker = named(objects, "StatefulSet", "kc-kernelcast-worker-cpu")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual([one["name"] for one in worker["env"]], ["CPU_LIMIT", "HTTPS_PROXY"])

    def test_a_digest_replaces_the_tag_of_its_image(self):
        digest = "sha256:" + "0123456789abcdef" * 4
        objects = render("three-pools", "httpGateway.enabled=true", "httpGateway.pool=h100", "image.tag=edge",
                         "image.registry=registry.example.com", f"image.digests.worker-cuda={digest}",
                         f"image.digests.orchestrator={digest}")
        images = {spec["containers"][0]["image"] for _, spec in pod_specs(objects)}
        prefix = "registry.example.com/kernelcast/"
        self.assertEqual(images, {f"{prefix}worker-cuda@{digest}", f"{prefix}orchestrator@{digest}", f"{prefix}forecaster:edge",
                                  f"{prefix}gateway:edge"})

    def test_what_operators_set_for_sets_and_their_pods_reaches_each_component(self):
        container = {"name": "more", "image": "busybox:1", "securityContext": {"runAsNonRoot": True}}
        sources = [{"configMapRef": {"name": "proxies"}}, {"prefix": "A_", "secretRef": {"name": "s", "optional": True}}]
        values = {"envFrom": sources, "sidecars": [{**container, "name": "sidecar"}],
                  "initContainers": [{**container, "name": "before"}, {**container, "name": "native", "restartPolicy": "Always"}],
                  "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "50%"}},
                  "probes": {"startup": {"failureThreshold": 1800, "initialDelaySeconds": 3},
                             "liveness": {"periodSeconds": 20, "terminationGracePeriodSeconds": 9},
                             "readiness": {"timeoutSeconds": 2, "successThreshold": 2}}}
        retention = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        everywhere = {name: {**values, "persistence": {"retention": retention}}
                      for name in ("forecaster", "orchestrator", "httpGateway")}
        everywhere["httpGateway"]["enabled"] = True
        def check(objects, name, inherited=values):
            one = named(objects, "StatefulSet", f"kc-kernelcast-{name}")["spec"]
            spec = one["template"]["spec"]
            own = spec["containers"][0]
            self.assertEqual((own["envFrom"], spec["containers"][1:]), (sources, values["sidecars"]))
            self.assertEqual(spec["initContainers"], values["initContainers"])
            self.assertEqual(one["updateStrategy"], inherited["updateStrategy"])
            self.assertEqual(one.get("persistentVolumeClaimRetentionPolicy"), None if "-worker-" in f"-{name}" else retention)
            # Other fields stay, and so does the question.
            usual = named(without, "StatefulSet", f"kc-kernelcast-{name}")["spec"]["template"]["spec"]["containers"][0]
            for probe, fields in values["probes"].items():
                self.assertEqual(own[f"{probe}Probe"], {**usual[f"{probe}Probe"], **fields}, name)
        without = render("defaults", "httpGateway.enabled=true", "worker.pools.other.enabled=true")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({**everywhere, "worker": {"defaults": values, "pools": {
                "cpu": {}, "other": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}}}, file)
            file.flush()
            result = template(file.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        objects = parsed(result.stdout)
        for name in ("forecaster", "orchestrator-pod", "gateway-pod", "worker-cpu"):
            check(objects, name)
        check(objects, "worker-other", {"updateStrategy": {
            "type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "50%"}}})
        self.assert_valid(result.stdout)
        keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        self.assertEqual(named(without, "StatefulSet", "kc-kernelcast-forecaster")["spec"]["persistentVolumeClaimRetentionPolicy"],
                         keep)
        # A claim that exists is not of the set.
        existing = render("defaults", "forecaster.persistence.existingClaim=mine")
        self.assertNotIn("persistentVolumeClaimRetentionPolicy", named(existing, "StatefulSet", "kc-kernelcast-forecaster")["spec"])

    def test_security_contexts_override_single_fields_of_the_charts(self):
        def of(objects, name):
            spec = named(objects, "StatefulSet", f"kc-kernelcast-{name}")["spec"]["template"]["spec"]
            return spec, spec["containers"][0]["securityContext"]
        usual, usual_container = of(render("defaults"), "worker-cpu")
        self.assertNotIn("hostUsers", usual)
        objects = render("isolation", "forecaster.hostUsers=true", "orchestrator.podSecurityContext.supplementalGroupsPolicy=Strict",
                         "worker.pools.cpu.securityContext.readOnlyRootFilesystem=false",
                         'worker.pools.cpu.securityContext.capabilities.drop=["NET_RAW"]', "podSecurity.fsGroup=null")
        spec, container = of(objects, "worker-cpu")
        self.assertIs(spec["hostUsers"], False)
        profiles = {"seccompProfile": {"type": "Localhost", "localhostProfile": "kernelcast-worker.json"},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": "kernelcast-worker"}}
        kept = {name: value for name, value in usual["securityContext"].items() if not name.startswith("fsGroup")}
        self.assertEqual(spec["securityContext"], {**kept, **profiles})
        # Nothing in the container's context would hide the pod's profile.
        self.assertEqual(container, {**usual_container, "readOnlyRootFilesystem": False, "capabilities": {"drop": ["NET_RAW"]}})
        self.assertIs(of(objects, "forecaster")[0]["hostUsers"], True)
        context = of(objects, "orchestrator-pod")[0]["securityContext"]
        self.assertEqual((context["supplementalGroupsPolicy"], context["seccompProfile"]), ("Strict", {"type": "RuntimeDefault"}))
        # The pod of `helm test` has the orchestrator's.
        self.assertEqual([one["spec"]["securityContext"] for one in of_kind(objects, "Pod")], [context])
        # The files that the example names are shipped.
        folders = {"seccompProfile": "seccomp", "appArmorProfile": "apparmor"}
        for field, profile in profiles.items():
            self.assertTrue(os.path.isfile(os.path.join(ROOT, "deploy/kubernetes", folders[field], profile["localhostProfile"])))
        everywhere = {"hostUsers": False, "podSecurityContext": {
            **profiles, "runAsUser": 5, "runAsGroup": 6, "runAsNonRoot": True, "fsGroup": 7, "fsGroupChangePolicy": "Always",
            "supplementalGroups": [8], "supplementalGroupsPolicy": "Merge", "seLinuxOptions": {"level": "s0:c1,c2"},
            "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]},
            "securityContext": {**profiles, "runAsUser": 5, "procMount": "Unmasked", "privileged": False,
                                "capabilities": {"add": ["NET_BIND_SERVICE"]}}}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"forecaster": everywhere, "orchestrator": everywhere, "httpGateway": {"enabled": True, **everywhere},
                       "worker": {"defaults": everywhere}}, file)
            file.flush()
            result = template(file.name)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("forecaster", "orchestrator-pod", "gateway-pod", "worker-cpu"):
            spec, container = of(parsed(result.stdout), name)
            self.assertIs(spec["hostUsers"], False)
            self.assertEqual(spec["securityContext"], everywhere["podSecurityContext"])
            self.assertEqual(container["capabilities"], {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})
        self.assert_valid(result.stdout)

    def test_a_claim_that_is_there_takes_the_place_of_a_template(self):
        objects = render("defaults", "forecaster.persistence.existingClaim=mine", "orchestrator.persistence.existingClaim=log")
        for name, claim in (("kc-kernelcast-forecaster", "mine"), ("kc-kernelcast-orchestrator-pod", "log")):
            one = named(objects, "StatefulSet", name)
            self.assertNotIn("volumeClaimTemplates", one["spec"])
            self.assertEqual([volume["persistentVolumeClaim"] for volume in one["spec"]["template"]["spec"]["volumes"]
                              if volume["name"] == "state"], [{"claimName": claim}])

    def test_orchestrators_have_an_address_outside_by_ingress_or_gateway(self):
        objects = render("defaults", "orchestrator.ingress.enabled=true", "orchestrator.ingress.host=kc-{pool}.example.com",
                         "orchestrator.ingress.className=nginx", "orchestrator.ingress.tlsSecret=outer",
                         "orchestrator.perPool=true", "worker.pools.more.enabled=true", "orchestrator.gateway.enabled=true",
                         "orchestrator.gateway.host=grpc-{pool}.example.com", 'orchestrator.gateway.parentRefs=[{"name":"outer"}]')
        for pool in ("cpu", "more"):
            name = f"kc-kernelcast-orchestrator-{pool}"
            service = named(objects, "Service", name)
            ingress = named(objects, "Ingress", name)["spec"]
            self.assertEqual(ingress["ingressClassName"], "nginx")
            self.assertEqual(ingress["tls"], [{"secretName": "outer", "hosts": [f"kc-{pool}.example.com"]}])
            rule, = ingress["rules"]
            self.assertEqual(rule["host"], f"kc-{pool}.example.com")
            backend = rule["http"]["paths"][0]["backend"]["service"]
            self.assertEqual(backend, {"name": service["metadata"]["name"], "port": {"name": "grpc"}})
            route = named(objects, "GRPCRoute", name)["spec"]
            self.assertEqual(route["parentRefs"], [{"name": "outer"}])
            self.assertEqual(route["hostnames"], [f"grpc-{pool}.example.com"])
            self.assertEqual(route["rules"], [{"backendRefs": [{"name": name, "port": service["spec"]["ports"][0]["port"]}]}])
        self.assertEqual(of_kind(render("defaults"), "Ingress", "GRPCRoute"), [])

    def test_own_flags_and_labels_reach_the_pods(self):
        objects = render("defaults", "worker.pools.cpu.config.cxx=clang++", "forecaster.config.seed=7",
                         "commonLabels.team=kernels", "orchestrator.podAnnotations.note=here",
                         'extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{ .Release.Name }}-mine",'
                         '"namespace":"kernelcast"}}]')
        self.assertEqual(config_of(objects, named(objects, "StatefulSet", "kc-kernelcast-worker-cpu"))["cxx"], "clang++")
        self.assertEqual(config_of(objects, named(objects, "StatefulSet", "kc-kernelcast-forecaster"))["seed"], 7)
        orchestrator = named(objects, "StatefulSet", "kc-kernelcast-orchestrator-pod")
        self.assertEqual(label(orchestrator, "team"), "kernels")
        self.assertEqual(orchestrator["spec"]["template"]["metadata"]["annotations"]["note"], "here")
        named(objects, "ConfigMap", "kc-mine")

    def test_a_changed_flag_rolls_the_pods(self):
        def checksum(*sets):
            objects = render("defaults", *sets)
            one = named(objects, "StatefulSet", "kc-kernelcast-worker-cpu")
            return one["spec"]["template"]["metadata"]["annotations"]["kernelcast.dev/config-checksum"]
        self.assertEqual(checksum(), checksum())
        self.assertNotEqual(checksum(), checksum("logLevel=debug"))

    def test_rules_and_boards_come_from_deploy_where_they_are(self):
        for what, kind, flag in (("prometheus", "PrometheusRule", "prometheusRule"), ("grafana", "ConfigMap", "dashboards")):
            with self.subTest(what):
                carried = os.path.isdir(os.path.join(CHART, "files", what))
                offered = os.path.isdir(os.path.join(ROOT, "deploy", what))
                self.assertEqual(carried, offered,
                                 f"helm/kernelcast/files/{what} must be a link to the files of deploy/{what}")
                if not carried:
                    result = template(None, f"metrics.{flag}.enabled=true", "metrics.runbookBase=https://git.example.com/")
                    self.assertIn(f"metrics.{flag}.enabled: this chart carries no", result.stderr)
        # Plants files in a copy, so that the templates are tested either way.
        with tempfile.TemporaryDirectory() as folder:
            chart = shutil.copytree(CHART, os.path.join(folder, "kernelcast"), symlinks=False)
            for path, text in (("prometheus/planted.yml",
                                'groups: [{name: planted, rules: [{alert: A, expr: "up == 0", '
                                'annotations: {summary: "{{ $labels.instance }}"}}]}]\n'),
                               ("grafana/kernelcast-planted.json", '{"title": "{{ planted }}"}\n')):
                path = os.path.join(chart, "files", path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            objects = render(None, "metrics.prometheusRule.enabled=true", "metrics.dashboards.enabled=true",
                             "metrics.runbookBase=https://git.example.com/", chart=chart)
            groups = named(objects, "PrometheusRule", "kc-kernelcast")["spec"]["groups"]
            self.assertIn("{{ $labels.instance }}",
                          [rule.get("annotations", {}).get("summary") for group in groups for rule in group["rules"]])
            board = named(objects, "ConfigMap", "kc-kernelcast-board-planted")
            self.assertEqual(json.loads(board["data"]["kernelcast-planted.json"])["title"], "{{ planted }}")
            self.assertEqual(label(board, "grafana_dashboard"), "1")

    def test_rules_and_boards_arrive_whole_and_lead_to_runbooks(self):
        base = "https://git.example.com/blob/main/"
        objects = render(None, "metrics.prometheusRule.enabled=true", "metrics.dashboards.enabled=true",
                         f"metrics.runbookBase={base}")
        groups = named(objects, "PrometheusRule", "kc-kernelcast")["spec"]["groups"]
        offered = []
        for path in glob.glob(os.path.join(ROOT, "deploy/prometheus/rules/*.yml")):
            with open(path, encoding="utf-8") as file:
                offered += yaml.safe_load(file)["groups"]
        for group in offered:
            for rule in group["rules"]:
                if "alert" in rule:
                    rule["annotations"]["runbook_url"] = rule["annotations"]["runbook_url"].replace(
                        "{{ $externalLabels.runbooks }}", base)
                    self.assertTrue(rule["annotations"]["runbook_url"].startswith(base + "docs/howto/operations.md#"))
        self.assertEqual(sorted(groups, key=lambda one: one["name"]), sorted(offered, key=lambda one: one["name"]))
        paths = glob.glob(os.path.join(ROOT, "deploy/grafana/dashboards/*.json"))
        self.assertEqual(len(paths), 5)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                offered = json.load(file)
            name = os.path.basename(path)
            one = named(objects, "ConfigMap", "kc-kernelcast-board-" + name[len("kernelcast-"):-len(".json")])
            self.assertLess(len(one["data"][name]), 1_000_000)
            arrived = json.loads(one["data"][name])
            links = [variable for variable in arrived["templating"]["list"] if variable["name"] == "runbooks"]
            self.assertEqual([link["query"] for link in links], [base + "docs/howto/operations.md"])
            links[0]["query"] = "docs/howto/operations.md"
            self.assertEqual(arrived, offered)

    def program(self, one):
        image = one["spec"]["template"]["spec"]["containers"][0]["image"].split("/")[-1].split(":")[0]
        return "kernelcast-" + image.removesuffix("-cuda")

    def test_every_flag_is_one_of_the_program(self):
        if not options.programs:
            self.skipTest("no --programs")
        known = {program: flags_of(program) for program in
                 ("kernelcast-forecaster", "kernelcast-gateway", "kernelcast-orchestrator", "kernelcast-worker")}
        for name, objects in self.each():
            for one in of_kind(objects, "StatefulSet"):
                flags = known[self.program(one)]
                self.assertLessEqual(set(config_of(objects, one)), flags)
                for argument in one["spec"]["template"]["spec"]["containers"][0]["args"]:
                    self.assertIn(re.match(r"--([a-z-]+)=", argument).group(1), flags)

    def test_the_programs_serve_with_the_rendered_configuration(self):
        if not options.programs:
            self.skipTest("no --programs")
        objects = render("one-node")
        started = {}
        with tempfile.TemporaryDirectory() as folder:
            for one in of_kind(objects, "StatefulSet"):
                program = self.program(one)
                state = os.path.join(folder, program)
                os.mkdir(state)
                config = os.path.join(state, "config.yaml")
                with open(config, "w", encoding="utf-8") as file:
                    file.write(named(objects, "ConfigMap", one["metadata"]["name"])["data"]["config.yaml"])
                ready = os.path.join(state, "ready.json")
                # Only machine-specific paths are replaced.
                place = "--cache-dir" if program == "kernelcast-worker" else "--state-dir"
                process = subprocess.Popen(
                    [os.path.join(options.programs, program), f"--config={config}", "--listen=127.0.0.1:0",
                     "--metrics=127.0.0.1:0", f"{place}={state}/state", f"--ready-file={ready}"],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                started[program] = (process, ready)
            try:
                for program, (process, ready) in started.items():
                    deadline = time.monotonic() + START_SECONDS
                    while not os.path.exists(ready):
                        if process.poll() is not None or time.monotonic() > deadline:
                            process.kill()
                            self.fail(f"{program}: {process.communicate()[1]}")
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(0.05)
            finally:
                for process, _ in started.values():
                    if process.poll() is None:
                        process.send_signal(signal.SIGTERM)
                codes = [process.wait(START_SECONDS) if process.poll() is None else process.returncode
                         for process, _ in started.values()]
                for process, _ in started.values():
                    process.stderr.close()
            self.assertEqual(codes, [0, 0, 0])

    def test_the_readme_lists_every_value(self):
        with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
            values = yaml.safe_load(file)
        with open(os.path.join(CHART, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        for name in values:
            self.assertRegex(readme, rf"`{name}[`.]", "of values.yaml")
        for name in values["worker"]["defaults"]:
            self.assertIn(f"`{name}", readme, "of worker.defaults")
        for example in VALUES:
            if example != "defaults":
                self.assertIn(f"examples/{example}.yaml", readme)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", default="")
    parser.add_argument("--renew", action="store_true")
    options, rest = parser.parse_known_args()
    if not os.access(os.path.join(TOOLS, "helm"), os.X_OK):
        print("skipped: Helm is missing; scripts/setup.sh --test installs it where there is a Go to build it with")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
