"""Stands in for a container engine: a daemon, and a client with the engine's command line.

`stand_in.py daemon` serves the clients beside it, until it is killed. Any other call is a client: it hands its words,
its environment and its streams to the daemon, so that what it started does not end with it, as with a real engine.
A container is a folder, and its processes see it through bubblewrap. A file `fault-VERB` beside this one makes the
verb fail: "hang", or an exit status and a message.
"""
import json
import os
import socket
import sys

IS_DAEMON = sys.argv[1:] == ["daemon"]
if IS_DAEMON:
    # A client starts in half the time without these.
    import shutil
    import subprocess
    import threading
    import time

    LOCK = threading.Lock()

HERE = os.path.dirname(os.path.realpath(__file__))
SOCKET = os.path.join(HERE, "socket")
CONTAINERS = {}


def path(*parts):
    return os.path.join(HERE, *parts)


class Failure(Exception):
    def __init__(self, message, code=125):
        super().__init__(message)
        self.code = code


def client():
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(SOCKET)
    except OSError as error:
        print(f"Cannot connect to the stand-in: {error}", file=sys.stderr)
        sys.exit(125)
    request = json.dumps({"words": sys.argv[1:], "env": dict(os.environ)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(request)
    answer = connection.recv(16)
    sys.exit(int(answer or b"125"))


def receive(connection):
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    size, data = int.from_bytes(head, "big"), b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return json.loads(data), streams


def serve(connection):
    request, streams = receive(connection)
    words = request["words"]
    with LOCK, open(path("calls.jsonl"), "a") as log:
        log.write(json.dumps(words) + "\n")
    try:
        fault(words[0])
        code = VERBS[words[0]](Call(words[1:], request["env"], streams, connection))
    except Failure as failure:
        os.write(streams[2], f"Error: {failure}\n".encode())
        code = failure.code
    for stream in streams:
        os.close(stream)
    try:
        connection.sendall(str(code or 0).encode())
    except OSError:
        pass
    connection.close()


def fault(verb):
    try:
        text = open(path(f"fault-{verb}")).read()
    except OSError:
        return
    if text == "hang":
        # As long as the fault is there.
        while os.path.exists(path(f"fault-{verb}")):
            time.sleep(0.05)
        return
    code, _, message = text.partition(" ")
    raise Failure(message, int(code))


class Call:
    def __init__(self, words, env, streams, connection):
        self.env, self.streams, self.connection = env, streams, connection
        self.options, self.words = {}, []
        flags = {"--interactive", "--attach", "--force", "--volumes", "--all"}
        words = list(words)
        while words:
            word = words.pop(0)
            if self.words and self.words[0] not in ("inspect",):
                self.words.append(word)
            elif word in flags:
                self.options[word] = ["true"]
            elif word.startswith("--"):
                self.options.setdefault(word, []).append(words.pop(0))
            else:
                self.words.append(word)

    def one(self, name, default=None):
        return self.options.get(name, [default])[-1]

    def print(self, text):
        os.write(self.streams[1], text.encode())


def container(name):
    if name not in CONTAINERS:
        raise Failure(f'no container with name or ID "{name}" found: no such container', 1)
    return CONTAINERS[name]


def info(call):
    controllers = ["cpu", "memory"]
    call.print(json.dumps({"version": {"Version": "9.8.7"}, "host": {"cgroupControllers": controllers}}))


def image_folder(name):
    return path("images", name.replace("/", "_").replace(":", "_"))


def image(call):
    folder = image_folder(call.words[1])
    if not os.path.exists(folder):
        raise Failure(f"{call.words[1]}: image not known")
    call.print(json.dumps([json.load(open(os.path.join(folder, "image.json")))]))


def build(call):
    root, workdir = path("building"), "/"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root + "/root")
    context = call.words[0]
    for line in open(call.one("--file")).read().splitlines():
        verb, _, rest = line.partition(" ")
        if verb == "WORKDIR":
            workdir = rest
            os.makedirs(root + "/root" + workdir, exist_ok=True)
        elif verb == "COPY":
            source, target = rest.split()
            source, target = os.path.join(context, source), root + "/root" + target
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        elif verb == "RUN":
            view = {"root": root + "/root", "mounts": []}
            done = subprocess.run(
                bubblewrap(view, workdir) + ["sh", "-c", rest], stdin=subprocess.DEVNULL,
                stdout=call.streams[1], stderr=call.streams[2], env={"PATH": "/usr/bin:/bin"})
            if done.returncode:
                raise Failure(f"building at STEP \"{line}\": exit status {done.returncode}", 1)
    config = {"WorkingDir": workdir, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "OF_IMAGE=yes"]}
    json.dump({"Id": "sha256:1", "Config": config}, open(root + "/image.json", "w"))
    folder = image_folder(call.one("--tag"))
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    os.rename(root, folder)


