package catalog

import "strings"

// thesaurus holds what developers and offices call the same thing: groups of words that stand for each other. What
// is before a '>' stands for what is after it, but not the other way round. Words of a phrase are joined by '_'.
const thesaurus = `
create make add new open start file raise register set_up setup generate build write_up > create add insert new
log jot note_down write_down put_down > create add write note append
enter save store record remember > create add insert write set put
post send write tell say message notify inform announce share publish tweet dm ping
reply answer respond reaction
comment remark feedback review note annotation
delete remove erase drop purge destroy discard wipe get_rid trash clear kill clean_up
cancel stop call_off abort terminate end halt shut_down
stop kill shut turn_off power_off terminate
start boot launch turn_on power_on spin_up begin resume play
run execute invoke call launch trigger fire evaluate perform
update change edit modify alter adjust amend correct fix rename set revise patch replace
move transfer shift put relocate migrate transition
move rename
merge land combine integrate join
list show all which browse enumerate display what
list existing exist have got > list
get read show view fetch retrieve see look open display print load give
get check know tell > get
search find look_up lookup look_for locate query hunt where seek discover grep filter
copy clone duplicate fork
close finish complete done resolve finished solved tick_off check_off accomplish
done finished won > stage status state transition complete
archive close put_away
approve accept confirm sign_off ok agree
reject decline refuse deny
schedule plan book arrange set_up organize organise
schedule timetable shift rota roster calendar
share grant give permission access allow invite let_see
permission right privilege allow may
upload put push attach import
download export fetch pull
export convert turn_into save_as render
publish release ship deploy roll_out rollout launch go_live
release version deploy deployment
apply roll_out deploy
rollback roll_back undo revert go_back back_out restore
retry rerun re_run try_again again restart repeat
mute silence snooze ignore suppress quiet
block ban kick kick_out expel banish
approve acknowledge ack take_on handle
assign owner assignee responsible give_to hand_over delegate
tag label mark flag category
describe detail explain structure schema definition
schema field column structure attribute property
compute calculate aggregate average sum total group count
statistic stat metric measure usage info figure number
monitor alert alarm watch warning
alert warning alarm notification
translate language
pay charge bill payment checkout transfer wire
refund reimburse repay chargeback return
dispute chargeback
coupon discount promo voucher code
invoice bill billed billing receipt
cost price spend expense bill money charge
balance money funds account
subscription plan membership recurring
customer client buyer user account patron shopper consumer
user member person people account profile who
member people person teammate colleague employee staff everyone
contact lead prospect person customer
lead prospect
deal opportunity sale
order purchase bought sale
product item article goods merchandise
inventory stock quantity warehouse
fulfillment ship shipment shipping parcel delivery tracking
company organization organisation business account firm org
team squad group crew department
project initiative program
issue ticket bug defect problem task story report
task todo to_do reminder remind chore assignment action_item
incident outage page paging emergency down
error exception crash failure bug fault fail broken
crash error exception issue
trace traceback stacktrace span stack
sprint iteration cycle
estimate points story_points
worklog hours time_spent effort log_time
pull_request pr merge_request mr change proposal
repository repo project codebase
branch line
commit change history
code source
code function program script snippet
workflow pipeline ci build action job
secret password credential token key passphrase
credential key secret login
rotate replace renew
vulnerability cve security weakness hole exploit
dependency package library module
package library module dependency
file document doc attachment
directory folder path
tree hierarchy
document page article doc wiki
wiki confluence page knowledge_base
page website site web tab
website site page url web
url link address
form field
screenshot picture image photo capture snapshot
image picture photo icon graphic
design mockup figma wireframe
message chat text dm
email mail message inbox letter
draft prepare
newsletter email mail
channel room chat group
server community guild
thread conversation discussion
reaction emoji
status state
calendar agenda appointment
event meeting appointment call invitation
meeting call conference video_call
free available availability
busy free availability
invitation invite event
attendee participant guest people
transcript caption subtitle
recording video
spreadsheet sheet excel table
cell value range
row record entry line
record row document entry
table relation collection
collection table
database db sql
query statement select sql
index speed_up faster
performance slow latency speed
explain plan why
log output stdout print
log stdout
console log
network request api traffic call
container docker workload
pod workload container service
replica instance copy
scale instance resize grow
instance vm virtual_machine server machine
function lambda serverless
bucket storage s3
object file blob
storage cloud
key entry
cache cached redis
expiry ttl expire minute
pattern begin prefix match start
memory graph knowledge fact
entity person thing
observation fact note
relation relationship link connection edge
link connect relate relation
node entity concept
dashboard graph chart report
annotation mark note
metric chart graph series
host machine server
time clock hour
timezone zone where
weather rain temperature storm snow
forecast weather
geocode coordinate latitude longitude
direction route way navigate
place restaurant cafe shop nearby near
elevation height altitude
location place where address
playback play music listen
track song music
playlist list mix
search_web google internet web online
web internet online news
tweet twitter x social
transaction spend payment
transfer pay send wire
beneficiary recipient
override take_over substitute replace swap
on_call oncall duty
history version revision edited
version revision release
filter rule automatically
template boilerplate
checklist step item
card item task ticket note
board kanban
convert turn_into transform qualify
element button
click press tap push
navigate open go_to visit
navigate website url
fill enter type complete
root_cause diagnose why reason
preview plan dry_run
infrastructure terraform
backup dump
notification alert
permission role
role group
`

