package guest_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A disk answers a guest's file requests from a vfs.FS.
type disk struct{ fs *vfs.FS }

func newDisk() disk {
	return disk{vfs.New(vfs.Config{
		Tools: func() map[string]string {
			return map[string]string{"tools/box/echo.ts": "export declare const echo: 1;\n"}
		},
		Quota: vfs.Quota{Bytes: 1 << 20, Files: 1000},
	})}
}

func (d disk) answer(f *sandbox.File) *sandbox.Answer {
	v, err := d.do(f)
	if err != nil {
		g := &sandbox.GuestError{Message: err.Error()}
		if e := (*vfs.Error)(nil); errors.As(err, &e) {
			g.Code, g.Kind = e.Code, string(e.Kind)
		}
		return &sandbox.Answer{ID: f.ID, Error: g}
	}
	if v == nil {
		return &sandbox.Answer{ID: f.ID}
	}
	raw, err := tool.Marshal(v)
	if err != nil {
		return &sandbox.Answer{ID: f.ID, Error: &sandbox.GuestError{Message: err.Error()}}
	}
	return &sandbox.Answer{ID: f.ID, Value: raw}
}

func (d disk) do(f *sandbox.File) (any, error) {
	switch f.Op {
	case "read":
		n := int64(-1)
		if f.Length != nil {
			n = *f.Length
		}
		data, err := d.fs.Read(f.Path, f.Offset, n)
		if f.Base64 {
			return base64.StdEncoding.EncodeToString(data), err
		}
		return string(data), err
	case "write":
		data := []byte(f.Data)
		if f.Base64 {
			data, _ = base64.StdEncoding.DecodeString(f.Data)
		}
		if f.Handle != "" {
			data = []byte("the bytes of " + f.Handle)
		}
		return nil, d.fs.Write(f.Path, data, f.Flag, f.Offset)
	case "truncate":
		return nil, d.fs.Truncate(f.Path, f.Offset)
	case "list":
		list, err := d.fs.List(f.Path)
		out := []any{}
		for _, e := range list {
			out = append(out, map[string]any{"name": e.Name, "dir": e.Dir})
		}
		return out, err
	case "stat":
		s, err := d.fs.Stat(f.Path)
		return map[string]any{"dir": s.Dir, "size": s.Size, "mtime": s.Modified.UnixMilli(), "readonly": s.ReadOnly},
			err
	case "mkdir":
		return nil, d.fs.Mkdir(f.Path, f.Recursive)
	case "rm":
		return nil, d.fs.Remove(f.Path, f.Recursive, f.Force)
	case "rmdir":
		return nil, d.fs.Rmdir(f.Path)
	case "rename":
		return nil, d.fs.Rename(f.Path, f.To)
	case "copy":
		return nil, d.fs.Copy(f.Path, f.To, f.Flag == "wx")
	}
	return nil, errors.New("no such operation")
}

// ask implements Cmd.Ask.
func (d disk) ask(question []byte) []byte {
	var m sandbox.GuestMessage
	if json.Unmarshal(question, &m) != nil || m.File == nil {
		return []byte(`{}`)
	}
	line, _ := tool.Marshal(sandbox.HostMessage{Answer: d.answer(m.File)})
	return line
}