def create(call):
    name = call.one("--name")
    folder = image_folder(call.words[0])
    if not os.path.exists(folder):
        raise Failure("no such image")
    root = path("containers", name)
    with LOCK:
        if name in CONTAINERS:
            raise Failure("the container name is already in use")
        shutil.copytree(folder + "/root", root, symlinks=True)
        mounts = [dict(part.partition("=")[::2] for part in option.split(","))
                  for option in call.options.get("--mount", [])]
        for mount in mounts:
            if not os.path.exists(mount["source"]):
                raise Failure(f"{mount['source']}: no such file or directory")
        CONTAINERS[name] = {
            "root": root, "mounts": mounts, "labels": call.options.get("--label", []), "main": None, "execs": [],
            "workdir": call.one("--workdir", "/"), "words": [call.one("--entrypoint"), *call.words[1:]],
            "network": call.one("--network", "bridge"),
        }
    call.print(name + "\n")


def bubblewrap(view, workdir):
    words = ["bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--die-with-parent", "--bind", view["root"], "/"]
    for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc"]:
        words += ["--ro-bind-try", folder, folder]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for mount in view["mounts"]:
        words += ["--ro-bind" if "readonly" in mount else "--bind", mount["source"], mount["target"]]
    return words + ["--chdir", workdir, "--"]


def start(call):
    found = container(call.words[0])
    reader, writer = os.pipe()
    env = {"PATH": "/usr/bin:/bin"}
    words = bubblewrap(found, found["workdir"]) + found["words"]
    main = subprocess.Popen(words, stdin=reader, stdout=call.streams[1], stderr=call.streams[2], env=env)
    os.close(reader)
    found["main"] = main

    def forward():
        # The container has the end of its input when the client is gone, and when the client has it.
        def watch():
            try:
                call.connection.recv(1)
            except OSError:
                pass
            close()
        once = threading.Lock()

        def close():
            if once.acquire(blocking=False):
                os.close(writer)
        threading.Thread(target=watch, daemon=True).start()
        while os.read(stdin, 4096):
            pass
        close()
    stdin = os.dup(call.streams[0])
    threading.Thread(target=forward, daemon=True).start()
    code = main.wait()
    for process in found["execs"]:
        process.kill()
    found["main"] = None
    return code if code >= 0 else 128 - code


def execute(call):
    found = container(call.words[0])
    if found["main"] is None:
        raise Failure("can only create exec sessions on running containers: container state improper")
    image_env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OF_IMAGE": "yes", "HOME": "/root"}
    for option in call.options.get("--env", []):
        name, has_value, value = option.partition("=")
        image_env[name] = value if has_value else call.env[name]
    words = bubblewrap(found, call.one("--workdir")) + call.words[1:]
    stdin, stdout, stderr = call.streams
    process = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=stderr, env=image_env)
    found["execs"].append(process)
    code = process.wait()
    return code if code >= 0 else 128 - code


def copy(call):
    name, _, source = call.words[0].partition(":")
    target = call.words[1]
    if not source.endswith("/."):
        target = os.path.join(target, os.path.basename(source))
    source = container(name)["root"] + source.removesuffix("/.")
    if os.path.isdir(source):
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
    elif os.path.exists(source):
        shutil.copy(source, target)
    else:
        raise Failure(f'"{source}" could not be found on container {name}: no such file or directory')


def end(found):
    main = found["main"]
    if main is not None:
        main.kill()
        while found["main"] is not None:
            time.sleep(0.01)


def kill(call):
    end(container(call.words[0]))


def remove(call):
    found = container(call.words[0])
    end(found)
    del CONTAINERS[call.words[0]]
    shutil.rmtree(found["root"], ignore_errors=True)


def listing(call):
    label = call.one("--filter").removeprefix("label=")
    for name, found in list(CONTAINERS.items()):
        if label in found["labels"]:
            call.print(name + "\n")


def pull(call):
    raise Failure(f"initializing source docker://{call.words[0]}: no registry")


VERBS = {
    "info": info, "image": image, "build": build, "pull": pull, "create": create, "start": start, "exec": execute,
    "cp": copy, "kill": kill, "rm": remove, "ps": listing,
}


def daemon():
    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET)
    server.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=[connection], daemon=True).start()


if __name__ == "__main__":
    daemon() if IS_DAEMON else client()
