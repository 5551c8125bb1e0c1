package guest_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

//go:embed testdata/intl.js
var intlCases string

//go:embed testdata/intl.json.gz
var intlWant []byte

//go:embed testdata/intl_differs.txt
var intlDiffers string

var dumpIntl = flag.String("intl", "", "write what differs from Node to a file")

// An intlCase is a line of the output of testdata/intl.js: a locale or "offsets", the name of a
// case or a zone, and the result.
type intlCase struct {
	locale, name string
	result       string
}

func readIntl(t *testing.T, b []byte) (cases []intlCase) {
	t.Helper()
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var row [3]json.RawMessage
		var c intlCase
		if json.Unmarshal(s.Bytes(), &row) != nil || json.Unmarshal(row[0], &c.locale) != nil ||
			json.Unmarshal(row[1], &c.name) != nil {
			t.Fatalf("no case: %.100s", s.Bytes())
		}
		c.result = string(row[2])
		cases = append(cases, c)
	}
	return cases
}

// guestIntl returns the guest's results for some locales or zones.
func guestIntl(t *testing.T, call string) map[string]map[string]json.RawMessage {
	t.Helper()
	k := run(t, intlCases+"\nreturn "+call)
	if k.Done == nil {
		t.Fatalf("call = %s, k.Fail = %+v, want k.Done != nil", call, k.Fail)
	}
	var got map[string]map[string]json.RawMessage
	if err := json.Unmarshal(k.Done.Value, &got); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return got
}

// compact returns b as JSON in a normalized form.
func compact(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("err = %v, b = %s, want err == nil", err, b)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatalf("Encode: %v", err)
	}
	return strings.TrimSpace(out.String())
}

// unzip returns the uncompressed output of Node.
func unzip(t *testing.T) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(intlWant))
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return b
}

// TestIntlOfNode checks that testdata/intl.json.gz matches the output of the installed Node.
func TestIntlOfNode(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the Node that wrote intl.json.gz is that of linux/amd64")
	}
	got, err := exec.CommandContext(t.Context(), peertest.Node(t), "testdata/intl.js").Output()
	if err != nil {
		t.Fatalf("Output: %v", err)
	}
	if !bytes.Equal(got, unzip(t)) {
		t.Error("testdata/intl.json.gz isn't what Node writes: see testdata/intl.js")
	}
}

