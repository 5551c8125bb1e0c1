package network

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/biplane-dev/biplane/internal/tool"
)

// encryptedHelloConfig returns what a server publishes for clients that hide its name.
func encryptedHelloConfig(t *testing.T, publicName string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("GenerateKey: %v", err)
	}
	public := key.PublicKey().Bytes()
	b := []byte{1, 0, 0x20} // its id; X25519 with SHA-256
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(public))), public...)
	b = append(b, 0, 4, 0, 1, 0, 1, 0, byte(len(publicName))) // SHA-256, AES-128-GCM
	b = append(append(b, publicName...), 0, 0)
	b = append(binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(b))), b...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// connect returns both ends of a TCP connection.
func connect(t *testing.T) (client net.Conn, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatalf("Dial: %v", err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { client.Close(); c.Close() })
	return client, c.(*net.TCPConn)
}

// TestEncryptedHello checks that TLS that hides the name of its server is refused, also if the name
// that it shows is permitted.
func TestEncryptedHello(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  *tls.Config
		want string
	}{
		{"a plain name", &tls.Config{ServerName: "a.test"}, ""},
		{"another plain name", &tls.Config{ServerName: "b.test"}, "both must be the same"},
		{"a hidden name", &tls.Config{ServerName: "hidden.test", MinVersion: tls.VersionTLS13,
			EncryptedClientHelloConfigList: encryptedHelloConfig(t, "a.test")}, "hides the server's name (ECH)"},
	} {
		client, server := connect(t)
		go func() { _ = tls.Client(client, c.cfg).HandshakeContext(t.Context()) }() // it fails: no one answers
		err := checkHello(&peeked{tcp: server}, "a.test")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestBeginnings checks what the first bytes of a client are taken for.
func TestBeginnings(t *testing.T) {
	for _, c := range []struct {
		first         string
		request, more bool
	}{
		{"GET / HTTP/1.1\r\n", true, false}, {"G", false, true}, {"PURGE / HTTP/1.1\r\n", true, false},
		{"PUR", false, true}, {"PURGE", false, true}, {"PURGE /x y", false, true}, {"\r\nPUR", false, true},
		{"PURGE / HTT", false, true}, {"PURGE / HTTP", false, true}, {"PURGE / HTTP/", true, false},
		{"PING\r\n", false, false}, {"*1\r\n$4\r\nPING\r\n", false, false}, {"*", false, true},
		{"\x00\x00\x00\x08", false, false}, {"SSH-2.0-x\r\n", false, false}, {"EHLO x\x01", false, false},
		{"", false, false}, {"X " + strings.Repeat("y", maxRequestLine), true, false},
	} {
		if got, more := isHTTP([]byte(c.first)), mayBeRequest([]byte(c.first)); got != c.request || more != c.more {
			t.Errorf("%.40q: a request %v, may become one %v; want %v, %v", c.first, got, more, c.request, c.more)
		}
	}
}

// TestLatePieces checks that a client that was silent sends no request in pieces, and that
// everything else passes whole.
func TestLatePieces(t *testing.T) {
	for _, c := range []struct {
		text    string
		spoken  bool
		refused bool
	}{
		{"PURGE / HTTP/1.1\r\nHost: c.test\r\n\r\n", false, true},
		{"GET / HTTP/1.1\r\n\r\n", false, true},
		{"\x16\x03\x01", false, true},
		{"PURGE / HTTP/1.1\r\n\r\n", true, false},
		{"PING\r\nmore", false, false},
		{"\x00binary", false, false},
	} {
		x := &tunnel{}
		x.spoken.Store(c.spoken)
		late := &lateClient{from: iotest.OneByteReader(strings.NewReader(c.text)), tunnel: x}
		var out bytes.Buffer
		_, err := io.Copy(&out, late)
		var e *tool.Error
		if errors.As(err, &e) != c.refused || !c.refused && out.String() != c.text || c.refused && out.Len() > 0 {
			t.Errorf("%q: %q passed, error %v; refused: %v, want %v", c.text, out.String(), err, late.refused,
				c.refused)
		}
	}
}
