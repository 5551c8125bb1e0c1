package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A CaseTool is a tool in a file of cases: the definition that an upstream would send, the
// upstream's name, and the administrator's settings.
type CaseTool struct {
	Upstream    string           `json:"upstream"`
	Name        string           `json:"name"`
	InputSchema json.RawMessage  `json:"inputSchema"`
	Annotations tool.Annotations `json:"annotations"`
	Tags        []string         `json:"tags"`
	Labels      []string         `json:"labels"`
	ReadOnly    *bool            `json:"read_only"`
}

// A CaseResult is the result of one case.
type CaseResult struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Case string `json:"case"`
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
}

// Cases runs a file of cases: a txtar archive with the files
//
//	*.cedar     policies, instead of cfg's
//	tools.json  a list of CaseTools
//	cases       lines, as below
//
// and returns the result of each, and the archive with the actual results in place of the expected
// ones. In cases an indented line is the expected decision of the line before it. The other lines
// are:
//
//	# a comment
//	as ann in ops, dev with client=claude/1.0 roles=admin agent=ci   sets the principal
//	at 2026-03-02T22:15:00+01:00         sets the time
//	labels pii, untrusted                sets the labels of the data read; none clears them
//	inside                               the next calls come from a program; outside ends that
//	inside gvisor                        the same, from a program that runs at this tier
//	call shop.get_order {"id": 1}        decides a call
//	see shop.get_order                   yes or no: whether the tool is listed
//	reveal mail.send email, phone        decides whether a tool may get kinds of personal data
//	read workspace/a.csv                 decides a use of a file; also write
//
// A decision is the effect and the ids of the deciding policies. If they ask, it includes the
// groups that decide: "ask writes [approvers]". Then come the fields removed from the result,
// "allow crm without **.ssn", and the limits, "allow crm within calls: 10 per 1m (crm)". If only
// the effect is expected, the rest is not compared.
func Cases(name string, archive []byte, cfg Config) ([]CaseResult, []byte, error) {
	a := txtar.Parse(archive)
	run := &caseRun{file: name, tools: map[string]*tool.Tool{}}
	var files []File
	var cases *txtar.File
	for i, f := range a.Files {
		switch {
		case strings.HasSuffix(f.Name, ".cedar"):
			files = append(files, File{f.Name, f.Data})
		case f.Name == "tools.json":
			rules, err := run.readText(f.Data)
			if err != nil {
				return nil, nil, tool.Errorf(tool.Invalid, "%s: tools.json: %w", name, err)
			}
			cfg.Rules = append(slices.Clone(cfg.Rules), rules...)
		case f.Name == "cases":
			cases = &a.Files[i]
		default:
			return nil, nil, tool.Errorf(tool.Invalid,
				"%s: unexpected file %s: a suite consists of *.cedar, tools.json and cases", name, clipText(f.Name))
		}
	}
	if cases == nil {
		return nil, nil, tool.Errorf(tool.Invalid, "%s: the file cases is missing", name)
	}
	if len(files) > 0 {
		cfg.Files = files
	}
	var err error
	if run.engine, err = New(cfg); err != nil {
		return nil, nil, err
	}
	// count the lines of the comment and of the files before cases
	if at := bytes.Index(archive, []byte("-- cases --")); at >= 0 {
		run.line = bytes.Count(archive[:at], []byte("\n")) + 1
	}
	if cases.Data, err = run.runAll(cases.Data); err != nil {
		return nil, nil, err
	}
	return run.results, txtar.Format(a), nil
}

type caseRun struct {
	file    string
	line    int // in the archive
	engine  *Engine
	tools   map[string]*tool.Tool
	request Request
	results []CaseResult
}

func (c *caseRun) readText(text []byte) (rules []Rule, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var list []CaseTool
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	for _, t := range list {
		if err := CheckLabels(t.Labels, Labels()); err != nil {
			return nil, err
		}
		made := &tool.Tool{Upstream: t.Upstream, Name: t.Name, InputSchema: t.InputSchema, Annotations: t.Annotations}
		if c.tools[made.Path()] != nil {
			return nil, fmt.Errorf("%s is there twice", made.Path())
		}
		c.tools[made.Path()] = made
		rules = append(rules, Rule{Pattern: made.Path(), Tags: t.Tags, Labels: t.Labels, ReadOnly: t.ReadOnly})
	}
	return rules, nil
}

