package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Agents that write programs can read how, as a skill (extension io.modelcontextprotocol/skills).
// The files of a skill are resources. In mode Direct there are no skills: agents see the upstreams
// as they are.

const (
	skillsExtension = "io.modelcontextprotocol/skills"
	skillPrefix     = "skill://"
	skillFile       = "SKILL.md"
	folderType      = "inode/directory"
)

// The methods of the extension.
const (
	listSkills    = "skills/list"
	getSkill      = "skills/get"
	readDirectory = "resources/directory/read"
)

var skillMethods = []string{listSkills, getSkill, readDirectory}

// skills are the skills that the server has.
type skills struct {
	all   []skill
	files map[string]skillResource // by URI: the files, and the folders
}

// A skill is an entry of skills/list.
type skill struct {
	URI         string            `json:"uri"`
	Frontmatter map[string]string `json:"frontmatter"`
	Resources   []skillDigest     `json:"resources"`
}

// A skillDigest identifies the content of a file.
type skillDigest struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// A skillResource is a file or a folder of a skill.
type skillResource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType"`
	Size        int    `json:"size,omitempty"`
	text        string
}

// A skillResult is the result of any request about skills and their files.
type skillResult struct {
	Skills     []skill         `json:"skills,omitempty"`
	Skill      *skill          `json:"skill,omitempty"`
	Resources  []skillResource `json:"resources,omitempty"`
	Templates  *[]struct{}     `json:"resourceTemplates,omitempty"`
	Contents   []skillContent  `json:"contents,omitempty"`
	TTLMs      *int            `json:"ttlMs,omitempty"`
	CacheScope string          `json:"cacheScope,omitempty"`
}

// A skillContent is the content of a file.
type skillContent struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
}

// skillSettings are the settings of the extension.
type skillSettings struct {
	DirectoryRead bool `json:"directoryRead"`
}

// loadSkills reads the skills in the folders of files. It panics if one is invalid: they are part
// of the program.
func loadSkills(files fs.FS) *skills {
	s := &skills{files: map[string]skillResource{}}
	if files == nil {
		return s
	}
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err)
	}
	for _, f := range folders {
		k := skill{URI: skillPrefix + f.Name() + "/" + skillFile}
		err := fs.WalkDir(files, f.Name(), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			uri := skillPrefix + name
			if d.IsDir() {
				s.files[uri] = skillResource{URI: uri, Name: path.Base(name), MIMEType: folderType}
				return nil
			}
			raw, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(raw)
			k.Resources = append(k.Resources, skillDigest{uri, "sha256:" + hex.EncodeToString(sum[:]), len(raw)})
			r := skillResource{URI: uri, Name: path.Base(name), MIMEType: "text/markdown", Size: len(raw),
				text: string(raw)}
			if uri == k.URI {
				k.Frontmatter, err = readFrontmatter(raw)
				r.Name, r.Description = k.Frontmatter["name"], k.Frontmatter["description"]
			}
			s.files[uri] = r
			return err
		})
		if err != nil {
			panic(fmt.Sprintf("skill %s: %v", f.Name(), err))
		}
		s.all = append(s.all, k)
	}
	return s
}

// readFrontmatter reads the lines "key: text" at the start of a SKILL.md.
func readFrontmatter(raw []byte) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 0; lines.Scan(); n++ {
		key, value, ok := strings.Cut(lines.Text(), ": ")
		switch {
		case n == 0 && lines.Text() == "---":
		case n > 0 && lines.Text() == "---" && out["name"] != "" && out["description"] != "":
			return out, nil
		case n == 0 || !ok:
			return nil, fmt.Errorf("line %d of its front matter is invalid", n+1)
		default:
			out[key] = value
		}
	}
	return nil, fmt.Errorf("its front matter has no end, no name or no description")
}

// visibleIn reports whether clients in a mode see skills.
func (k *skills) visibleIn(m Mode) bool { return m != Direct && len(k.all) > 0 }

// A skillRequest is the request of a method of the extension.
type skillRequest struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor"`
}

