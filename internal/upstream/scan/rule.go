package scan

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// minText is the length of the shortest text that a rule can match.
const minText = 5

// A rule finds one kind of text. Patterns are matched against foldText's result.
type rule struct {
	kind   Kind
	says   string
	needs  []string // the pattern is tried only if the text contains one of these,
	with   []string // and one of these, if there are any
	expr   string
	except []string // a match that contains one of these is none

	once    sync.Once // compiles expr when a text needs it; at initialization it delays every start
	pattern *regexp.Regexp
}

// isCandidate reports whether a folded text contains words that the pattern needs.
func (r *rule) isCandidate(folded string) bool {
	return containsAny(folded, r.needs) && (len(r.with) == 0 || containsAny(folded, r.with))
}

// matchText returns the part of a folded text that the rule finds, or "". The text is a candidate.
func (r *rule) matchText(folded string) string {
	r.once.Do(func() { r.pattern = regexp.MustCompile(r.expr) })
	if m := r.pattern.FindString(folded); !containsAny(m, r.except) {
		return m
	}
	return ""
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// The parts of patterns.
const (
	// privatePath matches the places of credentials on a person's machine.
	privatePath = `(?:~/?\.(?:ssh|aws|gnupg|kube|docker|cursor|claude|config/gcloud|netrc|npmrc|git-credentials)\b` +
		`|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|/etc/(?:passwd|shadow)\b|\bmcp\.json\b|(?:^|[\s/'"(])\.env\b)`
	user = `(?:the |your )?(?:end[- ])?(?:user|human|operator)\b`

	concealment = "tells the model to hide something from the user"
)

// users are the words that user needs.
var users = []string{"user", "human", "operator"}

// The white space before a text that moves it out of sight.
const (
	manySpaces = 200
	manyLines  = 30
)

// isPadded reports whether a text follows so much white space that it is out of sight.
func isPadded(s string) bool {
	spaces, lines := 0, 0
	for _, r := range s {
		switch {
		case r == '\n':
			spaces, lines = 0, lines+1
		case unicode.IsSpace(r):
			spaces++
		case spaces >= manySpaces || lines >= manyLines:
			return true
		default:
			spaces, lines = 0, 0
		}
	}
	return false
}

var rules = []*rule{
	{
		kind: Instructions, says: "tells the model to ignore its instructions",
		needs: []string{"ignore", "disregard", "forget", "override", "bypass"},
		with: []string{"instruct", "prompt", "rule", "message", "direct", "guideline", "command", "context",
			"polic", "restrict"},
		expr: `\b(?:ignore|disregard|forget|override|bypass)(?: (?:all|any|the|of|your|my|every|` +
			`these|those)){0,3} (?:previous|prior|above|earlier|preceding|existing|system|safety|other|original)` +
			`(?: (?:system|user|safety|and|or|other)){0,2} (?:instruction|prompt|rule|message|direction|guideline|` +
			`command|context|polic|restriction)\w*`,
	},
	{
		kind: Instructions, says: "pretends to be a message of the system",
		needs: []string{"<important", "<system", "</important", "</system", "<|", "[inst]", "<<sys>>", "[system"},
		expr: `</?important>|</?system(?:[-_ ]?(?:prompt|message|reminder|instructions?))?>` +
			`|<\|(?:im_start|im_end|system|user|assistant|endoftext)\|?>|\[inst\]|<<sys>>` +
			`|\[system(?: (?:message|prompt|note))?\]`,
	},
	{
		kind: Instructions, says: concealment,
		needs: users, with: []string{"not", "n't", "dont", "never", "keep", "hide", "conceal"},
		expr: `\b(?:do not|don't|dont|never|must not|should not) (?:ever )?(?:` +
			`(?:tell|inform|notify|alert|warn) ` + user +
			`(?: that\b| about\b| of\b| what\b| why\b| anything\b|[.!;,]|$)` +
			`|let ` + user + ` (?:know|see|notice|find out)` +
			`|(?:mention|reveal|disclose|report|show)(?: [\w',/-]+){0,6} to ` + user + ` (?:that|what|why|anything)\b` +
			`|(?:mention|reveal|disclose) (?:this|that|it|any of this|these \w+)\b(?: to ` + user + `)?)` +
			`|\b(?:keep|hide|conceal) (?:this|that|it|these)(?: \w+){0,3} (?:secret from|hidden from|from) ` + user +
			`|\b` + user + ` (?:must|should|may|need)(?: not| never) ` +
			`(?:know|be told|be informed|be notified|find out|notice)`,
	},
	{
		kind: Instructions, says: concealment,
		needs: users, with: []string{"without "},
		expr: `(?:\b(?:never|not|don't)\b[^.]{0,80})?\bwithout ` +
			`(?:telling|informing|notifying|alerting|mentioning (?:it|this|that) to|the knowledge of) ` + user,
		except: []string{"never", "not ", "don't"},
	},
	{
		kind: Instructions, says: "tells the model to read private files",
		needs: []string{"~", "id_", ".aws", "/etc/", "mcp.json", ".env"},
		expr: `\b(?:read|reads|open|cat|access|copy|include|attach|send|upload|paste|pass|retrieve)\b` +
			`[^.]{0,60}?` + privatePath + `|\bcontents? of[^.]{0,40}?` + privatePath,
		except: []string{"path to", "path of"},
	},
	{
		kind: Instructions, says: "sends data to another place",
		needs: []string{"@", "://", "bcc"},
		with: []string{"forward ", "bcc", "cc ", "send ", "copy ", "transmit", "exfiltrate", "upload ", "post ",
			"leak ", "report "},
		expr: `\b(?:forward|bcc|cc|send|copy|transmit|exfiltrate|upload|post|leak|report) ` +
			`(?:(?:a copy of|all|every|any|the|your|this|each|user|full|complete|entire) ){1,4}[^.]{0,60}?` +
			`\b(?:to|at) (?:\S{1,20} ){0,3}?(?:[\w.+-]+@[\w-]+\.[\w.-]+|https?://\S+)` +
			`|\balways bcc\b[^.]{0,60}`,
		except: []string{"@example.", "://example.", ".example.com", "localhost", "127.0.0.1"},
	},
	{
		kind: Instructions, says: "directs how the model uses other tools",
		needs: []string{"tool"}, with: []string{"other ", "any ", "all ", "every "},
		expr: `\b(?:when|whenever|before|after|each time|every time)(?: you)?(?: are)? ` +
			`(?:using|use|calling|call|invoking|invoke) (?:any|all|every|another|other|the other)(?: other)? tools?\b` +
			`[^.]{0,40}?\b(?:you )?(?:must|always|have to|need to)\b[^.]{0,60}` +
			`|\b(?:never|do not|don't) (?:ever )?(?:use|call|invoke|trust) (?:any|all|the)? ?other (?:\w+ )?tools?\b`,
	},
}

// requests finds argument texts that ask for a secret, or for what others have said.
var requests = []*rule{
	{
		kind: Secret, says: "requests a secret",
		needs: []string{"key", "password", "token", "secret", "credential", "phrase"},
		with: []string{"include", "provide", "pass ", "put ", "paste", "enter ", "insert", "add ", "supply", "copy",
			"here"},
		expr: `\b(?:include|provide|pass|put|paste|enter|insert|add|supply|copy)(?: here)? ` +
			`(?:your|the user's|the users'|all|any|their|my) (?:\w+ ){0,3}?` +
			`(?:api[ -]?keys?|passwords?|passphrase|access tokens?|auth tokens?|private keys?|ssh keys?|` +
			`secrets|credentials|seed phrase|recovery phrase)\b`,
	},
	{
		kind: Secret, says: "requests the conversation",
		needs: []string{"system prompt", "conversation", "chat", "message"},
		with:  []string{"your", "model", "assistant", "full", "entire", "whole", "complete", "verbatim", "all "},
		expr: `\b(?:your|the model's|the assistant's|full|entire|complete|verbatim) system prompt\b` +
			`|\b(?:the |all |your )*(?:full|entire|whole|complete|verbatim) ` +
			`(?:conversation|chat)(?: history| log| transcript| so far)?\b` +
			`|\ball (?:the )?(?:previous|prior|earlier) (?:messages|conversations?)\b`,
	},
}

// secrets lists the names of arguments that hold secrets, as tool.Snake spells them. Names such as
// page_token and secret_id hold none.
var secrets = lazily.Words(`
	password passwd passphrase user_password db_password api_key apikey openai_api_key
	anthropic_api_key api_token access_token auth_token bearer_token refresh_token github_token
	oauth_token session_token session_cookie client_secret secret_key private_key ssh_key
	ssh_private_key secret_access_key aws_secret_access_key credentials credential seed_phrase
	recovery_phrase mnemonic cvv credit_card_number`)

// requestsSecret reports whether an argument of this name holds a secret.
func requestsSecret(name string) bool { return secrets.Has(strings.Trim(tool.Snake(name), "_")) }
