package privacy

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A cue is the kind that a word near a number suggests for it, or that the number is something
// else.
type cue = Kind

const (
	noCue cue = ""      // no word nearby says anything
	other cue = "other" // an order number, a version, a time: something that is not personal
)

// cues maps words to what they say about a number. The nearest word before the number counts.
var cues = lazily.Value[map[string]cue]{Make: func() map[string]cue {
	return cueWords(map[cue]string{
		Phone: "phone tel telephone telefon telefono telefone telefoon tlf tfno telephon mobile mobil mobiel movil " +
			"mob cell cellphone fax whatsapp sms call callback handy msisdn portable celular rufnummer fon " +
			"dial phones kontakttelefon",
		Card: "card cc pan visa mastercard amex maestro credit debit creditcard cardnumber cardno kreditkarte karte " +
			"karta carte tarjeta ccnum ccn cartao kaart",
		IBAN:      "iban",
		USSSN:     "ssn social",
		UKNINO:    "nino insurance",
		DETaxID:   "steuerid steueridnr steueridentifikationsnummer steuer idnr identifikationsnummer taxid tin",
		FRNIR:     "nir insee secu securite sociale",
		ESDNI:     "dni nif nie",
		ITCodice:  "codice fiscale codicefiscale",
		NLBSN:     "bsn burgerservicenummer sofinummer sofi",
		PLPESEL:   "pesel",
		INAadhaar: "aadhaar aadhar adhaar uidai",
		BRCPF:     "cpf",
		other: "order orders sku part ref reference invoice tracking serial isbn issn ean upc gtin barcode imei " +
			"version build release id ids uuid guid sha sha1 sha256 md5 hash digest commit ticket timestamp ts time " +
			"epoch date datum amount price total subtotal sum qty quantity port pid size bytes lot batch item " +
			"product model article artikel bestellnummer bestellung rechnung rechnungsnummer " +
			"po case incident seq sequence offset line row nonce seed etag checksum txid transaction trace span " +
			"request asin mpn code duration elapsed latency ms ns count",
	})
}}

func cueWords(of map[cue]string) map[string]cue {
	out := map[string]cue{}
	for c, words := range of {
		for _, w := range strings.Fields(words) {
			out[w] = c
		}
	}
	return out
}

const (
	cueBytes = 64 // distance on the same line within which words count
	cueNear  = 6  // maximum number of words
)

// cueIn returns the cue of the last words of s. A word in camel case or with underscores counts as
// several.
func cueIn(s string) cue {
	if len(s) > cueBytes {
		s = s[len(s)-cueBytes:]
	}
	end, weak := len(s), noCue
	for range cueNear {
		for end > 0 && !isLetter(s[end-1]) {
			if s[end-1] == '\n' {
				return weak
			}
			end--
		}
		whole := end // of the whole camel-case word
		for whole > 0 && (isLetter(s[whole-1]) || s[whole-1] >= '0' && s[whole-1] <= '9') {
			whole--
		}
		if end == whole {
			return weak
		}
		if c, ok := cues.Get()[foldWord(s[whole:end])]; ok && (c != other || !isVague(s[whole:end])) {
			return c
		}
		start := end - 1
		for start > whole && !startsHump(s, start) {
			start--
		}
		switch c, ok := cues.Get()[foldWord(s[start:end])]; {
		case ok && isVague(s[start:end]): // a word before it may name the kind
			weak = other
		case ok && start > whole:
			return c
		}
		end = start
	}
	return weak
}

// isVague reports whether a word says that something is an identifier, but not of what: of a tax
// office, or of an order.
func isVague(w string) bool {
	w = foldWord(w)
	return w == "id" || w == "ids" || w == "ref" || w == "reference"
}

// startsHump reports whether a word of camel case begins at i.
func startsHump(s string, i int) bool {
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	return !isLetter(s[i-1]) || upper(s[i]) && (!upper(s[i-1]) || i+1 < len(s) && isLetter(s[i+1]) && !upper(s[i+1]))
}

// foldWord returns a word in lower case, without the accents that occur in cues.
func foldWord(s string) string {
	s = strings.ToLower(s)
	for i := range len(s) {
		if s[i] >= 0x80 {
			return accents.Get().Replace(s)
		}
	}
	return s
}

var accents = lazily.Value[*strings.Replacer]{Make: func() *strings.Replacer {
	return strings.NewReplacer("é", "e", "è", "e", "ó", "o", "ã", "a", "í", "i", "ç", "c")
}}

// isLetter reports whether c is a letter, or part of a character outside of ASCII.
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 }

// headColumns returns the cue of each column in the first line of a table, and the separator. heads
// is nil if s is not a table.
func headColumns(s string) (heads []cue, by byte) {
	first, rest, ok := strings.Cut(s, "\n")
	if !ok || len(first) > 4096 {
		return nil, 0
	}
	second, _, _ := strings.Cut(rest, "\n")
	for _, sep := range []byte{'\t', ';', ',', '|'} {
		n := strings.Count(first, string(sep))
		if n == 0 || strings.Count(second, string(sep)) < n || strings.ContainsAny(first, "{}[]=") {
			continue
		}
		for _, head := range strings.Split(first, string(sep)) {
			heads = append(heads, cueIn(head))
		}
		return heads, sep
	}
	return nil, 0
}