// runAll runs the cases, and returns their text with the actual results.
func (c *caseRun) runAll(text []byte) ([]byte, error) {
	var out bytes.Buffer
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t\r")
		c.line++
		out.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		at := c.line
		got, decides, err := c.runStep(line)
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "%s:%d: %w", c.file, at, err)
		}
		if !decides {
			continue
		}
		want := ""
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ") {
			want = strings.TrimSpace(lines[i+1])
			i++
			c.line++
		}
		effect, _, _ := strings.Cut(got, " ")
		ok := want == got || want == effect
		c.results = append(c.results, CaseResult{File: c.file, Line: at, Case: line, Want: want, Got: got, OK: ok})
		if ok {
			got = want
		}
		out.WriteString("  " + got + "\n")
	}
	return out.Bytes(), nil
}

// runStep runs one line. decides reports whether it has a result.
func (c *caseRun) runStep(line string) (got string, decides bool, err error) {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "as":
		c.request.Principal, err = casePrincipal(rest)
	case "at":
		c.request.Time, err = time.Parse(time.RFC3339, rest)
	case "labels":
		c.request.Labels = splitNames(rest)
		err = CheckLabels(c.request.Labels, Sources())
	case "findings":
		c.request.Findings = splitNames(rest)
	case "inside":
		c.request.Parent, c.request.Tier = "ex_case", tool.WASM
		if rest != "" {
			c.request.Tier, err = tool.ParseTier(rest)
		}
	case "outside":
		c.request.Parent, c.request.Tier = "", tool.WASM
	case "call", "see":
		path, args, _ := strings.Cut(rest, " ")
		r := c.request
		if r.Tool, err = c.findTool(path); err != nil {
			return "", false, err
		}
		if verb == "see" {
			if c.engine.Shows(r) {
				return "yes", true, nil
			}
			return "no", true, nil
		}
		r.Arguments = json.RawMessage(args)
		r.Tool = r.Tool.ForCall(r.Arguments)
		return c.engine.DecideCall(r).formatDecision(), true, nil
	case revealAction:
		path, kinds, _ := strings.Cut(rest, " ")
		r := c.request
		if r.Kinds = splitNames(kinds); len(r.Kinds) == 0 {
			return "", false, fmt.Errorf("reveal has a tool, and kinds of personal data: reveal mail.send email, phone")
		}
		if r.Tool, err = c.findTool(path); err != nil {
			return "", false, err
		}
		return c.engine.Decide(r).formatDecision(), true, nil
	case readAction, writeAction:
		r := c.request
		r.File = &FileUse{Path: rest, Write: verb == writeAction}
		return c.engine.Decide(r).formatDecision(), true, nil
	default:
		return "", false, fmt.Errorf("%q is none of as, at, labels, findings, inside, outside, call, see, reveal, "+
			"read, write", clipText(verb))
	}
	return "", false, err
}

// findTool returns the tool with a path. Biplane's own tools always exist.
func (c *caseRun) findTool(path string) (*tool.Tool, error) {
	if t := c.tools[path]; t != nil {
		return t, nil
	}
	if name, ok := strings.CutPrefix(path, tool.Own+"."); ok {
		return &tool.Tool{Upstream: tool.Own, Name: name}, nil
	}
	var known []string
	for p := range c.tools {
		known = append(known, p)
	}
	return nil, fmt.Errorf("tools.json has no %s%s", quoteCedar(path), suggestName(path, known))
}

// casePrincipal parses "ann in ops, dev with client=claude/1.0".
func casePrincipal(s string) (tool.Principal, error) {
	who, with, _ := strings.Cut(s, " with ")
	id, groups, _ := strings.Cut(who, " in ")
	p := tool.Principal{ID: strings.TrimSpace(id), Groups: splitNames(groups)}
	for _, field := range strings.Fields(with) {
		k, v, _ := strings.Cut(field, "=")
		switch k {
		case "client":
			p.Client = v
		case "profile":
			p.Profile = v
		case "agent":
			p.Agent = v
		case "person":
			p.Person = v
		case "name":
			p.Name = v
		case "roles":
			p.Roles = splitNames(v)
		case "scopes":
			p.Scopes = splitNames(v)
		default:
			return p, fmt.Errorf("unknown field %q: use client, profile, agent, person, name, roles or scopes",
				clipText(k))
		}
	}
	return p, nil
}

// formatDecision formats the decision for cases.
func (d Decision) formatDecision() string {
	s := string(d.Effect) + " " + d.Policy
	if d.Effect == Ask {
		s += " [" + strings.Join(d.Approvers, ", ") + "]"
	}
	if d.Effect != Deny && len(d.Redact) > 0 {
		s += " without " + strings.Join(d.Redact, ", ")
	}
	if d.Effect != Deny && len(d.Grant.Bounds) > 0 {
		s += " within " + strings.Join(d.Limits(), ", ")
	}
	return s
}
