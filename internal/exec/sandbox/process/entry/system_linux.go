package entry

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// imageFolder is where an image is mounted while a sandbox's root is being built.
const imageFolder = "/.image"

// shareSystem makes the programs and libraries of a sandbox available in its root: those of the
// host, or of an image, or both.
func shareSystem(c *caller, root string, i *ImageSetup) error {
	if i == nil {
		return shareHost(c, root, "")
	}
	tree := root + imageFolder
	if err := c.makeFolder(tree); err != nil {
		return err
	}
	if err := i.mountAt(c, tree, false); err != nil {
		return err
	}
	share := shareTree
	if i.Host {
		share = shareHost
	}
	if err := share(c, root, tree); err != nil {
		return fmt.Errorf("use the image: %w", err)
	}
	if err := unix.Unmount(tree, unix.MNT_DETACH); err != nil { // what is mounted from it stays
		return fmt.Errorf("use the image: %w", err)
	}
	return os.Remove(tree)
}

// shareHost makes the host's /usr and a few files of /etc available. If layer isn't empty, it is a
// folder whose files are above those of the host.
func shareHost(c *caller, root, layer string) error {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if layer != "" && isFolder(layer+dir) && isFolder(dir) {
			if err := mountLayer(c, root, layer, dir); err != nil {
				return err
			}
			continue
		}
		if err := shareFolder(c, root, dir); err != nil {
			return err
		}
	}
	if layer == "" {
		return makeEtc(c, root, "", false)
	}
	if err := shareRest(c, root, layer, append(slices.Clone(own), "usr", "bin", "sbin", "lib", "lib32", "lib64",
		"libx32")); err != nil {
		return err
	}
	return makeEtc(c, root, layer, false)
}

// certificates is the folder of /etc with the certificates of authorities.
var certificates = []string{"/etc/ssl/certs"}

// own are entries of the root that each sandbox makes.
var own = []string{"etc", "proc", "sys", "dev", "tmp", "run", "workspace", "skills", "biplane", "home", "root",
	"boot", "mnt", "media"}

// shareTree makes an image available that has its own programs and libraries.
func shareTree(c *caller, root, tree string) error {
	if err := shareRest(c, root, tree, own); err != nil {
		return err
	}
	return makeEtc(c, root, tree, true)
}

// shareRest makes the entries of a tree available, except some.
func shareRest(c *caller, root, tree string, except []string) error {
	entries, err := os.ReadDir(tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(except, e.Name()) {
			continue
		}
		if err := shareEntry(c, tree+"/"+e.Name(), root+"/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// shareEntry makes a file, a folder or a link of a tree available at another path, unless there is
// something.
func shareEntry(c *caller, from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if c.hasPath(to) {
		return nil
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return c.makeLink(target, to)
	case info.IsDir():
		err = c.makeFolder(to)
	case info.Mode().IsRegular():
		err = c.makeFile(to, "", 0o644)
	default:
		return nil // a device, for example
	}
	if err != nil {
		return err
	}
	return bindReadOnly(c, from, to)
}

// isFolder reports whether a path is a folder, and not a link to one.
func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// mountLayer makes a folder of the host available, with the files of a layer above its own.
func mountLayer(c *caller, root, layer, dir string) error {
	if err := c.makeFolder(root + dir); err != nil {
		return err
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := c.mountPath("overlay", root+dir, "overlay", flags, "lowerdir="+layer+dir+":"+dir); err != nil {
		return fmt.Errorf("mount a layer above %s: %w (are file systems mounted below %s, or does the kernel have no "+
			"overlay file system for users?)", dir, err, dir)
	}
	return nil
}

// shareFolder makes a folder of the host, or the link that it is, available in the new root. The
// folder is read-only there, with all that is mounted in it.
func shareFolder(c *caller, root, dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		return c.makeLink(to, root+dir)
	}
	if err := c.makeFolder(root + dir); err != nil {
		return err
	}
	return bindReadOnly(c, dir, root+dir)
}

// etc is what a sandbox has of the host's /etc: what programs need to find libraries and the time
// zone, and to check certificates. None of it is about the host's users or network.
var etc = []string{"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates.conf",
	"/etc/localtime", "/etc/mime.types"}

// findSettings returns the folders of /etc with settings of Debian's packages for Python and Java.
func findSettings() (out []string) {
	dir, err := os.Open("/etc")
	if err != nil {
		return nil // this user may not read it
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read is enough
	for _, name := range names {
		java := strings.HasPrefix(name, "java-") && strings.HasSuffix(name, "-openjdk")
		if java || strings.HasPrefix(name, "python3") {
			out = append(out, "/etc/"+name)
		}
	}
	slices.Sort(out)
	return out
}

// private are entries of /etc that each sandbox makes, or that it doesn't have.
var private = []string{"passwd", "group", "shadow", "gshadow", "hosts", "hostname", "nsswitch.conf", "resolv.conf",
	"mtab", "fstab", path.Base(netns.AuthorityPath), path.Base(netns.BundlePath)}

// makeEtc makes /etc of the new root. It has some of the host's entries, and those of a tree's
// /etc, if there is one. If alone is set, the host's entries are the certificates, unless the tree
// has some.
func makeEtc(c *caller, root, tree string, alone bool) error {
	if err := c.makeFolder(root + "/etc"); err != nil {
		return err
	}
	from := slices.Clone(etc)
	switch {
	case alone && isFolder(tree+"/etc/ssl"):
		from = nil
	case alone:
		from = certificates
	default:
		from = append(from, findSettings()...)
	}
	for _, path := range from {
		if _, err := os.Stat(path); err != nil {
			continue // this host doesn't have it
		}
		if err := c.makeFolders(root + filepath.Dir(path)); err != nil {
			return err
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		if err := shareEntry(c, real, root+path); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"/etc/passwd": fmt.Sprintf("agent:x:%d:%d::/workspace:/bin/sh\n", Insider, Insider) +
			"nobody:x:65534:65534::/:/bin/false\n",
		"/etc/group":         fmt.Sprintf("agent:x:%d:\nnogroup:x:65534:\n", Insider),
		"/etc/hosts":         "127.0.0.1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := c.makeFile(root+path, text, 0o644); err != nil {
			return err
		}
	}
	if tree == "" || !isFolder(tree+"/etc") {
		return nil
	}
	return shareRest(c, root+"/etc", tree+"/etc", private)
}
