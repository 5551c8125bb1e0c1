package catalog

import "strings"

// A route is the method and the path of an HTTP request, which the description of a tool ends with
// if the tool was made of an API: "GET /repos/{owner}/{repo}/issues (issues)".
type route struct {
	verbs string // what the method does
	path  string // the words of the path before its target
	// target is what the request is about: the words of the path's last segments that aren't
	// parameters.
	target string
	tag    string

	deletes bool
}

// splitRoute returns a description without its route, and the route.
func splitRoute(description string) (text string, r route) {
	at := strings.LastIndexByte(description, '\n') + 1
	line := strings.TrimPrefix(description[at:], "Deprecated. ")
	method, rest, ok := strings.Cut(line, " ")
	if !ok || !strings.HasPrefix(rest, "/") {
		return description, r
	}
	path, tag, _ := strings.Cut(rest, " (")
	one := strings.HasSuffix(path, "}")
	switch method {
	case "GET", "HEAD", "QUERY":
		if r.verbs = "list"; one {
			r.verbs = "get read"
		}
	case "POST":
		r.verbs = "create add"
	case "PUT":
		r.verbs = "set replace update"
	case "PATCH":
		r.verbs = "update change"
	case "DELETE":
		r.verbs, r.deletes = "delete remove", true
	case "OPTIONS", "TRACE":
	default:
		return description, r
	}
	var words []string
	for segment := range strings.SplitSeq(path, "/") {
		if segment != "" && !strings.HasPrefix(segment, "{") {
			words = append(words, segment)
		}
	}
	if n := len(words); n > 0 {
		r.path, r.target = strings.Join(words[:n-1], " "), words[n-1]
	}
	r.tag = strings.TrimSuffix(tag, ")")
	return description[:at], r
}

// splitLead returns the first sentence of a description, and the rest.
func splitLead(text string) (lead, rest string) {
	text = strings.TrimSpace(text)
	end := len(text)
	if i := strings.Index(text, "\n\n"); i >= 0 {
		end = i
	}
	for from := minLead; from < end; {
		i := strings.Index(text[from:end], ". ")
		if i < 0 {
			break
		}
		if from += i + 1; !strings.HasSuffix(text[:from], "e.g.") && !strings.HasSuffix(text[:from], "i.e.") {
			end = from
		}
	}
	return text[:end], text[end:]
}

// minLead is the minimum length of the first sentence, in bytes.
const minLead = 24
