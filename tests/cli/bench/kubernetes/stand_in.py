"""Stands in for `kubectl` and a cluster: takes what batch/v1 and v1 allow of Jobs and claims, with the rules that an API
server of Kubernetes 1.29 to 1.33 has for them, and starts each pod as a process of this machine. Everything is in the folder
that it lies in. Pods are started by `kubectl controller`, which lives as long as its standard input is open, and they with
it."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")


def fail(text):
    sys.exit(f"error: {text}")


def invalid(path, text):
    fail(f'The Job is invalid: {path}: {text}')


def check(value, schema, path):
    """Strict validation of fields and types, as `kubectl` asks the server for."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            fail(f"{path}: expected an object")
        if "*" in schema:
            for key, found in value.items():
                check(found, schema["*"], f"{path}.{key}")
            return
        for key, found in value.items():
            name = next((name for name in schema if name.rstrip("!") == key), None)
            if name is None:
                fail(f'strict decoding error: unknown field "{path}.{key}"')
            check(found, schema[name], f"{path}.{key}")
        for name in schema:
            if name.endswith("!") and name[:-1] not in value:
                fail(f"{path}.{name[:-1]}: Required value")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            fail(f"{path}: expected an array")
        for index, found in enumerate(value):
            check(found, schema[0], f"{path}[{index}]")
    elif schema is int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            fail(f"{path}: expected a number of 0 or more, found {value!r}")
    elif not isinstance(value, schema):
        fail(f"{path}: expected {schema.__name__}, found {value!r}")


METADATA = {"name!": str, "namespace": str, "labels": {"*": str}, "annotations": {"*": str}}
RESOURCES = {"requests": {"*": str}, "limits": {"*": str}}
CONTAINER = {
    "name!": str, "image!": str, "command": [str], "args": [str], "workingDir": str,
    "env": [{"name!": str, "value": str}],
    "envFrom": [{"prefix": str, "secretRef": {"name!": str, "optional": bool}}],
    "resources": RESOURCES,
    "volumeMounts": [{"name!": str, "mountPath!": str, "readOnly": bool, "subPath": str}],
}
POD = {
    "restartPolicy": str, "terminationGracePeriodSeconds": int, "containers!": [CONTAINER],
    "volumes": [{"name!": str, "persistentVolumeClaim": {"claimName!": str, "readOnly": bool}}],
    "nodeSelector": {"*": str}, "activeDeadlineSeconds": int, "serviceAccountName": str,
}
EXIT_CODES = {"containerName": str, "operator!": str, "values!": [int]}
RULE = {"action!": str, "onExitCodes": EXIT_CODES, "onPodConditions": [{"type!": str, "status!": str}]}
JOB = {
    "apiVersion!": str, "kind!": str, "metadata!": METADATA,
    "spec!": {
        "activeDeadlineSeconds": int, "backoffLimit": int, "backoffLimitPerIndex": int,
        "completionMode": str, "completions": int, "managedBy": str, "manualSelector": bool,
        "maxFailedIndexes": int, "parallelism": int, "podFailurePolicy": {"rules!": [RULE]},
        "podReplacementPolicy": str, "suspend": bool, "ttlSecondsAfterFinished": int,
        "template!": {"metadata": {"labels": {"*": str}, "annotations": {"*": str}}, "spec!": POD},
    },
}
CLAIM = {
    "apiVersion!": str, "kind!": str, "metadata!": METADATA,
    "spec!": {
        "accessModes!": [str], "resources!": RESOURCES, "storageClassName": str, "volumeName": str,
        "volumeMode": str,
    },
}


def check_metadata(metadata, pattern, most):
    name = metadata["name"]
    if not pattern.fullmatch(name) or len(name) > most:
        invalid("metadata.name", f"{name!r} is no name")
    for key, value in metadata.get("labels", {}).items():
        prefix, _, name = key.rpartition("/")
        if not LABEL_VALUE.fullmatch(name) or not name or prefix and not SUBDOMAIN.fullmatch(prefix):
            invalid("metadata.labels", f"{key!r} is no name of a label")
        if not LABEL_VALUE.fullmatch(value) or len(value) > 63:
            invalid("metadata.labels", f"{value!r} is no value of a label")


