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
