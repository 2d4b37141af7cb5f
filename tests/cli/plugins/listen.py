"""Serves a plugin on a unix socket, each connection in a process of its own: what an author has in a debugger."""
import os, runpy, signal, socket, sys

path, plugin = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        connection.close()
        runpy.run_path(plugin, run_name="__main__")
        os._exit(0)
    connection.close()