// TestIntl compares the guest's output with Node's, case by case. The known differences are listed
// in testdata/intl_differs.txt, and must still differ.
func TestIntl(t *testing.T) {
	known := map[string]bool{}
	for l := range strings.Lines(intlDiffers) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			known[l] = true
		}
	}
	want := readIntl(t, unzip(t))
	var order []string
	for _, c := range want {
		if !slices.Contains(order, c.locale) {
			order = append(order, c.locale)
		}
	}
	got := map[string]map[string]json.RawMessage{}
	var zones []string
	for _, c := range want {
		if c.locale == "offsets" {
			zones = append(zones, c.name)
		}
	}
	if testing.Short() {
		order = []string{"en-GB", "de", "pl", "ja", "ar-EG", "offsets"}
		want = slices.DeleteFunc(want, func(c intlCase) bool { return !slices.Contains(order, c.locale) })
	}
	zoneNames, _ := json.Marshal(zones)
	for part := range slices.Chunk(order, 3) {
		names, _ := json.Marshal(part)
		call := fmt.Sprintf(`Object.fromEntries(%s.map((l) => [l, l === "offsets" ? offsets(%s) : cases(l)]))`,
			names, zoneNames)
		for l, cases := range guestIntl(t, call) {
			got[l] = cases
		}
	}
	var differs strings.Builder
	equal := 0
	for _, c := range want {
		key, have := strings.TrimSpace(c.locale+" "+c.name), got[c.locale][c.name]
		w, h := compact(t, []byte(c.result)), "nothing"
		if have != nil {
			h = compact(t, have)
		}
		switch {
		case w == h:
			equal++
			if known[key] {
				t.Errorf("%s is as in Node now: remove it from intl_differs.txt", key)
			}
		case *dumpIntl != "":
			fmt.Fprintf(&differs, "%s\n\tnode  %s\n\tguest %s\n", key, w, h)
		case !known[key]:
			t.Errorf("%s\n\tnode  %s\n\tguest %s", key, w, h)
		}
	}
	t.Logf("%d of %d cases are as in Node (%.2f %%)", equal, len(want), 100*float64(equal)/float64(len(want)))
	if *dumpIntl != "" {
		if err := os.WriteFile(*dumpIntl, []byte(differs.String()), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
}

// TestLocales checks which locales and zones are accepted and which are refused. It also checks
// that programs can't change Intl's output for the next program.
func TestLocales(t *testing.T) {
	check(t, [][2]string{
		{`return ["de", "de-DE", "de-US", "DE-at", "zh-TW", "no", "pt-BR", "sr", "xx"].map((l) => { try { return new ` +
			`Intl.NumberFormat(l).resolvedOptions().locale; } catch (e) { return e.name; } })`,
			`["de","de-DE","de","de-AT","zh-TW","no","pt-BR","RangeError","RangeError"]`},
		{`return [(1234.5).toLocaleString("de-DE"), (1234.5).toLocaleString(["xx", "fr"]), ` +
			`(1234.5).toLocaleString(undefined), (1234.5).toLocaleString([])]`,
			"[\"1.234,5\",\"1\u202f234,5\",\"1,234.5\",\"1,234.5\"]"},
		{`return (1).toLocaleString("sw-KE")`, `threw RangeError: Intl.NumberFormat: locale sw-KE is not supported ` +
			`here; use one of ar, cs, da, de, el, en, es, fi, fr, he, hi, hu, id, it, ja, ko, nl, no, pl, pt, ro, ru,` +
			` sv, tr, uk, vi, zh, zh-Hant, alone or with a region, for example "en-GB"`},
		{`return [1.5].toLocaleString("th")`, `threw RangeError: Intl.NumberFormat: locale th is not supported here; ` +
			`use one of ar, cs, da, de, el, en, es, fi, fr, he, hi, hu, id, it, ja, ko, nl, no, pl, pt, ro, ru, sv, ` +
			`tr, uk, vi, zh, zh-Hant, alone or with a region, for example "en-GB"`},
		{`return "a".localeCompare("b", "zh")`, `threw RangeError: Intl.Collator: sorting by locale zh is not ` +
			`supported here: its characters are sorted by their sounds or strokes`},
		{`return new Date(0).toLocaleString("de-u-ca-buddhist")`,
			`threw RangeError: Intl.DateTimeFormat: calendar buddhist is not supported here; use "gregory"`},
		{`return [new Intl.NumberFormat("ar-u-nu-arab").format(12), new Intl.NumberFormat("hi-u-nu-deva").format(12)]`,
			`["١٢","१२"]`},
		{`return new Intl.NumberFormat("de-u-nu-thai").format(12)`,
			`threw RangeError: Intl.NumberFormat: numbering system thai is not supported here for de; use latn`},
		{`return (1).toLocaleString("no such")`, `threw RangeError: Incorrect locale information provided: no such`},
		{`return (1).toLocaleString(null)`, `threw TypeError: locales must be a text or a list of texts, not null`},
		{`return Intl.NumberFormat.supportedLocalesOf(["de", "sw", "en-GB", "th-TH"])`, `["de","en-GB"]`},
		{`return [Number.prototype, Date.prototype, Array.prototype, ` +
			`Object.getPrototypeOf(Uint8Array.prototype)].map((p) => ` +
			`p.toLocaleString.length).concat("".localeCompare.length)`, `[0,0,0,0,1]`},
		{`return "".localeCompare.call(undefined, "a")`,
			`threw TypeError: String.prototype.localeCompare called on undefined`},
		{`const u = new Uint8Array([1, 2]); Object.defineProperty(u, "length", { value: 1 }); return u.toLocaleString()`, `"1,2"`},
		{`const b = new ArrayBuffer(4, { maxByteLength: 4 }), u = new Uint8Array(b, 0, 4); b.resize(2); try { ` +
			`u.toLocaleString() } catch (e) { return e.name }`, `"TypeError"`},
		{`return ["istanbul".toLocaleUpperCase("tr"), "ISTANBUL".toLocaleLowerCase("tr-TR"), "i".toLocaleUpperCase(),` +
			` "i".toLocaleUpperCase("sw")]`, `["İSTANBUL","ıstanbul","I","I"]`},
		{`return new Date(Date.UTC(2026, 6, 1, 12)).toLocaleString("de-DE", { timeZone: "europe/berlin", dateStyle: ` +
			`"long", timeStyle: "full" })`, `"1. Juli 2026 um 14:00:00 Mitteleuropäische Sommerzeit"`},
		{`return new Intl.DateTimeFormat("en", { timeZone: "europe/kyiv" }).resolvedOptions().timeZone`,
			`"Europe/Kyiv"`},
		{`return new Date(0).toLocaleString("en", { timeZone: "Mars/Olympus" })`,
			`threw RangeError: Invalid time zone specified: Mars/Olympus; use a name of the IANA database such as ` +
				`"Europe/Berlin", "UTC" or an offset such as "+02:00"`},
		{`const z = Intl.supportedValuesOf("timeZone"); return [z.length > 400, z.includes("Europe/Berlin"), ` +
			`z.every((timeZone) => new Date(0).toLocaleString("en", { timeZone }).length > 10)]`, `[true,true,true]`},
		{`new Intl.Segmenter("de")`, `threw RangeError: Intl.Segmenter is not supported here; split text with ` +
			`[...text] or a regular expression`},
		{`Object.prototype.toJSON = undefined; String.prototype.slice = String.prototype.indexOf = JSON.parse = () ` +
			`=> "no"; return (1234.5).toLocaleString("fr-CH", { style: "currency", currency: "CHF" })`,
			"\"1'234.50\u00a0CHF\""},
	})
}