// asNode lists bodies of async functions that use files in an empty ./workspace. They have fs, fsp,
// path, os, Buffer and why(f), which returns how f fails.
var asNode = []string{
	`await fsp.writeFile("workspace/a.txt", "héllo"); return [await fsp.readFile("workspace/a.txt", "utf8"), (await ` +
		`fsp.readFile("workspace/a.txt")).length, (await fsp.readFile("workspace/a.txt", { encoding: "hex" }))]`,
	`await fsp.writeFile("workspace/a", Buffer.from([0, 255, 128])); const b = await fsp.readFile("workspace/a"); ` +
		`return [Buffer.isBuffer(b), b instanceof Uint8Array, [...b], b.toString("base64"), b.toString("latin1"), ` +
		`b.toString()]`,
	`await fsp.writeFile("workspace/a", new Uint16Array([1, 2])); await fsp.writeFile("workspace/b", "aGk=", ` +
		`"base64"); return [[...await fsp.readFile("workspace/a")], await fsp.readFile("workspace/b", "latin1")]`,
	`await fsp.appendFile("workspace/log", "1\n"); await fsp.appendFile("workspace/log", "2\n"); await ` +
		`fsp.writeFile("workspace/log", "3", { flag: "a" }); return await fsp.readFile("workspace/log", "utf8")`,
	`return [await why(() => fsp.readFile("workspace/none")), await why(() => fsp.stat("workspace/none")), await ` +
		`why(() => fsp.readdir("workspace/none")), await why(() => fsp.unlink("workspace/none")), await why(() => ` +
		`fsp.access("workspace/none")), await why(() => fsp.writeFile("workspace/no/dir", ""))]`,
	`return [await why(async () => fs.readFileSync("workspace/none")), await why(async () => ` +
		`fs.statSync("workspace/none")), fs.existsSync("workspace/none"), fs.existsSync("workspace")]`,
	`await fsp.writeFile("workspace/f", ""); await fsp.mkdir("workspace/d/e", { recursive: true }); return [await ` +
		`why(() => fsp.mkdir("workspace/d")), await why(() => fsp.mkdir("workspace/x/y")), await why(() => ` +
		`fsp.rmdir("workspace/d")), await why(() => fsp.readFile("workspace/d")).then((x) => x[0]), await why(() => ` +
		`fsp.readdir("workspace/f")), await why(() => fsp.writeFile("workspace/f", "", { flag: "wx" })), await ` +
		`why(() => fsp.readFile("workspace/f/g"))]`,
	`return [await fsp.mkdir("workspace/a/b/c", { recursive: true }) !== undefined, await ` +
		`fsp.mkdir("workspace/a/b/c", { recursive: true }), await fsp.mkdir("workspace/z")]`,
	`await fsp.mkdir("workspace/d/e", { recursive: true }); await fsp.writeFile("workspace/d/e/f.txt", "1"); await ` +
		`fsp.writeFile("workspace/d/a.txt", "1"); const r = await fsp.readdir("workspace/d", { recursive: true }), t ` +
		`= await fsp.readdir("workspace/d", { withFileTypes: true }); return [r.sort(), t.map((x) => [x.name, ` +
		`x.parentPath, x.isDirectory(), x.isFile()])]`,
	`await fsp.writeFile("workspace/a", "12345"); const s = await fsp.stat("workspace/a"), d = await ` +
		`fsp.lstat("workspace"); return [s.size, s.isFile(), s.isDirectory(), d.isDirectory(), s.mtime instanceof ` +
		`Date, Math.abs(Date.now() - s.mtimeMs) < 60000, s.isSymbolicLink()]`,
	`await fsp.writeFile("workspace/a", "1"); await fsp.rename("workspace/a", "workspace/b"); await ` +
		`fsp.copyFile("workspace/b", "workspace/c"); return [fs.readdirSync("workspace"), await why(() => ` +
		`fsp.copyFile("workspace/b", "workspace/c", fs.constants.COPYFILE_EXCL)), await why(() => ` +
		`fsp.rename("workspace/none", "workspace/x"))]`,
	`await fsp.mkdir("workspace/a/b", { recursive: true }); await fsp.writeFile("workspace/a/b/c", "1"); await ` +
		`fsp.cp("workspace/a", "workspace/z", { recursive: true }); return [fs.readdirSync("workspace/z/b"), await ` +
		`why(() => fsp.cp("workspace/a", "workspace/y")).then((x) => x[0]), (await fsp.rm("workspace/a", { ` +
		`recursive: true })) === undefined, fs.readdirSync("workspace")]`,
	`return [await fsp.rm("workspace/none", { force: true }), await why(() => fsp.rm("workspace/none")), await ` +
		`why(() => fsp.rm("workspace")).then((x) => x[0])]`,
	`await fsp.writeFile("workspace/a", "12345"); await fsp.truncate("workspace/a", 2); const a = ` +
		`fs.readFileSync("workspace/a", "utf8"); fs.truncateSync("workspace/a"); return [a, ` +
		`fs.readFileSync("workspace/a", "utf8")]`,
	`await fsp.writeFile("workspace/a", ""); return [await fsp.realpath("./workspace/../workspace/a"), ` +
		`fs.realpathSync("workspace/a")].map((p) => p[0] === "/" && p.endsWith("/workspace/a") && !p.includes(".."))`,
	`const d = await fsp.mkdtemp("workspace/tmp-"); return [/^workspace\/tmp-.{6}$/.test(d), ` +
		`fs.statSync(d).isDirectory()]`,
	`fs.mkdirSync("workspace/x/y", { recursive: true }); fs.writeFileSync("workspace/x/y/z", "q"); ` +
		`fs.appendFileSync("workspace/x/y/z", "r"); fs.copyFileSync("workspace/x/y/z", "workspace/w"); ` +
		`fs.renameSync("workspace/w", "workspace/v"); fs.unlinkSync("workspace/x/y/z"); fs.rmSync("workspace/x", { ` +
		`recursive: true }); return [fs.readdirSync("workspace"), fs.readFileSync("workspace/v", "utf8")]`,
	`const h = await fsp.open("workspace/f", "w+"); const w = await h.write("hello world"); await h.write("HE", 0); ` +
		`const b = Buffer.alloc(5); const r = await h.read(b, 0, 5, 0); const s = (await h.stat()).size; await ` +
		`h.close(); return [w.bytesWritten, r.bytesRead, b.toString(), s, await why(() => h.read(b)).then((x) => x[0])]`,
	`await fsp.writeFile("workspace/f", "one\ntwo\r\nthree"); const h = await fsp.open("workspace/f"); const out = ` +
		`[]; for await (const l of h.readLines()) out.push(l); await h.close().catch(() => {}); return out`,
	`const h = await fsp.open("workspace/f", "a"); await h.write("1"); await h.appendFile("2"); await h.close(); ` +
		`const g = await fsp.open("workspace/f", "r"); const t = await g.readFile("utf8"), bad = await why(() => ` +
		`g.write("x")); await g.close(); return [t, bad[0], await why(() => fsp.open("workspace/none")), await ` +
		`why(() => fsp.open("workspace/f", "wx"))]`,
	`const h = await fsp.open("workspace/f", "w"); for (const x of ["a", "b"]) await h.writeFile(x); await ` +
		`h.close(); const g = await fsp.open("workspace/f", "r+"); const { bytesRead } = await ` +
		`g.read(Buffer.alloc(10)); const two = await g.read(Buffer.alloc(10)); await g.close(); return ` +
		`[fs.readFileSync("workspace/f", "utf8"), bytesRead, two.bytesRead]`,
	`return await new Promise((r) => fs.writeFile("workspace/c", "cb", (e) => fs.readFile("workspace/c", "utf8", (e2,` +
		` t) => fs.readFile("workspace/none", (e3) => r([e, t, e3.code])))))`,
	`await fsp.writeFile("workspace/ü 名.txt", "x"); return fs.readdirSync("workspace")`,
	`return [await why(() => fsp.readFile("workspace/a\0b")).then((x) => x.length > 0), await why(() => ` +
		`fsp.writeFile("workspace/a", {})).then((x) => x[0]), await why(() => fsp.readFile(7.5)).then((x) => x[0]), ` +
		`await why(() => fsp.readFile("workspace", "nope")).then((x) => x[0] !== undefined)]`,
	`return [Buffer.from("héllo").toString("base64"), Buffer.from("aGk", "base64").toString(), Buffer.from("_-8", ` +
		`"base64url").toString("hex"), Buffer.from("zz0g", "hex").length, Buffer.from("0aFFg", ` +
		`"hex").toString("hex"), Buffer.from("é", "latin1").length, Buffer.from("hi", "utf16le").toString("hex"), ` +
		`Buffer.from("a b\nYQ==", "base64").toString("hex")]`,
	`const b = Buffer.concat([Buffer.from("ab"), new Uint8Array([99])]); return [b.toString(), ` +
		`b.equals(Buffer.from("abc")), b.slice(1).toString(), b.subarray(0, 1).toString(), b.indexOf("c"), ` +
		`b.includes("bc"), Buffer.byteLength("é"), Buffer.compare(b, Buffer.from("abd")), b.toJSON(), b.readUInt8(0),` +
		` b.readUInt16BE(0), Buffer.alloc(3, "x").toString(), b.write("z", 1), b.toString()]`,
	`const b = Buffer.alloc(8); b.writeInt32LE(-5, 0); b.writeDoubleBE; b.writeUInt32BE(7, 4); return ` +
		`[b.toString("hex"), b.readInt32LE(0), b.readUInt32BE(4), Buffer.isEncoding("UTF-8"), Buffer.isBuffer(new ` +
		`Uint8Array(1)), b.length, b.copy(Buffer.alloc(2)), typeof b.buffer]`,
	`return [path.basename(os.tmpdir()) !== "", os.EOL, os.platform()]`,
}