def check_policy(spec, containers):
    for rule in spec["podFailurePolicy"]["rules"]:
        if rule["action"] not in ("FailJob", "FailIndex", "Ignore", "Count"):
            invalid("podFailurePolicy", f"{rule['action']!r} is no action")
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
            invalid("podFailurePolicy", "FailIndex needs backoffLimitPerIndex")
        if ("onExitCodes" in rule) == ("onPodConditions" in rule):
            invalid("podFailurePolicy", "one of onExitCodes and onPodConditions is needed")
        codes = rule.get("onExitCodes")
        if codes:
            values = codes["values"]
            if codes["operator"] not in ("In", "NotIn"):
                invalid("podFailurePolicy", f"{codes['operator']!r} is no operator")
            if not values or values != sorted(set(values)) or max(values) > 255:
                invalid("podFailurePolicy", f"{values} are not in order, or not different")
            if codes["operator"] == "In" and 0 in values:
                invalid("podFailurePolicy", "0 cannot be with the operator In")
            if codes.get("containerName", containers[0]) not in containers:
                invalid("podFailurePolicy", f"no container {codes['containerName']!r}")


def check_job(job):
    check(job, JOB, "Job")
    check_metadata(job["metadata"], LABEL, 63)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    if spec.get("completionMode", "NonIndexed") not in ("Indexed", "NonIndexed"):
        invalid("spec.completionMode", f"unsupported value {spec['completionMode']!r}")
    is_indexed = spec.get("completionMode") == "Indexed"
    if is_indexed and "completions" not in spec:
        invalid("spec.completions", "required with the completion mode Indexed")
    if "backoffLimitPerIndex" in spec and not is_indexed:
        invalid("spec.backoffLimitPerIndex", "needs the completion mode Indexed")
    if "maxFailedIndexes" in spec:
        if "backoffLimitPerIndex" not in spec:
            invalid("spec.backoffLimitPerIndex", "required with maxFailedIndexes")
        if spec["maxFailedIndexes"] > spec["completions"]:
            invalid("spec.maxFailedIndexes", "more than completions")
    policy = pod.get("restartPolicy", "Always")
    if policy not in ("OnFailure", "Never"):
        invalid("spec.template.spec.restartPolicy", f"unsupported value {policy!r}")
    if policy != "Never" and ("podFailurePolicy" in spec or "backoffLimitPerIndex" in spec):
        invalid("spec.template.spec.restartPolicy", "only Never here")
    check_metadata({"name": "x", **spec["template"].get("metadata", {})}, LABEL, 63)
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"]:
        if not LABEL.fullmatch(container["name"]) or not container["image"]:
            invalid("containers", "a name and an image are needed")
        for amounts in container.get("resources", {}).values():
            for amount in amounts.values():
                if not QUANTITY.fullmatch(amount):
                    invalid("containers.resources", f"{amount!r} is no quantity")
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                invalid("containers.volumeMounts", f"no volume {mount['name']!r}")
            if not mount["mountPath"].startswith("/") or ":" in mount["mountPath"]:
                invalid("containers.volumeMounts", f"{mount['mountPath']!r} is no path")
    if "podFailurePolicy" in spec:
        check_policy(spec, [container["name"] for container in pod["containers"]])


def check_claim(claim):
    check(claim, CLAIM, "PersistentVolumeClaim")
    check_metadata(claim["metadata"], SUBDOMAIN, 253)
    modes = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
    if not set(claim["spec"]["accessModes"]) <= modes or not claim["spec"]["accessModes"]:
        fail("PersistentVolumeClaim: spec.accessModes: unsupported value")
    if not QUANTITY.fullmatch(claim["spec"]["resources"]["requests"]["storage"]):
        fail("PersistentVolumeClaim: no quantity of storage")


def place(kind, name):
    return os.path.join(HERE, f"{kind}-{name}")


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def store(path, value):
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.rename(path + ".new", path)


def apply():
    text = json.load(sys.stdin)
    if (text.get("apiVersion"), text.get("kind")) != ("v1", "List"):
        fail("expected a List of v1")
    kinds = {("batch/v1", "Job"): check_job, ("v1", "PersistentVolumeClaim"): check_claim}
    for item in text["items"]:
        kind = (item.get("apiVersion"), item.get("kind"))
        if kind not in kinds:
            fail(f"no matches for kind {kind}")
        kinds[kind](item)
    for item in text["items"]:
        kind, name = item["kind"], item["metadata"]["name"]
        path = place(kind, name)
        known = load(path)
        if known is not None:
            if known["spec"] != item["spec"]:
                fail(f"{kind} {name!r} is invalid: spec is immutable after creation")
            print(f"{kind.lower()}/{name} unchanged")
            continue
        if kind == "Job":
            store(place("pods", name), [])
        store(path, item)
        print(f"{kind.lower()}/{name} created")