// addSkillMethods makes the SDK accept the methods of the extension, which answerRequest answers.
func addSkillMethods(srv *mcp.Server) {
	for _, method := range skillMethods {
		addMethod[*skillRequest](srv, method)
	}
}

// addMethod makes the SDK accept a method, which middleware answers.
func addMethod[P interface {
	*T
	mcp.Params
}, T any](srv *mcp.Server, method string) {
	err := mcp.AddReceivingCustomMethod(srv, method,
		func(context.Context, *mcp.ServerSession, P) (*callResult, error) {
			return nil, methodNotFound(method)
		})
	if err != nil {
		panic(err) // the SDK has a method of that name
	}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
}

// answerRequest answers the methods of the extension, and those about resources in the modes in
// which the files of skills are the only resources. The request arrived at e.
func (k *skills) answerRequest(e *endpoint, method string, req mcp.Request) (mcp.Result, error) {
	switch r := req.(type) {
	case *mcp.ServerRequest[*skillRequest]:
		if r.Params == nil {
			r.Params = &skillRequest{}
		}
		modern := isModern(r.ProtocolVersion())
		switch method {
		case listSkills:
			if r.Params.Cursor != "" {
				return nil, errNoCursor
			}
			return encodeSkills(e, skillResult{Skills: k.all}, modern)
		case getSkill:
			i := slices.IndexFunc(k.all, func(one skill) bool { return one.URI == r.Params.URI })
			if i < 0 {
				return nil, noSkillFile(r.Params.URI, true)
			}
			return encodeSkills(e, skillResult{Skill: &k.all[i]}, modern)
		}
		if k.files[r.Params.URI].MIMEType != folderType {
			return nil, noSkillFile(r.Params.URI, true)
		}
		if r.Params.Cursor != "" {
			return nil, errNoCursor
		}
		return encodeSkills(e, skillResult{Resources: k.childrenOf(r.Params.URI)}, modern)
	case *mcp.ListResourcesRequest:
		if r.Params != nil && r.Params.Cursor != "" {
			return nil, errNoCursor
		}
		var list []skillResource
		for _, one := range k.all {
			list = append(list, k.files[one.URI])
		}
		return encodeSkills(e, skillResult{Resources: list}, isModern(r.ProtocolVersion()))
	case *mcp.ListResourceTemplatesRequest:
		return encodeSkills(e, skillResult{Templates: &[]struct{}{}}, isModern(r.ProtocolVersion()))
	case *mcp.ReadResourceRequest:
		modern := isModern(r.ProtocolVersion())
		if r.Params == nil {
			return nil, errNoParams
		}
		f, ok := k.files[r.Params.URI]
		if !ok || f.MIMEType == folderType {
			return nil, noSkillFile(r.Params.URI, modern)
		}
		return encodeSkills(e, skillResult{Contents: []skillContent{{f.URI, f.MIMEType, f.text}}}, modern)
	}
	return nil, methodNotFound(method)
}

var errNoCursor = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor: list from the start"}

// noSkillFile returns the error for an unknown URI.
func noSkillFile(uri string, modern bool) error {
	e := &jsonrpc.Error{Code: codeNotFound, Message: "not found: " + shortenText(uri)}
	if modern {
		e.Code = jsonrpc.CodeInvalidParams
	}
	if data, err := tool.Marshal(map[string]string{"uri": uri}); err == nil {
		e.Data = data
	}
	return e
}

// childrenOf returns the files and folders in a folder.
func (k *skills) childrenOf(folder string) (all []skillResource) {
	for uri, f := range k.files {
		if path.Dir(strings.TrimPrefix(uri, skillPrefix)) == strings.TrimPrefix(folder, skillPrefix) {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b skillResource) int { return strings.Compare(a.URI, b.URI) })
	return all
}

// encodeSkills returns a result that clients of e may keep.
func encodeSkills(e *endpoint, v skillResult, modern bool) (mcp.Result, error) {
	if modern {
		var ttl int
		ttl, v.CacheScope = e.cacheHint()
		v.TTLMs = &ttl
	}
	raw, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &callResult{raw: raw, modern: modern}, nil
}