const asNodeHead = `const why = async (f) => { try { await f(); return ["fine"] } catch (e) { return [e.code, ` +
	`e.errno, e.syscall, e.path, e.message] } };`

// TestFilesAsNode compares the values of programs with those in Node.
func TestFilesAsNode(t *testing.T) {
	node := peertest.Node(t)
	bodies, _ := json.Marshal(asNode)
	dir := t.TempDir()
	script := `const fsp = require("node:fs/promises"), fs = require("node:fs"), path = require("node:path"), os = ` +
		`require("node:os");` + asNodeHead + `
(async () => { let i = 0; for (const body of ` + string(bodies) + `) { const d = path.join(` + "`" + dir + "`" + `, "r" + i++); fs.mkdirSync(path.join(d, "workspace"), { recursive: true }); process.chdir(d);
  let v; try { v = await (new (Object.getPrototypeOf(async () => {}).constructor)("fs", "fsp", "path", "os", "why", body))(fs, fsp, path, os, why) } catch (e) { v = "threw " + e.stack }
  console.log(JSON.stringify(v)) } })()`
	file := filepath.Join(dir, "script.cjs")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), node, file).Output()
	if err != nil {
		t.Fatalf("Output: %v", err)
	}
	want := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(want) != len(asNode) {
		t.Fatalf("node gave %d values of %d", len(want), len(asNode))
	}
	head := `const fsp = await __import("node:fs/promises"), fs = (await __import("node:fs")).default, path = await ` +
		`__import("node:path"), os = await __import("node:os");` + asNodeHead
	for i, body := range asNode {
		if got := run(t, head+body).value(); !sameValue(got, want[i]) {
			t.Errorf("%s\n got %s\nnode %s", body, got, want[i])
		}
	}
}

