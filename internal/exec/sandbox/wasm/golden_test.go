package wasm

import (
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

var update = flag.Bool("update", false, "write the golden images anew")

// regenerate is the command that generates all files derived from the sources of a guest.
const regenerate = "go generate ./internal/exec/sandbox/wasm/guest"

// TestGolden checks that the committed golden images equal the output of their engines, byte for
// byte. The images must also list the pages that a first program writes to.
func TestGolden(t *testing.T) {
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) { golden(t, l) })
	}
}

func golden(t *testing.T, l language) {
	want, err := bootImage(l)
	if err != nil {
		t.Skip(err)
	}
	defer want.close()
	if *update {
		want.hot = firstWrites(t, l)
		b, err := want.pack(&codec{})
		if err != nil {
			t.Fatalf("pack: %v", err)
		}
		if err := os.WriteFile(filepath.Join(".", l.name+".image"), b, 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		l.golden = b
		t.Logf("%s.image: %d bytes of %d KiB of memory, %d runs of hot pages, %v", l.name, len(b), want.size>>10,
			len(want.hot), want.id)
	}
	if !strings.HasSuffix(l.title, " "+want.version) {
		t.Errorf("%s is version %s", l.title, want.version)
	}
	if !summed(l.golden) {
		t.Errorf("%s.image is damaged: run %s", l.name, regenerate)
	}
	got, err := unpackImage(&codec{}, l)
	if err != nil {
		t.Fatalf("%v: run %s", err, regenerate)
	}
	defer got.close()
	if got.id != want.id || got.size != want.size || got.version != want.version ||
		!slices.Equal(got.words, want.words) || !slices.Equal(got.base, want.base) {
		t.Errorf("%s.image is not what the engine and its prelude make: run %s", l.name, regenerate)
	}
	if hot := firstWrites(t, l); !slices.Equal(got.hot, hot) {
		t.Errorf("%s.image names other pages that a first program writes to: run %s", l.name, regenerate)
	}
}

// firstWrites returns the pages that a first program writes to.
func firstWrites(t *testing.T, l language) []pageRun {
	l.golden = nil
	d, err := newDriver(Config{}, []language{l})
	if err != nil {
		t.Fatalf("newDriver: %v", err)
	}
	defer func() { _ = d.Close() }()
	made, err := d.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer func() { _ = made.Close() }()
	s := made.(*Sandbox)
	c := &script{Reader: strings.NewReader(l.first + "\n")}
	if _, err := s.Run(t.Context(), &sandbox.Cmd{Guest: c, Keep: true, CPU: time.Minute}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	img, err := s.kind.loadImage()
	if err != nil {
		t.Fatalf("loadImage: %v", err)
	}
	memory := s.region.memory()
	return runsOf(differing(memory[:img.size], img.base, whole(img.base)))
}

// pack returns the image in the format that unpackImage reads.
func (i *image) pack(c *codec) ([]byte, error) {
	le := binary.LittleEndian
	fields := le.AppendUint32(nil, uint32(i.size/wasmPage))
	fields = append(le.AppendUint32(fields, uint32(len(i.version))), i.version...)
	fields = le.AppendUint32(fields, uint32(4*len(i.words)))
	for _, w := range i.words {
		fields = le.AppendUint32(fields, w)
	}
	fields = le.AppendUint32(fields, uint32(len(i.hot)))
	for _, r := range i.hot {
		fields = le.AppendUint32(le.AppendUint32(fields, r.first), r.n)
	}
	return c.pack(head{i.lang.magic(), i.lang.name, i.id}, zstd.SpeedBestCompression, fields,
		runsOf(differing(i.base, nil, whole(i.base))), squeezed(func(b []byte, page uint32) {
			copy(b, i.at(page, len(b)))
		}))
}