// products says what well-known products are about, as tools often leave that out.
var products = map[string]string{
	"github": "repository code git project software", "gitlab": "repository code git project software",
	"slack": "chat message team colleague", "discord": "chat message community server", "teams": "chat message meeting",
	"telegram": "chat message", "whatsapp": "chat message",
	"gmail": "email mail message", "outlook": "email mail message calendar", "sendgrid": "email mail",
	"calendar": "meeting appointment schedule", "gcal": "calendar meeting appointment schedule", "calendly": "calendar meeting booking",
	"zoom": "video call meeting", "notion": "document wiki page note", "confluence": "wiki document page",
	"drive": "file document storage", "gdrive": "file document storage", "dropbox": "file storage", "box": "file storage",
	"sheets": "spreadsheet table cell", "airtable": "spreadsheet table database record", "excel": "spreadsheet cell",
	"linear": "ticket task issue tracker", "jira": "ticket task issue tracker", "asana": "task project", "trello": "board kanban card task",
	"todoist": "todo task", "clickup": "task project", "monday": "board task",
	"stripe": "payment billing money", "paypal": "payment money", "square": "payment", "quickbooks": "accounting invoice",
	"hubspot": "crm sales marketing customer", "salesforce": "crm sales customer", "pipedrive": "crm sales deal",
	"shopify": "shop store ecommerce product order", "zendesk": "support helpdesk customer ticket", "intercom": "support customer chat",
	"sentry": "error exception crash monitoring", "datadog": "monitoring metrics logs", "grafana": "monitoring dashboard graph",
	"pagerduty": "on call incident alert", "prometheus": "metrics monitoring",
	"postgres": "database sql table", "postgresql": "database sql table", "mysql": "database sql table", "sqlite": "database sql table",
	"mongodb": "database nosql document record", "redis": "cache key value", "snowflake": "database warehouse sql",
	"bigquery": "database warehouse sql", "elasticsearch": "search index log", "supabase": "database sql",
	"filesystem": "file folder disk", "fs": "file folder disk", "kubernetes": "cluster container workload deploy",
	"k8s": "cluster container workload deploy", "docker": "container image", "aws": "cloud amazon", "gcp": "cloud google",
	"azure": "cloud microsoft", "cloudflare": "cdn dns web", "vercel": "deploy web", "netlify": "deploy web",
	"terraform": "infrastructure cloud provision", "vault": "secret password credential", "npm": "package javascript library",
	"pypi": "package python library", "figma": "design mockup", "playwright": "browser web page", "puppeteer": "browser web page",
	"browser": "web page site", "fetch": "web page url download", "brave": "web search internet", "tavily": "web search internet",
	"exa": "web search internet", "maps": "location place route address", "weather": "forecast temperature rain",
	"spotify": "music song", "youtube": "video", "twitter": "social post", "x": "social post", "linkedin": "social network post",
	"reddit": "social post", "deepl": "translation language", "memory": "knowledge remember fact", "git": "repository commit version",
}

// A lexicon is the thesaurus by stems.
type lexicon struct {
	same    map[string][]string // stem or phrase of stems to the stems that stand for it
	longest int                 // words of the longest phrase
}

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

// stemPhrases gives the words and phrases of a line, stemmed; the words of a phrase are parted by one space.
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

// phrase says how many words at the beginning of stems are a phrase of the thesaurus; 0 where none are.
func (l *lexicon) phrase(stems []string) int {
	for n := min(l.longest, len(stems)); n > 1; n-- {
		if len(l.same[strings.Join(stems[:n], " ")]) > 0 {
			return n
		}
	}
	return 0
}
