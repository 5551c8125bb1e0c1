package catalog

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// thesaurus holds synonyms used by developers and in offices: one group per line, whose words are
// interchangeable. Words before a '>' can be replaced by those after it, but not vice versa. The
// words of a phrase are joined by '_'.
//
//go:embed thesaurus.txt
var thesaurus string

// products describes well-known products, since their tools often don't mention their subject.
var products = lazily.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"github": "repository code git project software", "gitlab": "repository code git project software",
		"slack": "chat message team colleague", "discord": "chat message community server",
		"teams":    "chat message meeting",
		"telegram": "chat message", "whatsapp": "chat message",
		"gmail": "email mail message", "outlook": "email mail message calendar", "sendgrid": "email mail",
		"calendar": "meeting appointment schedule", "gcal": "calendar meeting appointment schedule",
		"calendly": "calendar meeting booking",
		"zoom":     "video call meeting", "notion": "document wiki page note", "confluence": "wiki document page",
		"drive": "file document storage", "gdrive": "file document storage", "dropbox": "file storage",
		"box":    "file storage",
		"sheets": "spreadsheet table cell", "airtable": "spreadsheet table database record",
		"excel":  "spreadsheet cell",
		"linear": "ticket task issue tracker", "jira": "ticket task issue tracker", "asana": "task project",
		"trello":  "board kanban card task",
		"todoist": "todo task", "clickup": "task project", "monday": "board task",
		"stripe": "payment billing money", "paypal": "payment money", "square": "payment",
		"quickbooks": "accounting invoice",
		"hubspot":    "crm sales marketing customer", "salesforce": "crm sales customer", "pipedrive": "crm sales deal",
		"shopify": "shop store ecommerce product order", "zendesk": "support helpdesk customer ticket",
		"intercom": "support customer chat",
		"sentry":   "error exception crash monitoring", "datadog": "monitoring metrics logs",
		"grafana":   "monitoring dashboard graph",
		"pagerduty": "on call incident alert", "prometheus": "metrics monitoring",
		"postgres": "database sql table", "postgresql": "database sql table", "mysql": "database sql table",
		"sqlite":  "database sql table",
		"mongodb": "database nosql document record", "redis": "cache key value", "snowflake": "database warehouse sql",
		"bigquery": "database warehouse sql", "elasticsearch": "search index log", "supabase": "database sql",
		"filesystem": "file folder disk", "fs": "file folder disk", "kubernetes": "cluster container workload deploy",
		"k8s": "cluster container workload deploy", "docker": "container image", "aws": "cloud amazon",
		"gcp":   "cloud google",
		"azure": "cloud microsoft", "cloudflare": "cdn dns web", "vercel": "deploy web", "netlify": "deploy web",
		"terraform": "infrastructure cloud provision", "vault": "secret password credential",
		"npm":  "package javascript library",
		"pypi": "package python library", "figma": "design mockup", "playwright": "browser web page",
		"puppeteer": "browser web page",
		"browser":   "web page site", "fetch": "web page url download", "brave": "web search internet",
		"tavily": "web search internet",
		"exa":    "web search internet", "maps": "location place route address", "weather": "forecast temperature rain",
		"spotify": "music song", "youtube": "video", "twitter": "social post", "x": "social post",
		"linkedin": "social network post",
		"reddit":   "social post", "deepl": "translation language", "memory": "knowledge remember fact",
		"git": "repository commit version",
	}
}}

// A lexicon is the thesaurus indexed by stems.
type lexicon struct {
	same    map[string][]string // stem or phrase of stems to its synonyms
	longest int                 // number of words in the longest phrase
}

// synonyms returns the lexicon. It is created on first use.
var synonyms = sync.OnceValue(newLexicon)

func newLexicon() *lexicon {
	l := &lexicon{same: map[string][]string{}}
	for line := range strings.Lines(thesaurus) {
		from, to, oneWay := strings.Cut(line, ">")
		group := stemPhrases(from)
		target := group
		if oneWay {
			target = stemPhrases(to)
		}
		for _, g := range group {
			l.longest = max(l.longest, strings.Count(g, " ")+1)
			for _, other := range target {
				if other != g && !strings.Contains(other, " ") {
					l.same[g] = append(l.same[g], other)
				}
			}
		}
	}
	return l
}

// stemPhrases returns the stemmed words and phrases of a line. The words of a phrase are separated
// by one space.
func stemPhrases(line string) []string {
	var out []string
	for _, f := range strings.Fields(line) {
		parts := strings.Split(f, "_")
		for i, p := range parts {
			parts[i] = stem(p)
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// phrase returns how many words at the start of stems form a phrase of the thesaurus, or 0 if none
// do.
func (l *lexicon) phrase(stems []string) int {
	for n := min(l.longest, len(stems)); n > 1; n-- {
		if len(l.same[strings.Join(stems[:n], " ")]) > 0 {
			return n
		}
	}
	return 0
}