def start(name, index, count, pod):
    """A pod, or none while its claim or its secret is missing."""
    container = pod["containers"][0]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod.get("volumes", [])]
    env = {"PATH": os.environ["PATH"], "JOB_COMPLETION_INDEX": str(index)}
    for source in container.get("envFrom", []):
        secret = load(place("Secret", source["secretRef"]["name"]))
        if secret is None:
            return None
        env.update(secret)
    if any(load(place("PersistentVolumeClaim", claim)) is None for claim in claims):
        return None
    # Each has the file system of its image.
    env["HOME"] = os.path.join(HERE, "homes", f"{name}-{index}-{count}")
    os.makedirs(env["HOME"])
    with open(os.path.join(HERE, f"log-{name}-{index}-{count}"), "w") as log:
        return subprocess.Popen(
            container["command"] + container.get("args", []), env=env, cwd=container["workingDir"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )


def is_final(spec, code):
    """Whether the index of a pod that failed so fails at once."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes")
        if codes and (code in codes["values"]) == (codes["operator"] == "In"):
            return rule["action"] == "FailIndex"
    return False


class Controller:
    """Of one Job: a pod for each index, again after a failure, until the Job has ended or is deleted."""

    def __init__(self, name):
        self.name = name
        self.spec = load(place("Job", name))["spec"]
        self.pod = self.spec["template"]["spec"]
        self.waiting = [(index, 0) for index in range(self.spec["completions"])]
        self.running, self.pods, self.end = {}, {}, None

    def show(self, index, count, phase):
        self.pods[f"{self.name}-{index}-{count}"] = (phase, f"node{index}", None)
        store(place("pods", self.name), [[key, *value] for key, value in self.pods.items()])

    def step(self):
        """Whether the Job is still there."""
        if not os.path.exists(place("Job", self.name)):
            return self.delete()
        for index, count in list(self.waiting[: self.spec["parallelism"] - len(self.running)]):
            process = start(self.name, index, count, self.pod)
            if process:
                self.waiting.remove((index, count))
                self.running[index, count] = process
            if process or f"{self.name}-{index}-{count}" not in self.pods:
                self.show(index, count, "Running" if process else "Pending")
        for (index, count), process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[index, count]
            self.show(index, count, "Failed" if code else "Succeeded")
            is_last = count >= self.spec["backoffLimitPerIndex"] or is_final(self.spec, code % 256)
            if code and not is_last:
                self.waiting.append((index, count + 1))
        return True

    def delete(self):
        """Ends the pods, first by a signal."""
        if self.end is None:
            self.end = time.monotonic() + self.pod["terminationGracePeriodSeconds"]
            for process in self.running.values():
                process.send_signal(signal.SIGTERM)
        if time.monotonic() > self.end:
            self.kill()
        if any(process.poll() is None for process in self.running.values()):
            return True
        os.remove(place("pods", self.name))
        return False

    def kill(self):
        for process in self.running.values():
            process.kill()


def control():
    controllers = {}
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        for file in os.listdir(HERE):
            name = file.removeprefix("Job-")
            if name != file and not name.endswith(".new"):
                controllers.setdefault(name, None)
        for name, controller in list(controllers.items()):
            controllers[name] = controller = controller or Controller(name)
            if not controller.step():
                del controllers[name]
    for controller in controllers.values():
        controller.kill()


def get_pods(options):
    name = options["--selector"].removeprefix("job-name=")
    columns = [column.split(":") for column in options["--output"].removeprefix("custom-columns=").split(",")]
    if not all(len(column) == 2 and column[1].startswith(".") for column in columns):
        fail(f"expected NAME:.path, found {columns}")
    pods = load(place("pods", name))
    if not pods:
        print("No resources found in default namespace.", file=sys.stderr)
    for key, phase, node, reason in pods or []:
        values = {".metadata.name": key, ".status.phase": phase, ".spec.nodeName": node, ".status.reason": reason}
        print("   ".join(values[path] or "<none>" for _, path in columns))


def delete_job(name, options):
    if not os.path.exists(place("Job", name)):
        if "--ignore-not-found" not in options:
            fail(f'jobs.batch "{name}" not found')
        return
    os.remove(place("Job", name))
    print(f'job.batch "{name}" deleted')
    # With `--cascade=foreground`.
    while os.path.exists(place("pods", name)):
        time.sleep(0.05)


def main():
    words = sys.argv[1:]
    if words == ["controller"]:
        return control()
    # As the orchestrator's configuration has it: every call needs it.
    if words[:1] != ["--context=lab"]:
        fail("no context is named")
    words = words[1:]
    options = dict((word.split("=", 1) + [""])[:2] for word in words if word.startswith("--"))
    verbs = [word for word in words if not word.startswith("--")]
    if verbs == ["apply", "-f", "-"]:
        return apply()
    if verbs == ["get", "pods"] and "--no-headers" in options:
        return get_pods(options)
    if verbs[:2] == ["delete", "job"] and options.get("--cascade") == "foreground":
        return delete_job(verbs[2], options)
    fail(f"unknown command {words}")


main()
