package program_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

func TestImportsOf(t *testing.T) {
	const source = `import pandas as pd, numpy
from os.path import join
def f():
    import a.b.c  # here
    from .local import x
from  sklearn.tree import (a,
    b)
important = 1
x = "import y"
import json; import re`
	if got := strings.Join(program.ImportsOf(source), " "); got != "a json numpy os pandas sklearn" {
		t.Errorf("imports %q, want those of the import statements", got)
	}
}

func TestForeignModules(t *testing.T) {
	p, err := program.New(program.Config{}).Prepare(program.Request{
		Source: `import { gzipSync } from "node:zlib";
import x from "@a/b/c";
import { put } from "./tools/box";
import { tax } from "./skills/tax";
const fs = require("fs"), own = require("./lib");
await import("net");
console.log(gzipSync, x, put, tax, fs, own);`,
		Skills: map[string]string{"tax.ts": `import { lookup } from "node:dns"; export const tax = lookup;`},
	})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	for _, c := range []struct {
		name, want string
		specifiers []string
	}{
		{"imports", "@a/b/c net zlib", p.Imports},
		{"imports of modules", "dns", p.Loads},
		{"require", "fs", p.Requires},
	} {
		if got := strings.Join(program.ForeignModules(c.specifiers), " "); got != c.want {
			t.Errorf("%s: %q of %q, want %q", c.name, got, c.specifiers, c.want)
		}
	}
}
