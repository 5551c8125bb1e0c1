package tokens

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

var update = flag.Bool("update", false, "write vocabulary.bin")

// TestVocabulary compares the vocabulary with that of the library. With -update it writes it.
func TestVocabulary(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("load the library's vocabulary: %v", err)
	}
	ranks := map[string]int{}
	sizes := make([][]string, maxToken+1)
	for rank := uint(0); ; rank++ {
		token, err := codec.Decode([]uint{rank})
		if err != nil {
			break
		}
		ranks[token] = int(rank)
		sizes[len(token)] = append(sizes[len(token)], token)
	}
	var want []byte
	appendNumber := func(n int) { want = append(want, byte(n>>16), byte(n>>8), byte(n)) }
	for _, tokens := range sizes[1:] {
		slices.Sort(tokens)
		appendNumber(len(tokens))
		for _, token := range tokens {
			want = append(want, token...)
		}
		for _, token := range tokens {
			appendNumber(ranks[token])
		}
	}
	if *update {
		if err := os.WriteFile("vocabulary.bin", want, 0o644); err != nil {
			t.Fatalf("write the vocabulary: %v", err)
		}
		t.Skip("vocabulary.bin was written")
	}
	if string(want) != vocabulary {
		t.Fatalf("vocabulary.bin has %d bytes and differs from the library's, %d bytes of %d tokens: "+
			"go test ./internal/base/tokens -run Vocabulary -update", len(vocabulary), len(want), len(ranks))
	}
	for _, token := range []string{"", " never a token", string(make([]byte, 200))} {
		if rank, ok := findTables().findRank(token); ok {
			t.Errorf("findRank(%q) = %d, want none", token, rank)
		}
	}
}
