package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A yamlWriter writes JSON as YAML. Numbers and texts stay exactly what they are, which the library
// that reads the configuration doesn't promise: it drops tabs and rounds large numbers. Texts are
// written in JSON's form, which YAML has, too, unless they are plain words.
type yamlWriter struct {
	json *json.Decoder
	out  strings.Builder
}

// writeYAML writes JSON as YAML.
func writeYAML(w io.Writer, raw []byte) error {
	y := &yamlWriter{json: json.NewDecoder(strings.NewReader(string(raw)))}
	y.json.UseNumber()
	if err := y.writeValue("\n", true); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimPrefix(y.out.String(), "\n")+"\n")
	return err
}

// writeValue writes the next value. Each of its lines begins with indent, which begins with a line
// break. alone means that the value doesn't follow a list marker.
func (y *yamlWriter) writeValue(indent string, alone bool) error {
	t, err := y.json.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if !y.json.More() {
			empty := map[json.Delim]string{'{': "{}", '[': "[]"}
			y.out.WriteString(" " + empty[t])
			_, err := y.json.Token()
			return err
		}
		for first := true; y.json.More(); first = false {
			line := indent
			if first && !alone {
				line = " "
			}
			if err := y.writeItem(t, line, indent); err != nil {
				return err
			}
		}
		_, err := y.json.Token()
		return err
	case string:
		y.out.WriteString(" " + quoteYAML(t))
	case nil:
		y.out.WriteString(" null")
	default:
		fmt.Fprintf(&y.out, " %v", t)
	}
	return nil
}

// writeItem writes one member of an object, or one element of a list, which begins with line.
func (y *yamlWriter) writeItem(kind json.Delim, line, indent string) error {
	y.out.WriteString(line)
	if kind == '[' {
		y.out.WriteString("-")
		return y.writeValue(indent+"  ", false)
	}
	key, err := y.json.Token()
	if err != nil {
		return err
	}
	name, _ := key.(string)
	y.out.WriteString(quoteYAML(name) + ":")
	return y.writeValue(indent+"  ", true)
}

var plainWord = lazily.Regexp(`^[A-Za-z_/][A-Za-z0-9_./@+-]*( [A-Za-z0-9_./@+-]+)*$`)

// notText lists plain words that some readers of YAML don't read as texts.
var notText = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}

// controls are characters that must not reach a terminal.
var controls = lazily.Regexp(`[\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}]`)

// quoteYAML returns a text as YAML on one line, without control characters.
func quoteYAML(s string) string {
	if plainWord.Get().MatchString(s) && !slices.Contains(notText, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always has a form
	return controls.Get().ReplaceAllStringFunc(strings.TrimSuffix(b.String(), "\n"), func(c string) string {
		return fmt.Sprintf(`\u%04x`, []rune(c)[0])
	})
}
