package entry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// openNetwork opens the listeners in the sandbox's network namespace, and passes them to the
// driver.
func openNetwork(_ *caller, s *Setup) error {
	if s.Network == nil {
		return nil
	}
	fds, err := netns.OpenListeners(s.Network.Ports)
	return netns.SendListeners(SocketFD, fds, err)
}

// bundles lists where systems keep the certificates that they trust.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}

// maxBundle is the size of the largest bundle of certificates that fits in a sandbox's root.
const maxBundle = 512 << 10

// writeNetworkFiles writes the files by which programs find names and check certificates.
func writeNetworkFiles(root string, n *netns.Setup) error {
	if n == nil {
		return nil
	}
	var trusted []byte
	for _, path := range bundles {
		b, err := readBundle(root, path)
		if err != nil {
			b, err = readBundle("/", path)
		}
		if err == nil {
			trusted = b
			break
		}
	}
	for path, content := range map[string][]byte{
		"/etc/resolv.conf":   []byte("nameserver " + netns.NameServer + "\noptions timeout:5 attempts:1\n"),
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nhosts: files dns\n"),
		netns.AuthorityPath:  []byte(n.Authorities),
		netns.BundlePath:     slices.Concat(trusted, []byte("\n"), []byte(n.Authorities)),
	} {
		if err := writeFile(root+path, content); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// readBundle reads a file with certificates. Links are followed as in the sandbox, since an image
// may contain hostile ones: root is their root.
func readBundle(root, path string) ([]byte, error) {
	dir, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat2(int(dir.Fd()), strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, // opening a pipe must not block
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBundle {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxBundle)
	}
	return io.ReadAll(io.LimitReader(f, maxBundle))
}

// writeFile writes a file. It fails if there is a link, which would lead out of the root.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// raiseLoopback raises the loopback interface of a machine. It leads nowhere else.
func raiseLoopback(c *caller, s *Setup) error {
	if s.Runtime != MachineRuntime || s.HasNetwork {
		return nil
	}
	fd, err := c.openBy(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := c.makeCall(unix.SYS_IOCTL, fd, unix.SIOCSIFFLAGS, netns.LoopbackRequest()); err != nil {
		return err
	}
	return c.closeFile(fd)
}
