// Tries to get out of a process sandbox on Node.js. The value is the list of attempts that succeeded.
const fs = require("fs"), net = require("net"), dgram = require("dgram"), dns = require("dns"), os = require("os");
const { execFileSync, spawnSync } = require("child_process"), { Worker } = require("worker_threads");
const succeeded = [];

// Records the attempt unless it throws or its result is falsy.
const attempt = async (name, f) => {
  let r;
  try { r = await f(); } catch { return; }
  if (r) succeeded.push(name + ": " + String(r).slice(0, 200));
};
const write = (path) => { fs.writeFileSync(path, "x"); return true; };

// Files of the host.
for (const path of ["/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/boot", "/opt", "/mnt", "/srv", "/proc/kcore", "/proc/sys", "/proc/keys", "/proc/net",
  "/proc/1/root/root", "/proc/self/cwd/../root", "/workspace/../../../root", "/dev/mem", "/dev/fuse", "/dev/kvm", "/dev/sda", "/dev/tty", "/dev/ptmx", "/var/run/docker.sock",
  os.homedir() + "/.npmrc", "/usr/../root/.npm", "/sys/fs/cgroup"]) await attempt("see " + path, () => fs.existsSync(path));
await attempt("files of others in /tmp", () => fs.readdirSync("/tmp").length);
for (const path of ["/usr/x", "/etc/x", "/x", "/dev/x", "/biplane/agent.js", "/biplane/x", "/etc/passwd", "/proc/self/oom_score_adj", "/proc/self/uid_map",
  "/proc/self/mem", "/sys/fs/cgroup/cgroup.procs", process.execPath]) await attempt("write to " + path, () => write(path));
await attempt("replace the agent", () => { fs.renameSync("/biplane/agent.js", "/biplane/y"); return true; });
await attempt("link out of the workspace", () => { fs.symlinkSync("/proc/1/root", "/workspace/l"); return fs.readdirSync("/workspace/l/root"); });
await attempt("hard link of a file of the host", () => { fs.linkSync(process.execPath, "/workspace/h"); return true; });
await attempt("set-user-ID file", () => {
  fs.copyFileSync("/usr/bin/id", "/workspace/id");
  fs.chmodSync("/workspace/id", 0o4755);
  return execFileSync("/workspace/id", ["-u"]).toString().trim() !== "1000";
});

// Processes, and what they inherit.
await attempt("other processes", () => fs.readdirSync("/proc").filter((n) => +n > 200).length);
const known = ["PATH", "HOME", "TMPDIR", "USER", "LANG", "LC_ALL", "TZ", "TERM", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "PYTHONSAFEPATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOPATH", "GOTOOLCHAIN", "CARGO_HOME", "NODE_PATH",
  "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "npm_config_cafile", "NODE_EXTRA_CA_CERTS", "NODE_OPTIONS"];
await attempt("environment", () => Object.keys(process.env).filter((n) => !known.includes(n) && !process.env[n].startsWith("biplane-secret-")).join());
await attempt("environment of the first process", () => fs.readFileSync("/proc/1/environ", "utf8").split("\0").filter((v) => v && !v.includes("=biplane-secret-") && !known.includes(v.split("=")[0])).join());
await attempt("arguments of the first process", () => fs.readFileSync("/proc/1/cmdline", "utf8").split("\0").filter((v) => v.includes("biplane") && v !== "/biplane/agent.js").join());
await attempt("inherited descriptors", () => fs.readdirSync("/proc/self/fd").map((n) => [n, readLink("/proc/self/fd/" + n)])
  .filter(([n, to]) => to && +n > 3 && !/^(pipe:|anon_inode:|\/proc\/|\/dev\/(null|urandom|random)$)/.test(to)).join(";"));
function readLink(path) { try { return fs.readlinkSync(path); } catch { return ""; } }
await attempt("descriptors of a child", () => execFileSync("ls", ["/proc/self/fd"]).toString().split("\n").filter((n) => +n > 3).join());
await attempt("connection of the agent in a child", () => spawnSync("sh", ["-c", "echo x >&3"]).status === 0);
await attempt("signal the parent", () => process.ppid !== 0 && process.kill(process.ppid, 0));
await attempt("signal outside", () => process.kill(2 ** 22 - 1, 0));
await attempt("become root", () => { process.setuid(0); return true; });
await attempt("groups of root", () => { process.setgid(0); return true; });
await attempt("sudo", () => spawnSync("su", ["-c", "id"]).status === 0);
await attempt("new namespaces", () => spawnSync("unshare", ["-r", "true"]).status === 0);
await attempt("mount", () => spawnSync("mount", ["-t", "tmpfs", "none", "/workspace"]).status === 0);
await attempt("chroot", () => spawnSync("chroot", ["/workspace", "/bin/true"]).status === 0);
await attempt("trace", () => spawnSync("strace", ["-p", "1"]).status === 0);
await attempt("debug the agent", () => { process._debugProcess(1); return false; });
await attempt("network of the gateway", () => Object.values(os.networkInterfaces()).flat().filter((i) => i && !i.internal).map((i) => i.address).join());

// Network.
const connected = (options) => new Promise((resolve) => {
  // A connection that no one answers, or that is refused on behalf of the gateway, leads nowhere.
  let answer = "";
  const s = net.connect(options, () => { s.write("GET / HTTP/1.0\r\nHost: x\r\n\r\n"); });
  s.on("data", (d) => { answer += d; });
  s.on("close", () => { resolve(answer !== "" && !answer.includes("\r\n\r\nbiplane: ")); });
  s.setTimeout(2000, () => { s.destroy(); });
  s.on("error", () => { resolve(false); });
});
for (const host of ["127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "1.1.1.1", "0.0.0.0", "::1", "::ffff:127.0.0.1", "2130706433"]) {
  await attempt("connect to " + host, () => connected({ host, port: 80 }));
}
for (const path of ["\0/biplane-test-abstract", "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket"]) {
  await attempt("connect to " + JSON.stringify(path), () => connected({ path }));
}
await attempt("send UDP", () => new Promise((resolve) => {
  const s = dgram.createSocket("udp4");
  s.on("error", () => { resolve(false); });
  s.send("x", 53, "1.1.1.1", (e) => { s.close(); resolve(!e); });
}));
await attempt("resolve a name", () => dns.promises.lookup("example.com"));
await attempt("ask a name server", () => new dns.promises.Resolver({ timeout: 200, tries: 1 }).resolve4("example.com"));
await attempt("network of a child", () => spawnSync("bash", ["-c", "exec 4<>/dev/tcp/1.1.1.1/80"]).status === 0);
await attempt("network of a thread", () => new Promise((resolve) => {
  const w = new Worker(`const { parentPort } = require("worker_threads");
    require("net").connect(80, "1.1.1.1", () => parentPort.postMessage(true)).on("error", () => parentPort.postMessage(false))`, { eval: true });
  w.on("message", resolve);
  w.on("error", () => resolve(false));
}));
return succeeded;