// sameValue reports whether two values are equal. An error message in got may end with an extra
// hint.
func sameValue(got, want string) bool {
	var a, b any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		return got == want
	}
	return sameJSON(a, b)
}

func sameJSON(a, b any) bool {
	switch b := b.(type) {
	case []any:
		a, ok := a.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case string:
		a, ok := a.(string)
		return ok && (a == b || strings.HasPrefix(a, b+": "))
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// TestFiles covers behavior that differs from Node's.
func TestFiles(t *testing.T) {
	const head = `const fsp = await __import("node:fs/promises"), fs = (await __import("node:fs")).default;`
	check(t, [][2]string{
		{head + `return [await fsp.readFile("./tools/box/echo.ts", "utf8"), await fsp.writeFile("tools/x", ` +
			`"").catch((e) => e.code), fs.statSync("tools/box/echo.ts").mode & 0o222]`,
			`["export declare const echo: 1;\n","EROFS",0]`},
		{head + `await fsp.writeFile("/workspace/p.png", { handle: "res_1", mimeType: "image/png" }); return ` +
			`fs.readFileSync("workspace/p.png", "utf8")`, `"the bytes of res_1"`},
		{head + `return await fsp.writeFile("workspace/o.json", { a: 1 }).catch((e) => e.message)`,
			`"The \"data\" argument must be a string, a Buffer, a typed array or an image, audio or resource that a ` +
				`tool gave, got a object: use JSON.stringify for other values"`},
		{head + `return await Promise.all(["\ud800", "a\udfff/b"].flatMap((p) => [fsp.writeFile(p, ""), ` +
			`fsp.rename("a", p), fsp.mkdir(p)]).map((p) => p.catch((e) => e.code)))`,
			`["EILSEQ","EILSEQ","EILSEQ","EILSEQ","EILSEQ","EILSEQ"]`},
		{head + `return await fsp.symlink("a", "b").catch((e) => e.code)`, `"ENOSYS"`},
		{head + `fs.createServer()`,
			`threw Error: fs.createServer is not available: use the functions of node:fs/promises`},
		{head + `await fsp.writeFile("workspace/big", "x".repeat(2 << 20)).catch((e) => { throw new Error(e.code) })`,
			`threw Error: EFBIG`},
		{head + `await fsp.writeFile("workspace/d.json", '{"a":[1,12345678901234567890]}'); const m = await ` +
			`__import("./workspace/d.json"); return [m.default, m.a]`,
			`[{"a":[1,12345678901234567890]},[1,12345678901234567890]]`},
		{`await __import("./skills/none")`,
			`threw Error: cannot import "./skills/none": there was no module skills/none when the program began`},
		{head + `try { await fsp.readFile("none") } catch (e) { return [e instanceof Error, ` +
			`e.stack.includes("program.js:1:"), Object.keys(e)] }`, `[true,true,["errno","code","syscall","path"]]`},
		{head + `Uint8Array.fromBase64 = null; Uint8Array.prototype.slice = null; await fsp.writeFile("workspace/a", ` +
			`"1"); return String(await fsp.readFile("workspace/a"))`, `"1"`},
	})
	k := run(t, head+`await fsp.writeFile("workspace/a", "1"); emit("workspace/a"); emit("workspace/none")`)
	if k.value() != "threw Error: ENOENT: no such file or directory, stat 'workspace/none'" || len(k.emitted) != 1 ||
		k.emitted[0] != "workspace/a" {
		t.Errorf("k.value() = %v, k.emitted = %v", k.value(), k.emitted)
	}
}
